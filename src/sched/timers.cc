// Starting timers, stopping them, and running those that are due. Who sleeps until the next one is
// another matter: timer_watch.cc.
//
// Reading the clock costs more than a switch. So while goroutines follow each other on a P it is
// read once per so many switches as took about 20 us the last time.
//
// Go: runtime/proc.go checkTimers; runtime/time.go
#include "sched/timers.h"

#include "base/fatal.h"
#include "os/clock.h"
#include "sched/park.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

// Chooses after how many switches to read the clock again.
void count_look(P* pp, std::int64_t now) {
  constexpr std::int64_t kBetweenLooks = 20'000;  // ns
  constexpr std::uint32_t kMostSwitches = 64;
  const std::int64_t took = now - pp->timers_seen;
  pp->timers_seen = now;
  if (took > kBetweenLooks) {
    pp->timer_interval = pp->timer_interval > 1 ? pp->timer_interval / 2 : 1;
  } else if (pp->timer_interval < kMostSwitches) {
    ++pp->timer_interval;
  }
  pp->timer_countdown = pp->timer_interval;
}

}  // namespace

void arm_timer(M* mp, timer_event& e) {
  // A plain thread uses P 0, which never goes out of use.
  P* pp = mp == nullptr || mp->p == nullptr ? sched.p(0) : mp->p;
  const std::int64_t when = timer_set::clamp(e.when);  // it may be gone afterwards
  // An M has noted the time when it woke up or came back; while all sleep nobody does.
  if (pp->timers.start(e, mp == nullptr ? nanotime() : coarse_time())) {
    somebody_must_watch(mp, pp, when);
  }
}

bool run_timers(M* mp, P* victim, std::int64_t* now, bool crowd_too) {
  const std::int64_t next = crowd_too ? victim->timers.next() : run_time(victim);
  if (next == kNever) {
    return false;
  }
  if (*now == 0) {
    *now = nanotime();
    note_time(*now);
  }
  if (*now < next) {
    return false;
  }
  // Many at once shall not overflow the ring: they would wait behind everybody in the global queue.
  constexpr std::uint32_t kAtLeast = 16;
  const std::uint32_t room = kRunQueueSize - mp->p->runq.size();
  timer_run run(mp, room > kAtLeast ? room : kAtLeast);
  bool ran = false;
  P* pp = mp->p;
  const bool lone = pp->wakes_nobody;
  const bool crowd = !lone && victim->timers.slack() != 0 && watcher_comes_soon(*now);
  pp->wakes_nobody = lone || crowd;
  for (;;) {
    tsan_ignore_begin();  // events are handed over from goroutine to goroutine, not to this M
    timer_event* e = victim->timers.take_due(run, *now);
    tsan_ignore_end();
    if (e == nullptr) {
      break;
    }
    tsan_acquire(e);
    e->fire(e, run.time());  // it may be gone now
    ran = true;
  }
  pp->wakes_nobody = lone;
  // Who spins sees to it when it has found work. keeps T2
  if (crowd && ran && !mp->spinning && !watcher_will_look()) {
    wake_p(pp);
  }
  return ran;
}

void run_own_timers(M* mp) {
  std::int64_t now = 0;
  if (mp->timer_is_due) {
    mp->timer_is_due = false;
    for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
      run_timers(mp, sched.p(i), &now, /*crowd_too=*/true);  // or each P's would have its own times
    }
  } else {
    run_timers(mp, mp->p, &now);
  }
  if (now != 0) {
    count_look(mp->p, now);
  }
}

void move_timers(std::int32_t procs) {
  for (std::int32_t i = procs; i < sched.proc_count(); ++i) {
    sched.p(i)->timers.move_to(sched.p(0)->timers, nanotime());
  }
}

}  // namespace weft::rt

#ifndef WEFT_MODEL

#include <cerrno>
#include <ctime>

#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

// A section, also for plain threads: events of others are met in the wheel, and TSan need not know.
[[gnu::always_inline]] inline M* enter_timers() {
  M* mp = enter_runtime();
  if (mp == nullptr) {
    tsan_ignore_begin();
  }
  return mp;
}

[[gnu::always_inline]] inline void leave_timers(M* mp) {
  if (mp == nullptr) {
    tsan_ignore_end();
  }
  leave_runtime(mp);
}

struct timer_section {
  M* mp = enter_timers();
  timer_section() = default;
  [[gnu::always_inline]] ~timer_section() { leave_timers(mp); }
  timer_section(const timer_section&) = delete;
  timer_section& operator=(const timer_section&) = delete;
};

}  // namespace

void timer_start(timer_event& e) {
  tsan_release(&e, "ARM");
  const timer_section here;
  if (here.mp == nullptr) {
    ensure_started();
  }
  arm_timer(here.mp, e);
}

bool timer_cancel(timer_event& e) {
  bool cancelled = false;
  {
    const timer_section here;
    cancelled = timer_set::cancel(e, here.mp);
  }
  tsan_acquire(&e);
  return cancelled;
}

bool timer_stop(timer_event& e) {
  const timer_section here;
  return timer_set::stop(e);
}

timer_restart::timer_restart(timer_event& e) : event_(e) {
  tsan_release(&e, "ARM");  // of the goroutine; from here on TSan sees the M
  mp_ = enter_timers();
  if (mp_ == nullptr) {
    ensure_started();
  }
  was_pending_ = timer_set::claim(e);
}

timer_restart::~timer_restart() {
  arm_timer(mp_, event_);
  leave_timers(mp_);
}

namespace {

struct sleeping : timer_event {
  waiter w;
};

void end_sleep(timer_event* e, std::int64_t) { wake(&static_cast<sleeping*>(e)->w); }

// The sleeper is off its stack: the timer may fire at once, and then `event` is gone. [T-12]
bool begin_sleep(waiter*, void* event) {
  arm_timer(current_m(), *static_cast<timer_event*>(event));
  return true;
}

void sleep_thread(std::int64_t when) {
  const timespec deadline{static_cast<time_t>(when / 1'000'000'000),
                          static_cast<long>(when % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

}  // namespace

void sleep_until(std::int64_t when) {
  if (!on_goroutine() || this_thread_exits()) {
    sleep_thread(when);
    return;
  }
  sleeping s;
  s.when = when;
  s.fire = end_sleep;
  timer_event* event = &s;
  block(s.w, begin_sleep, event, event, wait_reason::sleep);
}

}  // namespace weft::rt

#endif  // WEFT_MODEL
