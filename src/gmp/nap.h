// A spinning M that dozes, so that goroutines which hand over to each other are left alone.
//
// Problem: a goroutine that wakes its partner mostly blocks right after, and the partner runs next on
// the same P. But it might compute instead, and then another P should run the partner. Waking an M
// for every hand-over would cost more than the hand-over itself (9 us for the waker, and the woken M
// tears the partners apart); waking nobody would leave the partner behind a computation.
//
// So an M that was woken, found nothing to steal, and saw that others switch all the time, dozes for
// a moment at a time. It is still spinning, with its P: for the idle protocol (idle_state.h) it looks
// for work, and nobody wakes another. A mere hand-over does not disturb it: it looks at the end of
// its nap, at the latest, whether somebody has been waiting since. Other work ends its nap.
//
//   word 0  nobody dozes      1  an M dozes      2  … and has been poked
//
//   the one who dozes                      who makes work visible that is not a hand-over
//   1. word = 1                            1. the work
//   2. full fence                  NP1     2. full fence (in claim_wake())             NP1, ID1
//   3. looks everywhere                    3. word == 1: word = 2, wake
//   4. sleeps, for kLongest at most
//   5. again from 3 (poked: from 1)        who hands over
//   6. no more: word = 0                   1. the work
//   7. heavy fence                 NP2     2. light fence                              NP2
//   8. looks everywhere, as all who        3. word != 0: it will be looked for; done
//      stop spinning                          else: as above
//
// What is not a hand-over and is lost between 2 and 4 would be late by one nap, no more. A hand-over is
// always followed by a look: 3 or 8. Its fence is free, since the one who dozes pays for it at the end
// (base/asymmetric_fence.h).
#pragma once

#include <cstdint>

#include "base/asymmetric_fence.h"
#include "base/atomic.h"
#include "base/counters.h"
#include "base/futex.h"

namespace weft::rt {

class nap {
 public:
  static constexpr std::int64_t kLongest = 100'000;  // ns

  // False: somebody else dozes already. True: look everywhere, then sleep(), and so on until end().
  [[nodiscard]] bool begin() {
    std::uint32_t nobody = kNobody;
    // order: NP0 relaxed; the fence orders it
    if (!word_.compare_exchange_strong(nobody, kDozes, WEFT_ORDER(NP0, relaxed),
                                       WEFT_ORDER(NP0, relaxed))) {
      return false;
    }
    fence(WEFT_ORDER(NP1, seq_cst));  // order: NP1 Dekker with the fence in claim_wake()
    return true;
  }

  // False: it has slept for as long as it may.
  bool sleep(std::int64_t ns = kLongest) {
    const bool woken = futex_wait(word_, kDozes, ns) != futex_result::timed_out;
    if (word_.load(WEFT_ORDER(NP0, relaxed)) == kPoked) {  // order: relaxed, a spare fence at most
      word_.store(kDozes, WEFT_ORDER(NP0, relaxed));       // order: relaxed, the fence orders it
      fence(WEFT_ORDER(NP1, seq_cst));  // order: NP1 Dekker with poke_fenced() and claim_wake()
    }
    return woken;
  }

  // Look everywhere afterwards.
  void end() {
    word_.store(kNobody, WEFT_ORDER(NP0, relaxed));  // order: relaxed, the fence orders it
    heavy_fence(WEFT_ORDER(NP2, seq_cst));           // order: NP2 Dekker with will_look()
  }

  // After a hand-over is visible. True: somebody will look for it.
  [[nodiscard]] bool will_look() const {
    light_fence(WEFT_ORDER(NP2, seq_cst));                   // order: NP2 Dekker with end()
    return word_.load(WEFT_ORDER(NP0, relaxed)) != kNobody;  // order: relaxed, the fence orders it
  }

  // After the work is visible.
  void poke_fenced() {
    fence(WEFT_ORDER(NP1, seq_cst));  // order: NP1 Dekker with the fence in begin()
    poke();
  }

  // … and after a full fence.
  void poke() {
    std::uint32_t dozes = kDozes;
    // order: relaxed, the caller's fence orders the load
    if (word_.load(WEFT_ORDER(NP0, relaxed)) == kDozes && !WEFT_MUTANT("poke-without-waking") &&
        // order: relaxed, it only elects who makes the system call
        word_.compare_exchange_strong(dozes, kPoked, WEFT_ORDER(NP0, relaxed),
                                      WEFT_ORDER(NP0, relaxed))) [[unlikely]] {
      futex_wake(word_, 1);
    }
  }

 private:
  enum : std::uint32_t { kNobody = 0, kDozes = 1, kPoked = 2 };
  shared_atomic<std::uint32_t> word_{kNobody};
};

}  // namespace weft::rt
