// A one-shot event with at most one waiter: "this has ended" (a goroutine for its joiner, a run()
// for its caller).
//
// The whole state is one word: null (running, nobody waits), a waiter, or the mark `done`; or the
// mark `abandoned`, when nobody will ever wait.
//
//     enlist:   null ──CAS──► waiter        (refused when already done)
//     abandon:  null ──CAS──► abandoned     (refused when already done)
//     retract:  waiter ──CAS──► null        (refused when already done)
//     complete: null | waiter | abandoned ──exchange──► done; a waiter found there is the caller's to
//               wake, an abandoned object is the caller's to clean up
//
// CP1  complete() publishes everything the finisher wrote; done() and abandon() acquire it when they
//      find the mark. Otherwise a joiner that arrives late reads results half written.
// CP2  enlist() publishes the waiter node; complete() acquires it. Otherwise the finisher reads a
//      node that is not yet filled in.
//
// After its exchange complete() touches the event no more: a waiter that finds `done` may destroy
// it at once. Waking is left to the caller, because nouns wake nobody.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

template <class Waiter>
class completion {
 public:
  constexpr completion() = default;

  bool done() const {
    // order: CP1 pairs with the exchange in complete()
    return word_.load(WEFT_ORDER(CP1, acquire)) == mark(kDone);
  }

  // Announces the one waiter. False: it has ended already, do not sleep. Runs in the commit of a
  // park; the waiter looks at done() afterwards.
  [[nodiscard]] bool enlist(Waiter* w) {
    Waiter* expected = nullptr;
    // order: CP2 release publishes *w to complete(). Relaxed on failure: done() acquires
    return word_.compare_exchange_strong(expected, w, WEFT_COMMIT_ORDER(CP2, release),
                                         WEFT_ORDER(CP0, relaxed));
  }

  // The waiter does not want to wait any longer. False: it has ended, and complete() has returned w: whoever
  // called that still has it, unless told otherwise (gmp/limited_waiter.h).
  [[nodiscard]] bool retract(Waiter* w) {
    // order: CP0 relaxed: nobody has seen the waiter, and nothing is published
    return word_.compare_exchange_strong(w, nullptr, WEFT_ORDER(CP0, relaxed),
                                         WEFT_ORDER(CP0, relaxed)) ||
           WEFT_MUTANT("retracted-too-late");
  }

  // Nobody will wait. False: it has ended already, and what is left is the caller's.
  [[nodiscard]] bool abandon() {
    Waiter* expected = nullptr;
    // order: CP2 release hands the object to complete(); CP1 acquire when it has ended already
    return word_.compare_exchange_strong(expected, mark(kAbandoned), WEFT_ORDER(CP2, release),
                                         WEFT_ORDER(CP1, acquire));
  }
  static bool abandoned(Waiter* w) { return w == mark(kAbandoned); }

  // Ends it. Returns the waiter that must be woken, null, or what abandoned() recognises.
  [[nodiscard]] Waiter* complete() {
    // order: CP1 release to done()/abandon(); CP2 acquire of the waiter that enlist() published
    return word_.exchange(mark(kDone), both(WEFT_ORDER(CP1, release), WEFT_ORDER(CP2, acquire)));
  }
  // The same from a runtime section, where TSan has been told beforehand (base/atomic.h).
  [[nodiscard]] Waiter* complete_in_section() {
    // order: CP1, CP2 as in complete()
    return word_.exchange(mark(kDone),
                          both(WEFT_COMMIT_ORDER(CP1, release), WEFT_ORDER(CP2, acquire)));
  }

  // What to release for TSan before parking.
  void* address() { return &word_; }

  // Back to "running": for reuse by an owner that knows that nobody else looks.
  void reset() {
    // order: relaxed; the owner publishes the object by other means before it is shared
    word_.store(nullptr, WEFT_ORDER(CP0, relaxed));
  }

 private:
  static constexpr std::uintptr_t kDone = 1;
  static constexpr std::uintptr_t kAbandoned = 2;
  static Waiter* mark(std::uintptr_t m) { return reinterpret_cast<Waiter*>(m); }

  atomic<Waiter*> word_{nullptr};
};

}  // namespace weft::rt
