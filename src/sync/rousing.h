// The two ends of a sleep that begins on a list: see sleeper.h for the protocol.
//
// RO1: rouse() touches the node last by fired.complete(), if that finds nobody parked; or the waiter it
//      returns is parked until it is woken; or by dropped.complete(). The sleeper leaves its frame only
//      after the one that applies: otherwise rouse() reads a claim in a frame that is gone.
#pragma once

#include "gmp/completion.h"

namespace weft::rt {

template <class Waiter>
struct rousing {
  completion<Waiter> fired;
  completion<Waiter> dropped;  // the waker is done with a node whose wait the limit had ended

  // By whoever took the node off its list, and maybe its claim. Returns whom to wake, or null.
  [[nodiscard]] Waiter* rouse(bool claimed = false) {
    Waiter* w = fired.complete();
    if (w == nullptr) {
      return nullptr;  // not parked yet: it will see that it need not
    }
    if ((claimed && !WEFT_MUTANT("claim-forgotten")) || w->take() || WEFT_MUTANT("woken-twice")) {
      return w;
    }
    return WEFT_MUTANT("never-dropped") ? nullptr : dropped.complete();
  }
};

}  // namespace weft::rt
