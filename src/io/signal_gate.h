// Between a signal handler and whoever takes the signal away from it (io/signal.cc).
//
//   handler                                        stop()
//   1. delivering += 1                             a. changes the action
//   2. full fence                          SN1     b. wanted -= the signal                     SN2
//   3. wanted?                             SN2     c. full fence                               SN1
//      no: delivering -= 1, and the signal is      d. waits until delivering == 0              SN3
//      sent again, to the action of a              e. takes what has arrived
//   4. arrived += the signal
//   5. delivering -= 1                     SN3
//
// A thread may have entered the handler and be descheduled anywhere in it.
// SG-a: a signal is seen by e, or acted upon by the action of a. By 2 and c, 3 sees b or d sees 1.
// SG-b: who sends it again does so after a. Otherwise it would come back to this handler.
//
// Go: runtime/sigqueue.go sigsend, signalWaitUntilIdle
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class signal_gate {
 public:
  constexpr signal_gate() = default;

  // -- the handler. Async-signal-safe.
  // True: call arrive(). False: nobody wants it any more, and the action is another one by now.
  bool enter(std::uint64_t bit) {
    delivering_.fetch_add(1, WEFT_ORDER(SN0, relaxed));  // order: SN0 fenced
    fence(WEFT_ORDER(SN1, seq_cst));                     // order: SN1 Dekker with idle()
    // order: SN2 acquire; no longer wanted: the action has changed; pairs with unwant()
    const bool wanted = (wanted_.load(WEFT_ORDER(SN2, acquire)) & bit) != 0;
    if (wanted || WEFT_MUTANT("does-not-ask")) return true;
    // order: SN0 relaxed; it leaves nothing behind
    delivering_.fetch_sub(1, WEFT_ORDER(SN0, relaxed));
    return false;
  }
  void arrive(std::uint64_t bit) {
    arrived_.fetch_or(bit, WEFT_ORDER(SN0, relaxed));  // order: SN0 relaxed; SN3 publishes it
    // order: SN3 release; what has arrived; pairs with idle()
    delivering_.fetch_sub(1, WEFT_ORDER(SN3, release));
  }

  // -- those who change actions. One at a time.
  // Before the handler is the action.
  void want(std::uint64_t bit) {
    wanted_.fetch_or(bit, WEFT_ORDER(SN0, relaxed));  // order: SN0 relaxed; the kernel orders it
  }
  // After the handler has been replaced. Then wait until it is idle(), and take().
  void unwant(std::uint64_t bit) {
    // order: SN2 release; the action has changed; pairs with enter()
    wanted_.fetch_and(~bit, WEFT_ORDER(SN2, release));
  }
  bool idle() const {
    fence(WEFT_ORDER(SN1, seq_cst));  // order: SN1 Dekker with enter()
    // order: SN3 acquire; pairs with arrive()
    return delivering_.load(WEFT_ORDER(SN3, acquire)) == 0 || WEFT_MUTANT("does-not-wait");
  }
  // The signals that have arrived since the last time, as bits.
  std::uint64_t take() {
    // order: SN0 relaxed; ordered by idle(), or by what the handler wakes its reader with
    if (arrived_.load(WEFT_ORDER(SN0, relaxed)) == 0) return 0;
    return arrived_.exchange(0, WEFT_ORDER(SN0, relaxed));  // order: SN0 relaxed, likewise
  }

 private:
  atomic<std::uint64_t> wanted_{0};
  atomic<std::uint64_t> arrived_{0};
  atomic<std::uint32_t> delivering_{0};
};

}  // namespace weft::rt
