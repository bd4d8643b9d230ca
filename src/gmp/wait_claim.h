// Who ends a wait that several parties may end: a select over many channels, a wait with a deadline
// or with a context. Each of them finds the waiter in its own way and under its own lock; the claim
// is the one word that they share, and exactly one of them gets it.
//
// Invariant WC-a: between two resets take() is true once. Otherwise a goroutine is made runnable
// twice, and two threads run on its stack.
// The claim orders nothing: what the winner writes into the waiter's frames is published by its
// wake(), what the waiter wrote by the lock under which it was found.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class wait_claim {
 public:
  constexpr wait_claim() noexcept = default;
  wait_claim(const wait_claim&) = delete;
  wait_claim& operator=(const wait_claim&) = delete;

  // True for one caller. The wait is his to end; all others leave the waiter alone.
  [[nodiscard]] bool take() {
    if (WEFT_MUTANT("claim-taken-by-all")) return true;
    // order: relaxed, it only elects; see above
    return taken_.exchange(1, WEFT_ORDER(WC0, relaxed)) == 0;
  }

  // Whether it is too late already: a hint, but a true one stays true.
  bool taken() const {
    return taken_.load(WEFT_ORDER(WC0, relaxed)) != 0;  // order: relaxed, a hint
  }

  // For the next wait. Requires: nobody can find the waiter.
  void reset() {
    taken_.store(0, WEFT_ORDER(WC0, relaxed));  // order: relaxed, whoever finds it took a lock
  }

 private:
  atomic<std::uint32_t> taken_{0};
};

}  // namespace weft::rt
