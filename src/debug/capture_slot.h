// By what debug/capture.h asks another thread for its registers, and by what that thread waits.
//
//   asker                                         asked, in its handler
//   1. take()          free → taken     CP1
//   2. ask(tid)        taken → asked    CP1  ──►  a. begin_answer(tid): asked → answering   CP1
//                                                 b. writes the registers
//   3. answered()?                      CP1  ◄──  c. end_answer(): answering → ready         CP1
//   4. walks the stack                            d. waits while it is ready
//   5. give_back()     → free           CP1  ──►  e. goes on
//   3'. too late: take_back(): asked → taken; if a was first, c will come soon: 3 again
//
// C1: registers are written by the thread that was asked, and read after c. C2: between c and e the asked
// thread stands still. The word holds the thread, too: a handler that was slow finds that it is no longer
// its request.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

template <class Registers>
class capture_slot {
 public:
  constexpr capture_slot() = default;

  // False: somebody else asks.
  bool take() {
    std::uint64_t expected = kFree;
    // order: CP1 acquire; after whoever had it before. relaxed: a failure orders nothing
    return word_.compare_exchange_strong(expected, kTaken, WEFT_ORDER(CP1, acquire),
                                         WEFT_ORDER(CP0, relaxed));
  }
  void ask(int tid) {
    // order: CP1 release; who sees this instead of give_back() comes after the last walk, too
    word_.store(asked(tid), WEFT_ORDER(CP1, release));
  }
  bool answered() const {
    return phase(word_.load(WEFT_ORDER(CP1, acquire))) == kReady;  // order: CP1 pairs with c
  }
  // True: nobody will answer any more.
  bool take_back(int tid) {
    std::uint64_t expected = asked(tid);
    // order: CP0 relaxed; nothing has been written
    return word_.compare_exchange_strong(expected, kTaken, WEFT_ORDER(CP0, relaxed),
                                         WEFT_ORDER(CP0, relaxed));
  }
  void give_back() {
    word_.store(kFree, WEFT_ORDER(CP1, release));  // order: CP1 the walk is over; pairs with e
  }

  // -- the asked thread
  bool begin_answer(int tid) {
    std::uint64_t expected = asked(tid);
    const std::uint64_t next = WEFT_MUTANT("ready-at-once") ? kReady : kAnswering;
    // order: CP1 acquire; the registers are this thread's now, after the last one's
    return word_.compare_exchange_strong(expected, next, WEFT_ORDER(CP1, acquire),
                                         WEFT_ORDER(CP0, relaxed));
  }
  void end_answer() {
    word_.store(kReady, WEFT_ORDER(CP1, release));  // order: CP1 publishes the registers
  }
  bool must_wait() const {
    // order: CP1 acquire; what this thread does next comes after the walk
    return word_.load(WEFT_ORDER(CP1, acquire)) == kReady && !WEFT_MUTANT("does-not-wait");
  }

  cell<Registers>& registers() { return registers_; }

 private:
  static constexpr std::uint64_t kFree = 0, kTaken = 1, kAnswering = 2, kReady = 3, kAsked = 4;
  static std::uint64_t asked(int tid) { return static_cast<std::uint64_t>(tid) << 8 | kAsked; }
  static std::uint64_t phase(std::uint64_t word) { return word & 0xff; }

  atomic<std::uint64_t> word_{kFree};
  cell<Registers> registers_;
};

}  // namespace weft::rt
