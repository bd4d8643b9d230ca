// What the exiting thread, those whom it stops, and their guardian agree by (freeze.cc): who is to freeze, who is
// frozen, who may go on for a while, and which of two threads is the guardian.
//
//   exiting thread                   straggler, in its handler         guardian
//   1. list(): entry, count   FZ1
//   2. call_guardian()        FZ3                                      a. take_guard()               FZ3
//   3. ask(): wanted = 1      FZ2
//      signal                   ──►  i.   take_request(): count     FZ1
//   4. waits until frozen                 wanted 1 → 0              FZ2
//                                    ii.  hold(): frozen = 1
//                                         released == me? no: sleep
//                                    iii. released == me: ◄──────────  b. let_go(): released = tid; wake all
//                                         frozen = 0, return           c. stop_again(): released = 0
//                                         i. …                  ◄──       wanted = 1                 FZ2
//                                                                         signal
//
// One whom preemption has frozen before is listed with its request, and woken instead of sent a signal.
//
// FZ-a: there is one guardian at most, and it knows who exits.
// FZ-b: who takes a request does not go on before it is let go once more: by 4 it is out of the program's way, and stays
//       so. The handler may have been called by an earlier signal, even one that has nothing to do with all this, so it
//       is not the kernel that orders c: who sees the request must also see that its last turn is over. Otherwise
//       it goes on at once, the request is used up, and the signal that was sent for it finds none.
// FZ-c: no request is lost. One that comes while its straggler is still held, or is being let go, is kept in `wanted`,
//       and so is its signal, in the kernel; it is met when the handler has returned.
// FZ-d: who is let go wakes. All are woken, as they sleep on one word, and those whose turn it is not sleep again.
//
// Rejected: a futex word per straggler. It would have to say both that a turn has begun and that it is over,
// to somebody who may come to look at it for the first time in between.
#pragma once

#include <climits>
#include <cstdint>

#include "base/atomic.h"
#include "base/futex.h"

namespace weft::rt {

template <std::uint32_t kMost>
class freeze_core {
 public:
  static constexpr std::uint32_t kNobody = kMost;

  constexpr freeze_core() = default;

  // -- anybody
  std::uint32_t count() const {
    // order: FZ1 acquire: sees whom they are; pairs with list()
    return count_.load(WEFT_ORDER(FZ1, acquire));
  }
  // Requires: i < count(). Of frozen(): a flag, to wait for.
  int tid(std::uint32_t i) const { return stragglers_[i].tid.get(); }
  bool frozen(std::uint32_t i) const {
    return stragglers_[i].frozen.load(WEFT_ORDER(FZ0, relaxed)) != 0;  // order: relaxed, a flag
  }

  // -- the exiting thread
  // Requires: count() < kMost. One that is asked at once needs to be woken, others need ask().
  void list(int tid, bool asked) {
    const std::uint32_t n = count();
    stragglers_[n].tid.set(tid);
    // order: relaxed, published with the rest
    stragglers_[n].wanted.store(asked ? 1 : 0, WEFT_ORDER(FZ0, relaxed));
    // order: FZ1 release publishes the entry; pairs with count()
    count_.store(n + 1, WEFT_ORDER(FZ1, release));
  }
  // To freeze; a signal has to follow.
  void ask(std::uint32_t i) {
    // order: FZ2 release: its last turn is over; pairs with take_request()
    stragglers_[i].wanted.store(1, WEFT_ORDER(FZ2, release));
  }
  std::uint32_t frozen_count() const {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < count(); ++i) n += frozen(i) ? 1 : 0;
    return n;
  }
  // Then rouse those who may be the guardian, and wait until it is guarded().
  void call_guardian(int self) {
    exiting_.set(self);
    // order: FZ3 release: it knows whom it guards; pairs with take_guard()
    guardian_.store(kCalled, WEFT_ORDER(FZ3, release));
  }
  bool guarded() const {
    return guardian_.load(WEFT_ORDER(FZ0, relaxed)) == kGuards;  // order: relaxed, a flag
  }
  // No guardian has come: whoever is held goes on, and nobody is held until one comes after all.
  void let_all_go() {
    if (WEFT_MUTANT("keeps-the-frozen")) return;
    released_.store(kEverybody, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, as for let_go()
    futex_wake(released_, INT_MAX);
  }

  // -- a straggler, in its handler
  // Its entry, if it is to freeze; kNobody otherwise. Once per request.
  std::uint32_t take_request(int self) {
    for (std::uint32_t i = 0; i < count(); ++i) {
      if (tid(i) != self) continue;
      straggler& s = stragglers_[i];
      // order: FZ2 acquire, pairs with ask(): hold() sees that the last turn is over
      if (s.wanted.exchange(WEFT_MUTANT("request-stays") ? 1 : 0, WEFT_ORDER(FZ2, acquire)) != 0) {
        return i;
      }
    }
    return kNobody;
  }
  // Until it is let go. Blocks: M. Runs on: signal.
  void hold(std::uint32_t i, int self) {
    straggler& s = stragglers_[i];
    s.frozen.store(1, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, a flag
    for (;;) {
      // order: relaxed; nothing is handed over, the word alone decides
      const std::uint32_t now = released_.load(WEFT_ORDER(FZ0, relaxed));
      if (now == static_cast<std::uint32_t>(self) || now == kEverybody ||
          (now != 0 && WEFT_MUTANT("any-turn-will-do"))) {
        break;
      }
      futex_wait(released_, now);
      if (WEFT_MUTANT("woken-is-let-go")) break;
    }
    s.frozen.store(0, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, a flag
  }

  // -- who may be the guardian
  // True, once for all: it is, and may ask for exiting().
  bool take_guard() {
    // order: relaxed, a look; who is roused looks again
    if (guardian_.load(WEFT_ORDER(FZ0, relaxed)) != kCalled) return false;
    std::uint32_t called = kCalled;
    // order: relaxed, a mistake
    if (WEFT_MUTANT("two-guardians")) called = guardian_.load(WEFT_ORDER(FZ0, relaxed));
    // order: FZ3 acquire, pairs with call_guardian()
    return guardian_.compare_exchange_strong(called, kGuards, WEFT_ORDER(FZ3, acquire),
                                             WEFT_ORDER(FZ0, relaxed));
  }
  int exiting() const { return exiting_.get(); }
  // Straggler i goes on, wherever it is on its way to hold() or from there, until stop_again().
  void let_go(std::uint32_t i) {
    // order: relaxed, the word alone decides
    released_.store(static_cast<std::uint32_t>(tid(i)), WEFT_ORDER(FZ0, relaxed));
    if (!WEFT_MUTANT("wakes-nobody")) {
      futex_wake(released_, WEFT_MUTANT("wakes-one") ? 1 : INT_MAX);
    }
  }
  // A signal has to follow.
  void stop_again(std::uint32_t i) {
    if (WEFT_MUTANT("asks-first")) ask(i);
    released_.store(0, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, FZ2 publishes it
    if (!WEFT_MUTANT("asks-first")) ask(i);
  }

 private:
  struct straggler {
    cell<int> tid{0};
    atomic<std::uint32_t> wanted{0};  // asked to freeze, and has not yet
    atomic<std::uint32_t> frozen{0};  // in its handler
  };
  static constexpr std::uint32_t kCalled = 1, kGuards = 2;
  static constexpr std::uint32_t kEverybody = ~0U;

  straggler stragglers_[kMost];
  atomic<std::uint32_t> count_{0};
  atomic<std::uint32_t> released_{0};  // tid of the one that may go on, or kEverybody
  atomic<std::uint32_t> guardian_{0};
  cell<int> exiting_{0};
};

}  // namespace weft::rt
