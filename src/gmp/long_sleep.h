// How sysmon sleeps for long, and how it is woken (sched/sysmon.cc).
//
//   sysmon                                 who makes work visible and finds no idle P
//   1. sleeps = 1                          1. the work
//   2. full fence                  SY1     2. full fence (in claim_wake())             ID1
//   3. looks: work? then end()             3. sleeps == 1: exchange it with 0, and whoever got the 1
//   4. sleeps on the note                     sets the note
//   5. end(): takes the 1 back, or, if somebody has it, waits for the note and clears it
//
// A timer that is started while no P is idle is like work, but only if sysmon would come too late for it: step 1 says
// that it may sleep for ever, 3 looks for timers, too, and 4 says until when.
//
// SY-a: work that became visible is looked at by 3, or its maker wakes sysmon. Otherwise it waits for 10 ms.
// SY-b: the note is set at most once per sleep, and is clear afterwards.
#pragma once

#include <cstdint>
#include <limits>

#include "base/atomic.h"
#include "base/counters.h"
#include "base/note.h"

namespace weft::rt {

class long_sleep {
 public:
  constexpr long_sleep() = default;
  // As after begin(): whoever sleeps here will come later, and begins with end().
  enum asleep_at_first { kAsleep };
  explicit constexpr long_sleep(asleep_at_first) : sleeps_(1) {}

  // Look for work afterwards, then sleep() or end().
  void begin() {
    if (!WEFT_MUTANT("until-of-the-last-sleep")) set_until(kForEver);
    // order: SY2 release: the note is clear; pairs with wake_slow()
    sleeps_.store(1, WEFT_ORDER(SY2, release));
    fence(WEFT_ORDER(SY1, seq_cst));  // order: SY1 Dekker with the fence in claim_wake()
  }
  void sleep() { event_.sleep(); }
  void sleep_until(std::int64_t when) {
    set_until(when);
    event_.sleep_until(when);
  }
  void end() {
    // order: relaxed, it only elects
    if (sleeps_.exchange(0, WEFT_ORDER(SY0, relaxed)) == 0 && !WEFT_MUTANT("note-left-set")) {
      event_.sleep();
      event_.clear();
      cleared_.set(cleared_.get() + 1);
    }
  }

  // After the work is visible, and a full fence.
  bool asleep() const {
    return sleeps_.load(WEFT_ORDER(SY0, relaxed)) != 0;  // order: relaxed, fenced
  }
  void wake() {
    if (asleep()) [[unlikely]] {
      wake_slow();
    }
  }
  // It need not be woken for what it should look at then. By 1's fence a sleeper's time is none of an earlier sleep.
  bool looks_before(std::int64_t when) const {
    return !asleep() || until_.load(WEFT_ORDER(SY0, relaxed)) <= when;  // order: relaxed, fenced
  }

 private:
  static constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

  void set_until(std::int64_t when) {
    until_.store(when, WEFT_ORDER(SY0, relaxed));  // order: relaxed, fenced by begin()
  }
  void wake_slow() {
    // order: SY2 acquire: sees the note clear; pairs with begin()
    if (sleeps_.exchange(0, WEFT_ORDER(SY2, acquire)) != 0 || WEFT_MUTANT("woken-twice")) {
      static_cast<void>(cleared_.get());
      event_.wake();
    }
  }

  shared_atomic<std::uint32_t> sleeps_{0};
  shared_atomic<std::int64_t> until_{kForEver};
  note event_;
  cell<std::uint32_t>
      cleared_{};  // the note's turns, for the model: who sets it knows that it is clear
};

}  // namespace weft::rt
