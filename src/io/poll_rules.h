// What is done with a poll descriptor, whatever parks, whatever fires and whatever locks: the loop of a wait, the rules of
// deadlines, and what a close ends. poll_core.h has the steps on the words, poll_wait.cc the park and the timers.
//
// Problem. A wait has a reason to end that its word does not show: a bit that was set just before it began, a limit of its
// own. And of a deadline there are two sides, the time, under the record's lock, and the timer, which may have been taken
// out to be fired when the time is changed, the record closed, or used again.
//
// PR-a: whoever waits returns once there is a reason, and with it. So it looks for one before it begins, and again between
//       begin_wait() and the park (5. in poll_core.h).
// PR-b: a deadline is over for who looks exactly while its time has come: a timer that fires looks at the time, as that may
//       have been moved meanwhile, or be another user's.
// PR-c: a timer is pending only for a deadline that is to come, and none for a record that is closed: a timer keeps the
//       process from being dead.
// PR-d: a close ends the waits of both directions.
// PR-e: a reader waits before it reads only if the last read, in whatever way and whoever's, has found that there is nothing:
//       an attempt takes away the news, and if it left something there is no other. Otherwise it would sleep beside it.
//
// Desc: a poll_core, with, under `lock`, deadline[2] (times, kNever: none). Timers, static, called with the lock held:
// stop(pd, d), start(pd, d, when), now(pd).
#pragma once

#include <cstdint>

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/fatal.h"
#include "poll/poll_core.h"
#include "timer/timer_event.h"

namespace weft::rt {

enum class readiness : std::uint8_t { ready, closing, timed_out, cancelled };

// What the limit of one wait leaves, before it interrupts the direction: see poll_core's end_wait().
class limit_mark {
 public:
  void set(readiness why) {
    // order: PW0 relaxed; end_wait() orders it before the look at the word
    over_.store(static_cast<std::uint32_t>(why), WEFT_ORDER(PW0, relaxed));
  }
  readiness reason() const {
    // order: PW0 relaxed; the fence in begin_wait() orders it after the word
    return static_cast<readiness>(over_.load(WEFT_ORDER(PW0, relaxed)));
  }

 private:
  atomic<std::uint32_t> over_{0};  // a readiness
};

// Why a wait must not go on, or begin; its own limit comes last. own: null if it has none.
template <class Desc>
readiness fault_of(const Desc& pd, direction d, const limit_mark* own) {
  switch (pd.fault(d)) {
    case poll_fault::closing: return readiness::closing;
    case poll_fault::timed_out: return readiness::timed_out;
    case poll_fault::none: break;
  }
  return own != nullptr ? own->reason() : readiness::ready;
}

// Before an attempt: a closed descriptor or a deadline that is over comes first, whatever could be read.
template <class Desc>
readiness prepare(Desc& pd, direction d) {
  const readiness fault = fault_of(pd, d, nullptr);
  if (fault == readiness::ready) [[likely]] {
    pd.reset(d);
  }
  return fault;
}

// Until there is news of that direction, or a reason to end. park(): a waiter commits itself (5, 6 in poll_core.h), and
// sleeps until it is woken. keeps PR-a
template <class Desc, class Park>
readiness await_news(Desc& pd, direction d, const limit_mark* own, Park&& park) {
  for (;;) {
    const readiness fault = fault_of(pd, d, WEFT_MUTANT("own-limit-unseen") ? nullptr : own);
    if (fault != readiness::ready) {
      return fault;
    }
    if (pd.begin_wait(d)) {
      return readiness::ready;
    }
    const limit_mark* const again = WEFT_MUTANT("no-second-look-at-own-limit") ? nullptr : own;
    if (fault_of(pd, d, again) == readiness::ready || WEFT_MUTANT("no-second-look")) {
      park();
    }
    if (pd.finish(d) && !WEFT_MUTANT("news-forgotten")) {
      return readiness::ready;
    }
  }
}

// What the last read has found. Whoever has the direction's turn looks at it, and changes it. keeps PR-e
class drain_mark {
 public:
  // Before a read; wait(): until there is news.
  template <class Desc, class Wait>
  readiness before_read(Desc& pd, Wait&& wait) const {
    return drained_ ? wait() : prepare(pd, direction::read);
  }
  // It has found nothing;
  void nothing_there() { drained_ = true; }
  // … or less than it had room for, which is all: unless there was the end, too, whose news comes once (PD-d);
  template <class Desc>
  void less_than_room(const Desc& pd) {
    drained_ = !pd.hung_up() || WEFT_MUTANT("drained-though-it-has-ended");
  }
  // … or it says nothing about what is left;
  void unknown() { drained_ = false; }
  // … or it is of those who begin with an attempt, and do not say how it ends.
  void read_in_another_way() {
    if (!WEFT_MUTANT("drained-though-others-read")) {
      drained_ = false;
    }
  }

 private:
  bool drained_ = false;
};

// A timer has fired, at `now`. Returns whom to wake. A record that is closed has no deadline. keeps PR-b
template <class Desc>
auto deadline_comes(Desc& pd, direction d, std::int64_t now) WEFT_REQUIRES(pd.lock) {
  decltype(pd.interrupt(d)) woken = nullptr;
  // It may have been moved, or be another user's by now: the time tells.
  if (pd.deadline[static_cast<int>(d)] <= now || WEFT_MUTANT("late-timer-believed")) {
    pd.raise(Desc::expired(d));
    woken = pd.interrupt(d);
  }
  return woken;
}

// Returns whom to wake. keeps PR-b, PR-c
template <class Timers, class Desc>
auto change_deadline(Desc& pd, direction d, std::int64_t when) WEFT_REQUIRES(pd.lock) {
  decltype(pd.interrupt(d)) woken = nullptr;
  std::int64_t& deadline = pd.deadline[static_cast<int>(d)];
  if ((pd.closing() && !WEFT_MUTANT("closed-gets-a-deadline")) || deadline == when) {
    return woken;
  }
  const bool over = when != kNever && when <= Timers::now(pd);
  if (deadline != kNever && (when == kNever || over) && !WEFT_MUTANT("timer-goes-on")) {
    Timers::stop(pd, d);
  }
  deadline = when;
  if (over) {
    pd.raise(Desc::expired(d));
    return WEFT_MUTANT("over-in-silence") ? woken : pd.interrupt(d);
  }
  if (!WEFT_MUTANT("over-for-good")) {
    pd.lower(Desc::expired(d));
  }
  if (when != kNever) {
    Timers::start(pd, d, when);
  }
  return woken;
}

// Ends all waits, now and from now on. woken: whom to wake. keeps PR-c, PR-d
template <class Timers, class Desc, class Waiter>
void end_waits(Desc& pd, Waiter* (&woken)[2]) WEFT_REQUIRES(pd.lock) {
  WEFT_CHECK(!pd.closing(), "a poll descriptor is evicted twice");
  if (!WEFT_MUTANT("closes-after-it-has-interrupted")) {
    pd.raise(Desc::kClosing);
  }
  for (auto d : {direction::read, direction::write}) {
    const auto i = static_cast<int>(d);
    woken[i] = WEFT_MUTANT("closes-one-direction") && i != 0 ? nullptr : pd.interrupt(d);
    if (pd.deadline[i] != kNever) {
      if (!WEFT_MUTANT("closed-keeps-its-timer")) {
        Timers::stop(pd, d);
      }
      pd.deadline[i] = kNever;
    }
  }
  if (WEFT_MUTANT("closes-after-it-has-interrupted")) {
    pd.raise(Desc::kClosing);
  }
}

}  // namespace weft::rt
