// One who leaves a queue by himself, and one who empties it for good: who was first, told in the node.
//
// Problem. Whoever empties the queue ends the object with it: others may destroy it at once. One whose
// limit has come wants to take himself off, for which he needs the object's queue bit; he must
// learn that it is too late from his own node, which stays until he is roused.
//
//   he who leaves, running                          he who empties, holding the bit
//   1. begin(): listed → leaving, or: too late      a. choose(): → chosen. If he was leaving: wait for
//   2. try for the bit; between tries, recalled():      3, he may be at the bit
//      3. chosen → away: he goes there no more      b. all are chosen: the object is let go
//   4. with the bit: off the list
//
// It covers those who are listed. Who calls a wait of an object that may be gone by then is beyond help.
// The wait in a is as short as one for the bit: he who has begun runs, and does nothing else.
//
// WD1: after choose() he does not touch the object, and all he did to it is over. Otherwise he spins
//      for the bit of an object that is gone.
// Rejected: a destructor that waits for those who leave (as the condition variable's does: C1); these
// objects have none, and may end in a frame that is reused. And to let the last one who leaves wake the
// others: everything that is done under the bit would have to ask whether that is him.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class withdrawal {
 public:
  constexpr withdrawal() = default;

  // By him. False: chosen already.
  [[nodiscard]] bool begin() {
    std::uint32_t was = kListed;
    // order: WD0 relaxed, it only elects
    return word_.compare_exchange_strong(was, kLeaving, WEFT_ORDER(WD0, relaxed),
                                         WEFT_ORDER(WD0, relaxed)) ||
           WEFT_MUTANT("leaves-though-chosen");
  }

  // By him, who has begun and does not hold the bit. True: chosen; he goes there no more.
  [[nodiscard]] bool recalled() {
    // order: WD0 relaxed: what he waited for comes with the rousing
    if (word_.load(WEFT_ORDER(WD0, relaxed)) != kChosen) {
      return false;
    }
    // order: WD1 release of the object; pairs with choose()
    word_.store(kAway, WEFT_ORDER(WD1, release));
    return true;
  }

  // By whoever holds the bit of the queue that lists him, and will rouse him. keeps WD1
  void choose() {
    // order: WD0 relaxed, it only elects
    if (word_.exchange(kChosen, WEFT_ORDER(WD0, relaxed)) != kLeaving ||
        WEFT_MUTANT("not-awaited")) {
      return;
    }
    // order: WD1 acquire of the object from recalled()
    while (word_.load(WEFT_ORDER(WD1, acquire)) != kAway) {
      cpu_pause();
    }
  }

 private:
  static constexpr std::uint32_t kListed = 0, kLeaving = 1, kChosen = 2, kAway = 3;

  atomic<std::uint32_t> word_{kListed};
};

}  // namespace weft::rt
