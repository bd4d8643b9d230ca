// One who waits with a limit for an event that has room for one waiter (gmp/completion.h): a join.
//
// There is no list from which he could take himself off under a lock. So he retracts himself from the
// event by a compare-exchange; if that comes too late, the finisher has him already, and is about to ask
// for a claim that the limit has taken. He stays until the finisher says that it is done with him.
//
//   joiner, its limit came first        finisher
//   retract(): true: nobody saw me      complete() returns him
//   false: wait for `dropped`           whom_to_wake(): take() is true: wake him. False: complete `dropped`,
//                                       wake whom that returns
//
// LW1: a waiter with a claim that is enlisted in a completion is a limited_waiter. Otherwise the finisher
//      completes what is not there.
// LW2: the finisher touches him last by take(), or by dropped.complete(); he leaves his frame after the one
//      that applies.
#pragma once

#include "gmp/completion.h"

namespace weft::rt {

template <class Waiter>
struct limited_waiter : Waiter {
  completion<Waiter> dropped;  // the finisher is done with one whose limit came first
};

// By a finisher, with what complete() returned. Returns whom to wake, or null.
template <class Waiter>
[[nodiscard]] Waiter* whom_to_wake(Waiter* w) {
  if (w->take() || WEFT_MUTANT("joiner-woken-twice")) {
    return w;
  }
  return WEFT_MUTANT("joiner-never-dropped")
             ? nullptr
             : static_cast<limited_waiter<Waiter>*>(w)->dropped.complete();
}

}  // namespace weft::rt
