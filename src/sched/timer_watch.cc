// Who sleeps until the next timer.
//
// Every P has a set of timers (timer/timer_set.h), which are run by the P's own M between two goroutines,
// by thieves that find nothing better (timers.cc), and, when there is an idle P, by the *watcher*: the
// one of the idle Ms that sleeps until the earliest of all timers, then takes an idle P and runs what
// is due, on whichever P it was started. So an overdue timer waits neither for a busy P nor for a
// sleeping process.
//
//   somebody starts a timer that is          an M falls asleep (sched.lock held)
//   its P's earliest
//   1. next() of the P's set = when          1. P onto the idle list (before)
//   2. full fence                    TW1     2. no watcher: becomes it, watched_until = kNever
//   3. watched_until <= when: done           3. full fence                             TW1
//   4. there is a watcher: poke it           4. first = the earliest next() of all sets
//      none, and no idle P: sysmon           5. first < watched_until: becomes the watcher,
//      shall look; none: wake_p()               watched_until = first; sleeps until then
//
// T1: if a P is idle and a timer pending, then an M is spinning or about to (idle_state.h), or there
//     is a watcher that wakes no later than the timer is due, or somebody is on the way to poke it,
//     or a releaser of a P has not finished step 5, or an M on g0 owes a look (owes_watch), to which it
//     comes before it runs a goroutine. Otherwise a timer waits for an unrelated event.
//
// Whoever lets a P go looks himself, so step 4 may leave it to sysmon; and whoever looks takes the watch over if
// he knows of something earlier, so a goroutine that sleeps when nothing else is to be done costs no
// futex call but its M's own. A watcher that is handed a P sees to it that there is another.
//
// While no P is idle a watcher could run nothing, and sysmon sleeps until the next timer, and takes a P from somebody. But
// an M that was woken for that, and then had nothing else to do, stands in: it watches all the same, and borrows a P
// when its time comes (borrow.cc). So sysmon can sleep on.
//
// T3: if no P is idle and a timer pending, then there is a stand-in as in T1, or sysmon looks by the time that it is
//     due, or a little later (kTimerGrace; 2 ms while it rests firmly, retake.cc), or it has been woken. A stand-in that leaves tells sysmon, or whoever is the
//     watcher then; so does a watcher of another kind that wakes and finds no P.
//
// Crowds: so many timers close together that a wake-up for each would cost more than what they start.
// The watcher oversleeps a little (timer_set::slack), and the next M that falls asleep is its deputy,
// who wakes a little later still. Both would have to be woken otherwise, at 9 us each, to find that
// most of those whom the crowd has woken are through. So whoever runs a crowd wakes nobody for it, if
// a watcher is due within kSoon: he says so by `crowd_waits`, and the watcher, when its time comes or
// it is woken for something else, looks for work as well as for timers.
//
// T2: if wake-ups were left out for a crowd, and some of those woken still wait, then an M spins, or
//     crowd_waits is set and there is a watcher that is due within kSoon, or handed a P and on its
//     way; all of it under sched.lock. Otherwise they wait one after the other on one P, beside idle
//     ones. (I1 in idle_state.h says so for all other work.)
//
// Go: runtime/proc.go findRunnable, wakeNetPoller
#include "base/fatal.h"
#include "os/thread.h"
#include "sched/netpoll.h"
#include "sched/sched_api.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kSoon = 600'000;  // ns: twice the longest slack

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
  const bool polls = mp == sched.poller;
  sched.lock.unlock();
  if (poke) {
    wake_sleeping_m(mp, polls);
  }
}

// When to run pp's timers: when the next one is due, or a little later where there is a crowd. Whoever
// is awake does so somewhat before a sleeper would be woken for it.
std::int64_t wake_time(const P* pp) { return time_after(pp->timers.next(), pp->timers.slack()); }

std::int64_t earliest(std::int64_t (*time_of)(const P*)) {
  std::int64_t first = kNever;
  const std::int32_t n = sched.proc_count();
  for (std::int32_t i = 0; i < n; ++i) {
    const std::int64_t next = time_of(sched.p(i));
    first = next < first ? next : first;
  }
  return first;
}

}  // namespace

void somebody_must_watch(M* mp, const P* pp, std::int64_t when) {
  if (mp != nullptr && mp->curg == nullptr) {
    mp->owes_watch = true;  // on g0: it will mostly fall asleep now, and watch by itself
    return;
  }
  if (pp->lone && mp != nullptr && mp->p == pp && mp->lender == nullptr) {
    // It is the only one who could run it, and looks before it sleeps; but it may compute for long.
    wake_sysmon_for_timer(when);  // unfenced
    return;
  }
  fence(WEFT_ORDER(TW1, seq_cst));  // order: TW1 Dekker with the fence in watch_timers()
  const std::int64_t until = watched_until();
  if (until == 0 && sched.idle.idle() == 0) {
    wake_sysmon_for_timer(when);
  } else if (until == 0) {
    if (!WEFT_MUTANT("no-watcher-no-wake") && sched.idle.claim_wake()) {
      wake_p_slow();
    }
  } else if (when < until && !WEFT_MUTANT("poke-forgotten")) {
    rouse_watcher(when);
  }
}

std::int64_t earliest_timer() {
  return earliest([](const P* pp) { return pp->timers.next(); });
}

bool watcher_comes_soon(std::int64_t now) {
  const std::int64_t until = watched_until();
  return until != 0 && until - now <= kSoon;
}

bool watcher_will_look() {
  const scoped_lock held(sched.lock);
  if (!WEFT_MUTANT("relies-on-nobody") &&
      (sched.timer_watcher == nullptr || !watcher_comes_soon(nanotime()))) {
    return false;
  }
  sched.crowd_waits = true;
  return true;
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

// mp has taken pp, and shall look at everybody's timers and queues.
void look_with(M* mp, P* pp) WEFT_REQUIRES(sched.lock) {
  idle_m_remove(mp);
  mp->has_deputy = stop_watching_timers(mp) && sched.timer_watcher != nullptr;
  mp->spinning = true;
  sched.idle.become_spinning();
  mp->timer_is_due = true;
  acquire_p(mp, pp);
}

// Nobody was woken for a crowd because the caller would come. True: mp has taken a P to help.
bool help_crowd(M* mp) WEFT_REQUIRES(sched.lock) {
  if (!sched.crowd_waits || WEFT_MUTANT("watcher-sees-no-work")) {
    return false;
  }
  sched.crowd_waits = false;
  if (!others_have_work(nullptr)) {
    return false;
  }
  P* pp = idle_p_get_for_work();
  if (pp == nullptr) {
    return false;
  }
  look_with(mp, pp);
  mp->has_deputy = false;  // it shall not rely on the next one in turn
  return true;
}

// No P is idle. It can run nothing that is due, unless it borrows a P (borrow.cc). Whoever lets a P go looks himself; until
// then sysmon does.
std::int64_t stand_in(M* mp) WEFT_REQUIRES(sched.lock) {
  if (!mp->stands_in) {
    // Since it fell asleep the last P was taken; sysmon left the timers to it.
    if (stop_watching_timers(mp) && !WEFT_MUTANT("watcher-tells-nobody")) {
      wake_sysmon_locked();
    }
    return kNever;
  }
  const std::int64_t slept_until = sched.timer_watcher == mp ? watched_until() : kNever;
  const bool vacant = sched.timer_watcher == nullptr || sched.timer_watcher == mp;
  if (vacant) {
    sched.timer_watcher = mp;
    set_watched_until(kNever);
  }
  fence(WEFT_ORDER(TW1, seq_cst));  // order: TW1 Dekker with the fence in somebody_must_watch()
  const std::int64_t until = earliest(wake_time);
  if (!vacant && (until >= watched_until() || WEFT_MUTANT("later-stand-in-stays"))) {
    return kNever;
  }
  if (!mp->short_slices) {
    mp->short_slices = true;
    ask_for_short_slices(true);
  }
  const std::int64_t time = nanotime();
  const bool due = earliest(run_time) <= time;
  if (due && borrow_p_locked(mp)) {
    return kTimerDue;
  }
  if (due || slept_until <= time) {
    // Others have run it, or it takes a signal.
    mp->stands_in = false;
    static_cast<void>(stop_watching_timers(mp));
    // Without a fence: between saying that it sleeps and looking at the timers sysmon takes the lock, too.
    if (!WEFT_MUTANT("stand-in-tells-nobody")) {
      wake_sysmon_locked();
    }
    return kNever;
  }
  sched.timer_watcher = mp;
  set_watched_until(until);
  return until;
}

}  // namespace

std::int64_t timer_for_sysmon() {
  const std::int64_t until = watched_until();
  const std::int64_t first = earliest(wake_time);
  return until != 0 && until <= first ? kNever : earliest_timer();
}

std::int64_t watch_timers(M* mp) {
  mp->owes_watch = false;
  if (sched.timer_deputy == mp) {
    sched.timer_deputy = nullptr;
  }
  if (help_crowd(mp)) {
    return kTimerDue;
  }
  if (sched.idle.idle() == 0) {
    return stand_in(mp);
  }
  mp->stands_in = false;
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
    look_with(mp, pp);
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
  fence(WEFT_ORDER(TW1, seq_cst));  // order: TW1 Dekker with the one in watch_timers()
  const std::int64_t until = watched_until();
  const bool busy = sched.idle.idle() == 0;
  if (busy && until == 0 && !sysmon_sleeps()) {
    return;
  }
  const std::int64_t first = earliest(wake_time);
  if (first == kNever || (until != 0 && until <= first)) {
    return;
  }
  if (busy && until == 0) {
    wake_sysmon_for_timer(first);
    return;
  }
  rouse_watcher(first);
}

}  // namespace weft::rt
