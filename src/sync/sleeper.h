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
// With a limit, the timer may end the park at any time. The list decides: who is still on it takes
// itself off and has timed out; who is not has been chosen, and waits for b to be over (settle()):
// rouse() finds the wait claimed by the timer, and completes `dropped` instead. A waker that takes the
// claim itself, before a, decides already then: no timer ends the wait any more (cond_core.h).
//
// SL1: between a and the end of b the node stays. Otherwise rouse() writes into a frame that is gone
//      (rousing.h says when b is over).
#pragma once

#include <cstdint>

#include <weft/detail/owner.h>

#include "gmp/wait_reason.h"
#include "gmp/waiter.h"
#include "sched/timed.h"
#include "sync/rousing.h"
#include "sync/withdrawal.h"

namespace weft::rt {

template <class Node>
class mutex_core;

struct sleeper {
  // -- guarded by the queue bit of the object that lists it
  sleeper* next = nullptr;
  sleeper* prev = nullptr;
  bool linked = false;
  bool limited = false;  // cond_core: who takes it off takes its claim first

  // -- the waker's until it rouses
  bool granted = false;  // what it waits for is its own already
  bool claimed = false;  // the waker has the claim
  const std::uint32_t who = detail::this_owner();
  mutex_core<sleeper>* mutex = nullptr;  // condition variables: what it wants next

  // -- the handshake
  rousing<waiter> hands;
  wait_claim claim;   // with a limit
  withdrawal leaves;  // wait_group_core: likewise
  waiter w;

  // By a waker under the queue bit. False: the limit was first.
  [[nodiscard]] bool take() { return claimed = claim.take(); }

  // It is the first of its list, and has been fetched last time: fetches whoever comes after it, and
  // whose record it will want. A hint: who waits may not even be parked yet. Inlined by force, since
  // the compiler takes a function that only prefetches for one without effect, and drops its calls.
  [[gnu::always_inline]] void foresee() const {
    if constexpr (!WEFT_TSAN) {
      if (const char* after = reinterpret_cast<const char*>(next)) {
        __builtin_prefetch(after, 1);
        __builtin_prefetch(after + 64, 1);
        __builtin_prefetch(after + sizeof(sleeper) - 1, 1);
      }
      __builtin_prefetch(__atomic_load_n(&w.gp, __ATOMIC_RELAXED), 1);  // order: hint
    }
  }

  // For the next sleep. Requires: on no list, and roused or never listed.
  void reset() {
    granted = claimed = false;
    w.event.clear();  // a plain thread's
    hands.fired.reset();
    if (w.claim != nullptr) {
      hands.dropped.reset();
      claim.reset();
    }
  }
};

// Blocks until somebody has roused n.
void sleep(sleeper& n, wait_reason reason);

// The same, but not beyond the limit. False: the limit came first; the caller must then look whether n
// is still listed, and settle(n) if it is not.
bool sleep_until(sleeper& n, wait_reason reason, const wait_limit& limit);
void settle(sleeper& n, wait_reason reason);

// b of the protocol. n may be gone on return.
void rouse(sleeper* n);

}  // namespace weft::rt
