// Who may do what with the state that a promise and its futures share.
//
//   refs       handles, and whoever publishes later; the last one ends the state
//   claimed    the right to store the result: given once, or again if storing it has failed
//   retrieved  get_future() was called; of a deferred state: somebody runs it
//
// The result itself is published by a gate that counts to one (sync/wait_group_core.h), and that is
// all that orders it before those who wait. These words decide who, not when.
//
// F1: who publishes does not touch the state afterwards, unless it has a reference. Otherwise the last
//     future, whose wait is over, frees it under its feet.
// F2: from claim() to the publication, or to unclaim(), the claimer alone touches the storage.
//
// FU1: unclaim() → the next claim(): what is left of the failed attempt. FU2: everything that was done
//     by way of a reference → the end of the state.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class future_core {
 public:
  constexpr future_core() = default;

  // The inline half in <weft/detail/future_state.h> is this one.
  void retain() {
    refs_.fetch_add(1, WEFT_ORDER(FU0, relaxed));  // order: relaxed, the caller has one already
  }
  // True: it was the last one.
  [[nodiscard]] bool release() {
    // order: FU2 acq_rel: what others did with the state precedes its end
    return refs_.fetch_sub(1, WEFT_ORDER(FU2, acq_rel)) == 1;
  }

  // False: somebody else has, or had, the right to store the result.
  [[nodiscard]] bool claim() {
    // order: FU1 acquire pairs with unclaim()
    return claimed_.exchange(1, WEFT_ORDER(FU1, acquire)) == 0 || WEFT_MUTANT("claimed-twice");
  }
  void unclaim() {
    claimed_.store(0, WEFT_ORDER(FU1, release));  // order: FU1 release to the next one's claim
  }

  // True for one caller.
  [[nodiscard]] bool retrieve() {
    // order: FU0 relaxed, it only elects
    return retrieved_.exchange(1, WEFT_ORDER(FU0, relaxed)) == 0 || WEFT_MUTANT("run-twice");
  }

 private:
  atomic<std::uint32_t> refs_{1};
  atomic<std::uint32_t> claimed_{0};
  atomic<std::uint32_t> retrieved_{0};
};

}  // namespace weft::rt
