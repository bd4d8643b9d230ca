// Who lets a goroutine go on whose wait has a limit: a deadline, a cancellation.
//
// The difficulty. A limit that is armed before the goroutine has left its stack may end the wait too
// early: nobody may make a goroutine runnable whose registers are not saved yet. One that is armed
// afterwards comes too late: once the commit has published the waiter, the object may wake it, and
// the frame in which timer and hook live is gone. And nothing in that frame can tell "not yet" from
// "no longer". So the tie is broken by a word in the goroutine's record, which never goes away, and
// which carries the number of the wait:
//
//   4n + 0   wait n: arming, the goroutine may still be on its stack
//   4n + 1   wait n: parked
//   4n + 2   wait n: ended by its limit while arming; the commit lets it go on
//
//   goroutine            limit, having won the claim     commit, on the successor's stack
//   begin(): 4n + 0      end(n): 4n+0 → 4n+2: done,      publish the waiter; from here on it may run
//   arm, park            or finds 4n+1: wake it          parked(n): 4n+0 → 4n+1. Finds 4n+2: refuse.
//                                                        Finds wait n over: leave it alone
//
// PG1: the goroutine is made runnable once: by the object, or by the limit that found 4n+1, or by the
//      commit that found 4n+2. The last two exclude each other by the word, both exclude the object
//      by the claim (gmp/wait_claim.h).
//
// Rejected: holding the timers' lock across the commit (the object's lock ranks above it); arming
// after the park by a third party (needs memory that outlives the wait).
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class park_gate {
 public:
  constexpr park_gate() noexcept = default;

  // By the goroutine, before it arms anything. Returns the number of the wait.
  std::uint64_t begin() {
    // order: relaxed, its own; those who compare with it got the number through a lock
    const std::uint64_t n = (word_.load(WEFT_ORDER(PG0, relaxed)) | 3) + 1;
    word_.store(n + kArming, WEFT_ORDER(PG0, relaxed));  // order: relaxed, as above
    return n;
  }

  // By a limit that has the claim. True: it is parked, the caller wakes it. False: the commit will.
  [[nodiscard]] bool end(std::uint64_t n) {
    std::uint64_t arming = n + kArming;
    if (WEFT_MUTANT("limit-always-wakes")) return true;
    // order: PG1 release publishes what the limit wrote to the commit that lets the goroutine go on.
    // On failure PG2 acquire: the goroutine is off its stack; pairs with the release in parked().
    return !word_.compare_exchange_strong(arming, n + kEnded, WEFT_ORDER(PG1, release),
                                          WEFT_ORDER(PG2, acquire));
  }

  // By the commit, once it has published the waiter. The frame may be gone. False: the limit has
  // ended the wait, and it is this one who lets the goroutine go on.
  [[nodiscard]] bool parked(std::uint64_t n) {
    std::uint64_t seen = n + kArming;
    // order: PG2 release: the goroutine has left its stack; pairs with end(). On failure PG1 acquire:
    // what the limit wrote.
    if (word_.compare_exchange_strong(seen, n + kParked, WEFT_ORDER(PG2, release),
                                      WEFT_ORDER(PG1, acquire))) {
      return true;
    }
    return WEFT_MUTANT("commit-minds-old-waits") ? seen % 4 != kEnded : seen != n + kEnded;
  }

 private:
  enum : std::uint64_t { kArming = 0, kParked = 1, kEnded = 2 };
  atomic<std::uint64_t> word_{0};
};

}  // namespace weft::rt
