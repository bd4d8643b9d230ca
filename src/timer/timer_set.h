// The timers of one P: a wheel, its lock, and the word by which others see when to look.
//
// Anybody may cancel, and any M may run what is due; so there is a lock, held for tens of nanoseconds.
// Events are taken out one at a time and fired without it.
//
//   runner (an M)                               canceller
//   lock; due event e off the wheel;            lock the set that e.where names
//     e.where = fired; run.current = e; unlock  still pending: unlink, idle, unlock: true
//   e.fire()     may let e go                   fired, and some run.current == e: unlock, wait
//   lock; run.current = the next one …          otherwise: idle, unlock: false
//
// TS1: after fire() was called the runner touches its own record only, never the event.
// TS2: cancel returns false only if no runner is inside that event's fire(), save the caller itself.
// TS3: next() is not later than the earliest event, but for those that somebody is about to fire; kNever
//      if and only if there are no others.
// TS4: fire() is told a time that is not before the event's own.
//
// Wakes nobody: start() says whether it made next() earlier, and sched/timer_watch.cc acts on that. What
// next() must be ordered with is said there.
//
// Go: runtime/time.go type timers
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/lock.h"
#include "timer/timer_event.h"
#include "timer/timer_wheel.h"

namespace weft::rt {

// One pass of one M over due events.
class timer_run {
 public:
  // `self` identifies the thread: fire() may cancel its own event without waiting for itself. After
  // `most` events the run is over: the others wait for those whom these have woken.
  timer_run(const void* self, std::uint32_t most) : self_(self), left_(most) {}
  timer_run(const timer_run&) = delete;
  timer_run& operator=(const timer_run&) = delete;

  // What to tell the event that take_due() has returned: its time has come.
  std::int64_t time() const { return time_; }

 private:
  friend class timer_set;
  const void* self_;
  std::int64_t time_ = 0;
  std::uint32_t left_;
  timer_event* current_ = nullptr;
  timer_run* next_ = nullptr;
  bool listed_ = false;
};

class timer_set {
 public:
  constexpr timer_set() noexcept = default;
  explicit timer_set(on_zeros zeros) noexcept : wheel_(zeros) {}
  timer_set(const timer_set&) = delete;
  timer_set& operator=(const timer_set&) = delete;

  // Requires: e is idle, or claimed by the caller; it is `now`, about, or a little later: what is started in an empty set that
  // takes it to be an hour ago comes down in one piece, when the first of them is due.
  // True: it is the earliest now, or who sleeps until the earliest may sleep for longer than that, because it was one of
  // many. e may fire, and be gone, before this returns.
  bool start(timer_event& e, std::int64_t now) {
    const std::int64_t when = e.when = clamp(e.when);
    lock_.lock();
    if (count_ == 0) {
      wheel_.skip_to(now);
    }
    wheel_.insert(e);
    ++count_;
    e.where.store(name(), WEFT_ORDER(TE0, relaxed));  // order: relaxed, under the lock
    const bool earlier = when < next();
    if (earlier) {
      if (near_ != 0 && when < near_begin_ - slack()) {
        forget_crowd();  // this one is not of it, and shall not be late for it
      }
      set_next(when);
    }
    near_ += is_near(when);
    const bool missed = when < overslept_;
    lock_.unlock();
    return earlier || missed;
  }

  // No timer is due at 0, which says "now" and "nobody" to those who sleep until a time
  // (sched/timer_watch.cc).
  static std::int64_t clamp(std::int64_t when) {
    return when < 1 ? 1 : when == kNever ? kNever - 1 : when;
  }

  // See timer_cancel(), timer_stop(), timer_restart.
  static bool cancel(timer_event& e, const void* self) { return take_out(e, how::cancel, self); }
  static bool stop(timer_event& e) { return take_out(e, how::stop, nullptr); }
  static bool claim(timer_event& e) { return take_out(e, how::claim, nullptr); }

  // Ends what the run did last, and takes the next event that is due. Null: there is none; the run is
  // over. The caller fires what it gets, at run.time(): another run, which began later, may have found it due.
  timer_event* take_due(timer_run& run, std::int64_t now) {
    lock_.lock();
    if (!run.listed_) {
      run.next_ = runs_;
      runs_ = &run;
      run.listed_ = true;
      wheel_.advance(now);
      set_next(wheel_.next());
    }
    timer_event* e = run.left_ > 0 ? wheel_.pop_due() : nullptr;
    run.current_ = e;
    if (e != nullptr) {
      --count_;
      --run.left_;
      run.time_ = now < e->when && !WEFT_MUTANT("fires-by-its-own-clock") ? e->when : now;
      // order: relaxed, under the lock
      e->where.store(name() | kFired, WEFT_ORDER(TE0, relaxed));
    } else {
      unlist(run);
      look_ahead();
    }
    lock_.unlock();
    return e;
  }

  // When to look: TS3. Readable by anybody.
  std::int64_t next() const {
    return next_.load(WEFT_ORDER(TN0, relaxed));  // order: relaxed, see sched/timer_watch.cc
  }

  // By how much a sleeper may oversleep next(). In a crowd, waking for each event alone would cost more
  // than all that they start; so the more are near, the longer the sleeper may wait for them. It ends
  // with the crowd: what is started afterwards is not late because of those that were near and have been
  // stopped. One that was there before may be, once, if nobody looks meanwhile: stopping wakes nobody.
  std::int64_t slack() const {
    return slack_.load(WEFT_ORDER(TN0, relaxed));  // order: relaxed, a hint
  }

  // Its P goes out of use: everything goes to another one's set. Requires: nobody runs timers.
  // True: the other set has an earlier event now, or one that who sleeps for it may oversleep, as start().
  bool move_to(timer_set& to, std::int64_t now) {
    lock_.lock();
    timer_event* all = wheel_.take_all();
    for (timer_event* e = all; e != nullptr; e = e->next) {
      e->where.store(kClaimed, WEFT_ORDER(TE0, relaxed));  // order: relaxed, under the lock
    }
    const std::uint64_t n = count_;
    count_ = 0;
    forget_crowd();
    set_next(kNever);
    lock_.unlock();
    bool earlier = false;
    to.lock_.lock();
    if (to.count_ == 0) {
      to.wheel_.skip_to(now);
    }
    while (timer_event* e = all) {
      all = e->next;
      to.wheel_.insert(*e);
      if (e->when < to.next()) {
        to.forget_crowd();  // as in start(), and without asking how much earlier it is
        to.set_next(e->when);
        earlier = true;
      }
      to.near_ += to.is_near(e->when) ? 1 : 0;
      earlier |= e->when < to.overslept_;
      // Last: from here on a canceller may find it, once it gets the lock.
      e->where.store(to.name(), WEFT_ORDER(TE0, relaxed));  // order: relaxed, under the lock
    }
    to.count_ += n;
    to.lock_.unlock();
    return earlier;
  }

  std::uint64_t count() {
    const scoped_lock held(lock_);
    return count_;
  }
  // Up to when the wheel has come, for tests.
  std::int64_t knows() {
    const scoped_lock held(lock_);
    return wheel_.now();
  }
  // For reports by those who may not take the lock. Not instrumented: it may be changing.
  [[gnu::no_sanitize_thread]] std::uint64_t count_hint() const WEFT_NO_THREAD_SAFETY_ANALYSIS {
    return count_;
  }

 private:
  static constexpr std::uintptr_t kFired = 1;    // added to a set's name
  static constexpr std::uintptr_t kClaimed = 2;  // somebody's, who will start it: ask again
  enum class how : std::uint8_t {
    cancel,  // idle afterwards, and nobody inside fire()
    stop,    // not pending afterwards
    claim,   // the caller's afterwards
  };
  enum class outcome : std::uint8_t { removed, over, retry };
#ifdef WEFT_MODEL
  using wheel = timer_wheel<61, 1>;
#else
  using wheel = timer_wheel<14, 8>;
#endif

  std::uintptr_t name() const { return reinterpret_cast<std::uintptr_t>(this); }
  void set_slack(std::int64_t ns) {
    slack_.store(ns, WEFT_ORDER(TN0, relaxed));  // order: relaxed, a hint
  }
  void set_next(std::int64_t when) {
    next_.store(when, WEFT_ORDER(TN0, relaxed));  // order: relaxed, see sched/timer_watch.cc
  }

  static bool take_out(timer_event& e, how h, const void* self) {
    for (;; cpu_pause()) {
      // order: relaxed; counts only if it is still so under the lock
      std::uintptr_t where = e.where.load(WEFT_ORDER(TE0, relaxed));
      if (where == kClaimed) {
        continue;
      }
      if (where == 0) {
        if (h != how::claim) {
          return false;
        }
        // order: TE1 acquire: its links as the last holder left them; pairs with try_take_out().
        // Failure: asks again.
        if (e.where.compare_exchange_strong(where, kClaimed, WEFT_ORDER(TE1, acquire),
                                            WEFT_ORDER(TE0, relaxed))) {
          return false;
        }
        continue;
      }
      auto& set = *reinterpret_cast<timer_set*>(where & ~kFired);
      switch (set.try_take_out(e, where, h, self)) {
        case outcome::removed: return true;
        case outcome::over: return false;
        case outcome::retry: break;
      }
    }
  }

  outcome try_take_out(timer_event& e, std::uintptr_t where, how h, const void* self) {
    const scoped_lock held(lock_);
    if (e.where.load(WEFT_ORDER(TE0, relaxed)) != where) {  // order: relaxed, under the lock
      return outcome::retry;
    }
    const bool pending = (where & kFired) == 0;
    if (pending) {
      wheel_.remove(e);
      if (is_near(e.when) && --near_ < kFewest) {
        forget_crowd();
      }
      if (--count_ == 0) {
        set_next(kNever);
      }
    } else if (h == how::stop) {
      return outcome::over;
    } else if (h == how::cancel && fires_elsewhere(e, self) && !WEFT_MUTANT("cancel-waits-not")) {
      return outcome::retry;
    }
    // order: TE1 release: whoever takes it up next finds its links; pairs with take_out()
    e.where.store(h == how::claim ? kClaimed : 0, WEFT_ORDER(TE1, release));
    return pending ? outcome::removed : outcome::over;
  }

  // At the end of a run.
  void look_ahead() {
    constexpr unsigned kSlots = 18;              // 295 us
    constexpr unsigned kCrowd = 8;               // events in that time
    constexpr std::int64_t kSlackEach = 16'000;  // ns per event: about what a wake-up costs
    constexpr std::int64_t kMostSlack = kSlots * kSlackEach;
    forget_crowd();
    const std::int64_t overdue = wheel_.next_due();
    if (overdue != kNever) {
      set_next(overdue);
      return;
    }
    set_next(wheel_.next());  // another run's end may have told of what was overdue then
    std::int64_t end = 0;
    const unsigned n = wheel_.crowd(next(), kSlots, kCrowd, &end);
    if (n >= kFewest) {
      near_ = n;
      near_end_ = end;
      near_begin_ = next();
      set_slack(n == kCrowd ? kMostSlack : n * kSlackEach);
    }
  }

  bool is_near(std::int64_t when) const { return near_ != 0 && when <= near_end_; }

  // There is none any more; but somebody may sleep on its account.
  void forget_crowd() {
    if (near_ != 0) {
      overslept_ = (next() < near_end_ ? next() : near_end_) + slack();
      near_ = 0;
      set_slack(0);
    }
  }

  bool fires_elsewhere(const timer_event& e, const void* self) const {
    for (const timer_run* r = runs_; r != nullptr; r = r->next_) {
      if (r->current_ == &e && r->self_ != self) {
        return true;
      }
    }
    return false;
  }

  void unlist(timer_run& run) {
    timer_run** link = &runs_;
    while (*link != &run) {
      link = &(*link)->next_;
    }
    *link = run.next_;
    run.listed_ = false;
  }

  atomic<std::int64_t> next_{kNever};
  atomic<std::int64_t> slack_{0};
  ranked_lock lock_{lock_rank::timers};
  timer_run* runs_ = nullptr;  // those who fire events of this set now
  std::uint64_t count_ = 0;
  static constexpr std::uint64_t kFewest = 3;  // are a crowd
  std::uint64_t near_ = 0;  // up to near_end_; no more than there are. 0: no crowd
  std::int64_t near_begin_ = 0;
  std::int64_t near_end_ = 0;
  std::int64_t overslept_ = 0;  // who sleeps until the earliest may do so until then
  wheel wheel_;
};

}  // namespace weft::rt
