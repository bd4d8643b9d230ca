// When timers are looked at, and who sleeps until the next one.
//
// Every P has a set of timers (timer/timer_set.h). They are run by the P's own M between two
// goroutines, by thieves that find nothing better, and, when there is an idle P, by the *watcher*: the
// one of the idle Ms that sleeps until the earliest of all timers, then takes an idle P and runs what
// is due, on whichever P it was started. So an overdue timer waits neither for a busy P nor for a
// sleeping process.
//
//   somebody starts a timer that is          an M falls asleep (sched.lock held)
//   its P's earliest
//   1. next() of the P's set = when          1. P onto the idle list (before)
//   2. full fence                    TW1     2. no watcher: becomes it, watched_until = kNever
//   3. no idle P: done                       3. full fence                             TW1
//   4. watched_until <= when: done           4. first = the earliest next() of all sets
//   5. there is a watcher: poke it           5. first < watched_until: becomes the watcher,
//      none: wake_p()                           watched_until = first; sleeps until then
//
// T1: if a P is idle and a timer pending, then an M is spinning or about to (idle_state.h), or there
//     is a watcher that wakes no later than the timer is due, or somebody is on the way to poke it,
//     or a releaser of a P has not finished step 5. Otherwise a timer waits for an unrelated event.
//
// Whoever lets a P go looks himself, so step 3 may give up; and whoever looks takes the watch over if
// he knows of something earlier, so a goroutine that sleeps when nothing else is to be done costs no
// futex call but its M's own. A watcher that is handed a P sees to it that there is another.
//
// Reading the clock costs more than a switch. So while goroutines follow each other on a P it is
// read once per so many switches as took about 20 us the last time.
//
// Go: runtime/proc.go findRunnable, checkTimers, wakeNetPoller; runtime/time.go
#include "sched/timers.h"

#include "base/fatal.h"
#include "sched/park.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

std::int64_t watched_until() {
  return sched.watched_until.load(
      WEFT_ORDER(TW0, relaxed));  // order: relaxed, TW1's fences order it
}

void set_watched_until(std::int64_t when) {
  sched.watched_until.store(when, WEFT_ORDER(TW0, relaxed));  // order: relaxed, as above
}

// The watcher shall wake for `when`, or somebody shall become one.
void rouse_watcher(std::int64_t when) {
  sched.lock.lock();
  M* mp = sched.timer_watcher;
  if (mp == nullptr) {
    sched.lock.unlock();
    if (sched.idle.claim_wake()) {
      wake_p_slow();
    }
    return;
  }
  const bool earlier = when < watched_until();
  if (earlier) {
    set_watched_until(when);  // those who start later ones need not come here
  }
  // Handed a P already: it will look for another watcher itself.
  const bool poke = earlier && !mp->poked && mp->nextp == nullptr;
  mp->poked = mp->poked || poke;
  sched.lock.unlock();
  if (poke) {
    mp->park.wake();
  }
}

// Steps 2 to 5. mp is the M of the section, or null.
void somebody_must_watch(const M* mp, const P* pp, std::int64_t when) {
  if (pp->lone && mp != nullptr && mp->p == pp) {
    return;  // it is the only one who could run it, and looks before it sleeps
  }
  fence(WEFT_ORDER(TW1, seq_cst));  // order: TW1 Dekker with the fence in watch_timers()
  if (sched.idle.idle() == 0) {
    return;
  }
  const std::int64_t until = watched_until();
  if (until == 0) {
    if (!WEFT_MUTANT("no-watcher-no-wake") && sched.idle.claim_wake()) {
      wake_p_slow();
    }
  } else if (when < until && !WEFT_MUTANT("poke-forgotten")) {
    rouse_watcher(when);
  }
}

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
  const std::int64_t when = e.when;
  if (pp->timers.start(e)) {
    somebody_must_watch(mp, pp, when);
  }
}

namespace {

// When to run pp's timers: when the next one is due, or a little later where there is a crowd. Whoever
// is awake does so somewhat before a sleeper would be woken for it.
std::int64_t wake_time(const P* pp) { return time_after(pp->timers.next(), pp->timers.slack()); }
std::int64_t run_time(const P* pp) {
  return time_after(pp->timers.next(), pp->timers.slack() / 4 * 3);
}

std::int64_t earliest(std::int64_t (*time_of)(const P*)) {
  std::int64_t first = kNever;
  const std::int32_t n = sched.proc_count();
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int64_t next = time_of(sched.p(i));
    first = next < first ? next : first;
  }
  return first;
}

// Somebody else wakes so soon that he can take his share of a crowd without being woken for it.
bool watcher_comes_soon(const P* victim, std::int64_t now) {
  const std::int64_t slack = victim->timers.slack();
  return slack != 0 && watched_until() != 0 && watched_until() - now <= 2 * slack;
}

}  // namespace

std::int64_t earliest_timer() {
  return earliest([](const P* pp) { return pp->timers.next(); });
}

bool run_timers(M* mp, P* victim, std::int64_t* now, bool crowd_too) {
  const std::int64_t next = crowd_too ? victim->timers.next() : run_time(victim);
  if (next == kNever) {
    return false;
  }
  if (*now == 0) {
    *now = nanotime();
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
  const bool wakes_nobody = pp->wakes_nobody;
  pp->wakes_nobody = wakes_nobody || watcher_comes_soon(victim, *now);
  for (;;) {
    tsan_ignore_begin();  // events are handed over from goroutine to goroutine, not to this M
    timer_event* e = victim->timers.take_due(run, *now);
    tsan_ignore_end();
    if (e == nullptr) {
      pp->wakes_nobody = wakes_nobody;
      return ran;
    }
    tsan_acquire(e);
    e->fire(e, *now);  // it may be gone now
    ran = true;
  }
}

void run_own_timers(M* mp) {
  std::int64_t now = 0;
  if (mp->timer_is_due) {
    mp->timer_is_due = false;
    for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
      run_timers(mp, sched.p(i), &now, /*crowd_too=*/true);  // or each P's would have its own times
    }
    if (mp->has_deputy) {
      find_timer_watcher();  // if the deputy wakes too late for what is next
    }
  } else {
    run_timers(mp, mp->p, &now);
  }
  if (now != 0) {
    count_look(mp->p, now);
  }
}

namespace {

// There is a watcher. In a crowd the next M that falls asleep is its deputy: it sleeps until the time
// after, when it would have to be woken otherwise, because the watcher will be busy with those who
// are woken now.
std::int64_t be_deputy(M* mp) WEFT_REQUIRES(sched.lock) {
  std::int64_t slack = 0;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    const std::int64_t each = sched.p(i)->timers.slack();
    slack = each > slack ? each : slack;
  }
  if (slack == 0 || sched.timer_deputy != nullptr) {
    return kNever;
  }
  sched.timer_deputy = mp;
  sched.deputy_until = time_after(watched_until(), slack);
  return sched.deputy_until;
}

}  // namespace

std::int64_t watch_timers(M* mp) {
  if (sched.timer_deputy == mp) {
    sched.timer_deputy = nullptr;
  }
  const bool vacant = sched.timer_watcher == nullptr || sched.timer_watcher == mp;
  if (vacant && !WEFT_MUTANT("watch-unannounced")) {
    sched.timer_watcher = mp;
    set_watched_until(kNever);
  }
  fence(WEFT_ORDER(TW1, seq_cst));  // order: TW1 Dekker with the fence in somebody_must_watch()
  const std::int64_t until = earliest(wake_time);
  if (until == kNever) {
    return kNever;
  }
  const std::int64_t time = nanotime();
  if (!vacant && until >= watched_until() && time < watched_until()) {  // else it should be awake
    return be_deputy(mp);
  }
  if (earliest(run_time) <= time) {
    // Without an idle P: whoever lets one go looks himself.
    P* pp = idle_p_get();
    if (pp == nullptr) {
      return kNever;
    }
    idle_m_remove(mp);
    mp->has_deputy = stop_watching_timers(mp) && sched.timer_watcher != nullptr;
    mp->spinning = true;
    sched.idle.become_spinning();
    mp->timer_is_due = true;
    acquire_p(mp, pp);
    return kTimerDue;
  }
  sched.timer_watcher = mp;
  set_watched_until(until);
  return until;
}

bool stop_watching_timers(M* mp) {
  if (sched.timer_deputy == mp) {
    sched.timer_deputy = nullptr;
  }
  if (sched.timer_watcher != mp) {
    return false;
  }
  M* deputy = sched.timer_deputy;
  sched.timer_watcher = deputy;
  set_watched_until(deputy != nullptr ? sched.deputy_until : 0);
  sched.timer_deputy = nullptr;
  return true;
}

void find_timer_watcher() {
  fence(WEFT_ORDER(TW1, seq_cst));  // order: TW1 Dekker with the one in somebody_must_watch()
  const std::int64_t first = earliest(wake_time);
  const std::int64_t until = watched_until();
  if (first == kNever || (until != 0 && until <= first)) {
    return;
  }
  rouse_watcher(first);
}

void move_timers(std::int32_t procs) {
  for (std::int32_t i = procs; i < sched.proc_count(); ++i) {
    sched.p(i)->timers.move_to(sched.p(0)->timers);
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
struct timer_section {
  M* mp = enter_runtime();
  [[gnu::always_inline]] timer_section() {
    if (mp == nullptr) {
      tsan_ignore_begin();
    }
  }
  [[gnu::always_inline]] ~timer_section() {
    if (mp == nullptr) {
      tsan_ignore_end();
    }
    leave_runtime(mp);
  }
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

bool timer_claim(timer_event& e) {
  bool was_pending = false;
  {
    const timer_section here;
    was_pending = timer_set::claim(e);
  }
  tsan_acquire(&e);
  return was_pending;
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
