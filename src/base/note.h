// A one-shot event between two threads: one sleeps until the other has woken it.
//
// Life of a note: clear, hand it to the waker (under a lock, say), sleep; wake comes once, before
// or after the sleep began. Then the owner clears it for the next round.
//
//   word 0  not woken; the sleeper may be in the kernel
//   word 1  woken; sleep returns at once
//
// Invariants. NO-a: one sleeper, one wake per clear; a second wake is fatal, since it would be lost
// and somebody's wake-up with it. NO-b: what the waker wrote before wake() is visible after
// sleep().
// The waker touches the word's address, not its content, after the sleeper may have gone on: the
// memory may be reused by then (a Linux futex tolerates a stray wake), but must stay mapped or
// private. Rejected: a condition variable (allocates nothing either, but takes three system calls
// and a lock where one word does).
// Go: runtime/lock_futex.go notesleep, notewakeup, noteclear, notetsleep
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"
#include "base/futex.h"

namespace weft::rt {

class futex_note {
 public:
  constexpr futex_note() noexcept = default;

  // Requires: nobody sleeps on the note and nobody may wake it.
  void clear() {
    // order: NO1 relaxed; the owner hands the note to its waker by other means, which publish this
    word_.store(0, WEFT_ORDER(NO1, relaxed));
  }

  // Runs on: any thread. Blocks: nothing.
  void wake() {
    // order: NO2 release publishes what the waker wrote; pairs with the acquire in woken()
    if (word_.exchange(1, WEFT_ORDER(NO2, release)) != 0) fatal("notewakeup - double wakeup");
    if (WEFT_MUTANT("note-wake-without-futex")) return;
    futex_wake(word_, 1);
  }

  // Blocks: M.
  void sleep() {
    while (!woken()) futex_wait(word_, 0);
  }

  // Sleeps for at most ns nanoseconds; true if woken. Early returns do not extend the sleep.
  // A false result is not a promise: the wake-up may come between it and the caller's next step.
  bool sleep_for(std::int64_t ns) { return woken() || sleep_until(futex_deadline(ns)); }

  // The same with an absolute time of CLOCK_MONOTONIC, in nanoseconds.
  bool sleep_until(std::int64_t deadline) {
    if (woken()) return true;
    for (;;) {
      const futex_result result = futex_wait_until(word_, 0, deadline);
      if (woken()) return true;
      if (result == futex_result::timed_out) return false;
    }
  }

  // True once wake() has been called.
  bool woken() const {
    // order: NO2 acquire; pairs with the release in wake()
    return word_.load(WEFT_ORDER(NO2, acquire)) != 0;
  }

 private:
  atomic<std::uint32_t> word_{0};
};

#ifdef WEFT_MODEL
// Protocols above take the note for granted (tests/model/note_model.cc shows it): one step a call.
using note = model::note;
#else
using note = futex_note;
#endif

}  // namespace weft::rt
