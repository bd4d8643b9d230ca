// One who waits in the queue of a lock: listed first, asleep later.
//
// Problem. Whoever enlists itself and then parks can be found by a waker before it is off its stack;
// and whoever parks first and is enlisted by its successor (as for a wait group) pays two switches
// when there is nothing to wait for any more, and cannot unlock a mutex in between, as a condition
// variable must. So a sleeper is listed while it still runs, and the two ends meet in `fired`
// (gmp/completion.h): the waker marks it, the park commits by it, whoever comes second sees the first.
//
//   sleeper                                      waker
//   1. enlist under the object's queue bit
//   2. drop whatever it holds
//   3. sleep(): park; commit = fired.enlist      a. take it off the list, under the queue bit: it is
//                                                   the waker's from now on
//                                                b. rouse(): fired.complete(); wake what it returns
//
// With a limit, the timer may end the park between a and b. The list decides: who is still on it takes
// itself off and has timed out; who is not has been chosen, and waits for b to be over (settle()).
//
// SL1: between a and the end of b the node stays. Otherwise rouse() writes into a frame that is gone.
#pragma once

#include <cstdint>

#include "gmp/completion.h"
#include "gmp/wait_reason.h"
#include "gmp/waiter.h"
#include "sched/park.h"

namespace weft::rt {

template <class Node>
class mutex_core;

struct sleeper {
  // -- guarded by the queue bit of the object that lists it
  sleeper* next = nullptr;
  sleeper* prev = nullptr;
  bool linked = false;
  std::uint64_t round = 0;  // cond_core: by which it knows that it is still there

  // -- the waker's until it rouses
  bool granted = false;                  // what it waits for is its own already
  mutex_core<sleeper>* mutex = nullptr;  // condition variables: what it wants next

  waiter w;
  completion<waiter> fired;

  void reset() {
    granted = false;
    fired.reset();
  }
};

// Blocks until somebody has roused n.
void sleep(sleeper& n, wait_reason reason);

// b of the protocol. n may be gone on return.
void rouse(sleeper* n);

}  // namespace weft::rt
