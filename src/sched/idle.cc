// Ms without work and Ps without an M: the delicate part. The counters and the proof are in
// gmp/idle_state.h; this file does what they decide, under sched.lock.
//
// Idle lists are stacks: the M and the P that slept last have the warmest caches.
//
// Go: runtime/proc.go startm, stopm, wakep, handoffp, pidleget, mput
#include "base/fatal.h"
#include "os/clock.h"
#include "os/thread.h"
#include "poll/poll_desc.h"
#include "sched/chaos.h"
#include "sched/netpoll.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/switch.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

p_status status_of(const P* pp) {
  return pp->status.load(WEFT_ORDER(PS0, relaxed));  // order: relaxed, handed over under sched.lock
}

void set_status(P* pp, p_status to) {
  pp->status.store(to, WEFT_ORDER(PS0, relaxed));  // order: relaxed, handed over under sched.lock
}

M* owner_of(const P* pp) {
  return pp->m.load(
      WEFT_ORDER(PM1, relaxed));  // order: relaxed, the owner's own, or under sched.lock
}

// For freeze.cc, which asks when nobody takes or gives a P any more.
void set_thread(P* pp, int tid) {
  pp->thread.store(tid, WEFT_ORDER(PT0, relaxed));  // order: relaxed, a word on its own
}

}  // namespace

// [P-2]
void acquire_p(M* mp, P* pp) {
  WEFT_CHECK(mp->p == nullptr && owner_of(pp) == nullptr, "acquire_p: already in use");
  WEFT_CHECK(status_of(pp) != p_status::running, "acquire_p: P is running");
  mp->p = pp;
  // order: PM1 release: the M is set up; pairs with sysmon's look in retake.cc
  pp->m.store(mp, WEFT_ORDER(PM1, release));
  set_thread(pp, mp->tid);
  set_status(pp, p_status::running);
  begin_holding(mp, pp);
}

P* release_p(M* mp, p_status to) {
  P* pp = mp->p;
  WEFT_CHECK(pp != nullptr && owner_of(pp) == mp, "release_p: not ours");
  if (status_of(pp) == p_status::stopped) {
    fatal(kBlocksInStoppedWorld, user_fault);  // it would arrive at the gate twice. keeps W1
  }
  mp->p = nullptr;
  mp->last_p = pp;
  mp->lender = nullptr;
  pp->m.store(nullptr, WEFT_ORDER(PM1, relaxed));  // order: relaxed, says nothing
  set_thread(pp, 0);
  set_status(pp, to);
  return pp;
}

void idle_p_put(P* pp) {
  WEFT_CHECK(pp->runq.empty(), "a P with work went idle");
  set_status(pp, p_status::idle);
  pp->idle_next = sched.idle_ps;
  sched.idle_ps = pp;
  sched.idle.add_idle(1);
}

P* idle_p_get() {
  P* pp = sched.idle_ps;
  if (pp != nullptr) {
    sched.idle_ps = pp->idle_next;
    pp->idle_next = nullptr;
    sched.idle.add_idle(-1);
    wake_sysmon_for_p_locked();
  }
  return pp;
}

P* idle_p_get_of(const M* mp) {
  for (P** link = &sched.idle_ps; *link != nullptr; link = &(*link)->idle_next) {
    P* pp = *link;
    if (pp == mp->last_p) {
      *link = pp->idle_next;  // to the front
      pp->idle_next = sched.idle_ps;
      sched.idle_ps = pp;
      break;
    }
  }
  return idle_p_get();
}

// [SP-7]
P* idle_p_get_for_work() {
  P* pp = idle_p_get();
  if (pp == nullptr) {
    if (!WEFT_MUTANT("no-request-for-work")) {
      sched.idle.request_spinner();
    }
    // Whoever has taken the last P may compute on, and did not wake it himself. keeps SY-a
    if (!WEFT_MUTANT("work-without-sysmon")) {
      wake_sysmon_locked();
    }
  }
  return pp;
}

void idle_m_put(M* mp) {
  WEFT_CHECK(!mp->is_idle && mp->nextp == nullptr && mp->p == nullptr, "M cannot go idle");
  mp->is_idle = true;
  mp->idle_since = sched.idle_period;
  mp->idle_prev = nullptr;
  mp->idle_next = sched.idle_ms;
  if (sched.idle_ms != nullptr) {
    sched.idle_ms->idle_prev = mp;
  }
  sched.idle_ms = mp;
  ++sched.idle_m_count;
}

void idle_m_remove(M* mp) {
  (mp->idle_prev != nullptr ? mp->idle_prev->idle_next : sched.idle_ms) = mp->idle_next;
  if (mp->idle_next != nullptr) {
    mp->idle_next->idle_prev = mp->idle_prev;
  }
  mp->idle_prev = mp->idle_next = nullptr;
  mp->is_idle = false;
  --sched.idle_m_count;
}

// Whoever watches the timers, or waits for news of descriptors, goes last: somebody else would have to
// take that over.
M* idle_m_get() {
  M* mp = sched.idle_ms;
  for (int i = 0; i < 2; ++i) {
    if (mp != nullptr && (mp == sched.timer_watcher || mp == sched.poller) &&
        mp->idle_next != nullptr) {
      mp = mp->idle_next;
    }
  }
  if (mp != nullptr) {
    idle_m_remove(mp);
  }
  return mp;
}

namespace {

// There is no idle M, and none may be made here (preempt.cc, PE2; and sysmon makes none at all): the spawner makes one, and pp goes
// to the oldest frozen goroutine meanwhile, or waits for the new M. If that finds pp gone it looks for work wherever
// there is an idle P; if there is none either, whoever lets one go next does. keeps I1
void start_later_unlock(P* pp, bool spinning) WEFT_RELEASE(sched.lock) {
  if (spinning) {
    sched.idle.drop_token();
    if (!WEFT_MUTANT("later-without-request")) {
      sched.idle.request_spinner();
    }
  }
  G* oldest = sched.runq.pop_frozen(nanotime());
  if (oldest != nullptr) {
    wake_sysmon_locked();  // what pp was to run waits beside it
    request_spare_ms_locked(1);
    hand_p_unlock(oldest->m, pp);
    return;
  }
  pp->idle_next = sched.unmanned_ps;
  sched.unmanned_ps = pp;
  std::int32_t unmanned = 0;
  for (const P* p = sched.unmanned_ps; p != nullptr; p = p->idle_next) {
    ++unmanned;
  }
  request_spare_ms_locked(unmanned);
  sched.lock.unlock();
  start_system_threads();  // before there is a second M, one that has given its P away has none who would make it
}

}  // namespace

P* unmanned_p_get() {
  P* pp = sched.unmanned_ps;
  if (pp != nullptr) {
    sched.unmanned_ps = pp->idle_next;
    pp->idle_next = nullptr;
  }
  return pp;
}

P* unmanned_p_take(M* mp) {
  P* pp = unmanned_p_get();
  if (pp != nullptr && pp->runq.empty() && sched.idle.spinner_requested() &&
      !WEFT_MUTANT("unmanned-rests")) {
    mp->spinning = true;
    sched.idle.become_spinning();
  }
  return pp;
}

// [MS-1]
void start_m_unlock(P* pp, bool spinning) {
  WEFT_CHECK(!spinning || pp->runq.empty(), "start_m: a spinning M needs an empty P");
  M* mp = idle_m_get();
  // One that was robbed may hold what a new thread needs, too, and wait for its P when the world stops: then nobody may wait
  // for that thread. keeps PE2
  const bool somebody_else =
      sched.frozen_ms > 0 ||
      (sched.robbed_ms != nullptr && !WEFT_MUTANT("created-beside-robbed")) ||
      !may_create_threads();
  if (mp == nullptr && somebody_else) {
    if (WEFT_MUTANT("helper-waits-for-an-m")) {  // one that runs will come
      idle_p_put(pp);
      sched.lock.unlock();
      return;
    }
    start_later_unlock(pp, spinning);
    return;
  }
  if (mp == nullptr) {
    // Counted from here on, so that the deadlock check sees a running M. [DD-8]
    mp = reserve_m();
    sched.creators.fetch_add(1,
                             WEFT_ORDER(CT0, relaxed));  // order: relaxed, raised under sched.lock
    sched.lock.unlock();
    start_thread(mp, pp,
                 spinning);  // which lowers it when it has begun: that takes libc's locks, too
    return;
  }
  WEFT_CHECK(!mp->spinning, "start_m: M is not idle");
  mp->spinning = spinning;
  hand_p_unlock(mp, pp);
}

void wake_p_slow() {
  sched.lock.lock();
  P* pp = idle_p_get_for_work();
  if (pp == nullptr) {
    // Before unlocking: an M that lets its P go from now on must not find the token, and sleep,
    // while submitters still rely on it. keeps I1
    if (!WEFT_MUTANT("token-dropped-unlocked")) {
      sched.idle.drop_token();
    }
    sched.lock.unlock();
    if (WEFT_MUTANT("token-dropped-unlocked")) {
      sched.idle.drop_token();
    }
    return;
  }
  start_m_unlock(pp, /*spinning=*/true);
}

bool others_have_work(const P* than) {
  if (!sched.runq.empty()) {
    return true;
  }
  const std::int32_t n = sched.proc_count();
  for (std::int32_t i = 0; i < n; ++i) {
    const P* pp = sched.p(i);
    if (pp != than && !pp->runq.empty()) {
      return true;
    }
  }
  return false;
}

namespace {

bool somebody_has_work() { return others_have_work(nullptr); }

}  // namespace

void reset_spinning(M* mp) {
  mp->spinning = false;
  sched.idle.found_work();
  const bool has_deputy = mp->has_deputy;
  mp->has_deputy = false;
  // What it has found was all: mostly a lone sleeper, and waking another M would be in vain.
  const bool all_found = !somebody_has_work();
  if (all_found || (has_deputy && !others_have_work(mp->p) && watcher_will_look())) {  // keeps T2
    mp->owes_watch = true;  // nobody else will look at the timers. keeps T1
    return;
  }
  if (!WEFT_MUTANT("found-work-wakes-nobody")) {
    wake_p(mp->p);
  }
}

// Hands pp to a sleeping M. Locks: caller holds sched.lock, which is released.
void hand_p_unlock(M* mp, P* pp) {
  WEFT_CHECK(mp->nextp == nullptr, "an M was handed two Ps");
  mp->nextp = pp;
  // Its note is set already: it will see nextp.
  const bool awake = mp->poked && !WEFT_MUTANT("hand-over-ignores-poke");
  const bool polls = mp == sched.poller;
  sched.lock.unlock();
  if (!awake) {
    wake_sleeping_m(mp, polls);
  }
}

namespace {

// Whoever dismissed it has set its note, or is about to.
void obey_dismissal(M* mp) {
  mp->park.sleep();
  mp->park.clear();
  mp->poked = mp->dismissed = false;
  mp->leaves_loop = true;
}

// How an M sleeps: until when, for what.
struct nap_plan {
  std::int64_t until;
  bool looks_for_deadlock;
  bool polls;
};

// Returns whom it has found ready, if it waits for that.
ready_list sleep_as_planned(M* mp, const nap_plan& plan, std::int64_t* pause) {
  if (plan.polls) {
    return collect_ready(plan.until);
  }
  const std::int64_t nap = plan.looks_for_deadlock || plan.until != kNever ? 0 : chaos_nap(mp);
  if (nap != 0) {
    mp->park.sleep_for(nap);
  } else if (plan.looks_for_deadlock) {
    mp->park.sleep_for(*pause);
    *pause = longer(*pause);
  } else if (plan.until != kNever) {
    mp->park.sleep_until(plan.until);
  } else {
    mp->park.sleep();
  }
  return {};
}

// mp has found somebody ready. True: it has taken a P for them, and left the idle list.
bool take_p_for(M* mp, ready_list& ready) WEFT_REQUIRES(sched.lock) {
  P* pp = ready.count != 0 ? idle_p_get_for_work() : nullptr;
  if (pp == nullptr) {
    queue_ready_globally(ready);
    return false;
  }
  idle_m_remove(mp);
  acquire_p(mp, pp);
  return true;
}

// It goes with a P that it has taken itself. Whoever has poked it meanwhile has set its note, or is about to: its next sleep
// would end for that, and whoever hands it a P then would rely on it.
void absorb_poke(M* mp) {
  if (mp->poked && !WEFT_MUTANT("leaves-poked")) {
    mp->park.sleep();
    mp->park.clear();
    mp->poked = false;
  }
}

// mp has a P. It may have been the one who watched the timers, and has work now.
void pass_watch_on(M* mp, bool watched, bool crowd_waits) {
  mp->has_deputy = false;
  if (!watched || mp->spinning) {  // a spinning one looks itself
    return;
  }
  if (!WEFT_MUTANT("watcher-leaves")) {
    find_timer_watcher();
  }
  if (crowd_waits && !WEFT_MUTANT("watcher-leaves-crowd")) {
    wake_p(mp->p);  // keeps T2
  }
}

}  // namespace

// It runs what others run, too.
void end_short_slices(M* mp) {
  if (mp->short_slices && !mp->stands_in) {
    mp->short_slices = false;
    ask_for_short_slices(false);
  }
}

// Sleeps until a P is handed over, and takes it. Entered with sched.lock, leaves without. One of those
// who sleep watches the timers, and takes an idle P by itself when one is due; one waits for news of
// descriptors (netpoll.cc), and takes a P for those who are ready. The last M to fall asleep looks for
// deadlocks now and then, if there is anybody who might be in one; another that is poked looks, too.
void sleep_for_p_unlock(M* mp) {
  std::int64_t pause = kFirstLook;
  ready_list ready;
  while (mp->nextp == nullptr && !mp->dismissed) {
    const bool locked = mp->locked_g != nullptr;
    const std::int64_t until = locked ? kNever : watch_timers(mp);
    if (until == kTimerDue) {
      sched.lock.unlock();
      absorb_poke(mp);
      end_short_slices(mp);
      return;
    }
    mp->watches_deadlock = all_asleep();
    const nap_plan plan{until, mp->watches_deadlock, !locked && begin_polling(mp)};
    sched.lock.unlock();
    ready = sleep_as_planned(mp, plan, &pause);
    sched.lock.lock();
    mp->watches_deadlock = false;
    if (plan.polls) {
      end_polling(mp);
    }
    if (mp->nextp != nullptr || mp->dismissed) {
      break;
    }
    if (mp->poked && (mp->park.woken() || WEFT_MUTANT("poke-cleared-early"))) {
      // Something changed outside: what looked alive may be dead soon. (A poke whose note is not
      // set yet ended no sleep: it will end the next one.)
      mp->poked = false;
      if (!WEFT_MUTANT("poke-not-cleared")) {
        mp->park.clear();
      }
      pause = kFirstLook;
    } else if (!plan.polls) {
      check_dead();
    }
    if (take_p_for(mp, ready)) {
      break;
    }
  }
  if (mp->dismissed) {
    sched.lock.unlock();
    obey_dismissal(mp);
    return;
  }
  const bool watched = stop_watching_timers(mp);
  const bool crowd_waits = watched && sched.crowd_waits && sched.timer_watcher == nullptr;
  mp->stands_in = mp->stands_in && mp->timer_is_due;
  sched.lock.unlock();
  end_short_slices(mp);
  const bool was_handed_p = mp->p == nullptr;
  if (was_handed_p) {
    mp->park.sleep();
    mp->park.clear();
    mp->poked = false;
    P* pp = mp->nextp;
    mp->nextp = nullptr;
    WEFT_CHECK(pp != nullptr, "an M was woken without a P");
    acquire_p(mp, pp);
  } else {
    absorb_poke(mp);
  }
  tsan_release(&mp->nextp);  // to start_locked_m()
  if (ready.count != 0) {
    queue_ready(mp, ready);
    // A P that was handed over is for others besides, of whom it runs one: the rest is new work. keeps I1
    if (was_handed_p && !WEFT_MUTANT("news-beside-others")) {
      wake_p(mp->p);
    }
  }
  pass_watch_on(mp, watched, crowd_waits);
}

// [MS-2]
void stop_m(M* mp) {
  WEFT_CHECK(mp->p == nullptr && !mp->spinning, "stop_m: M has work");
  sched.lock.lock();
  stop_m_unlock(mp);
}

void stop_m_unlock(M* mp) {
  if (P* waiting = unmanned_p_take(mp)) {
    sched.lock.unlock();
    mp->stands_in = false;
    end_short_slices(mp);
    acquire_p(mp, waiting);
    return;
  }
  idle_m_put(mp);
  sleep_for_p_unlock(mp);
}

// [FR-1] 14 to 18
G* go_idle(M* mp) {
  sched.lock.lock();
  if (sched.gate.closed() && !WEFT_MUTANT("idle-passes-gate")) {
    sched.lock.unlock();
    return nullptr;
  }
  if (!sched.runq.empty()) {
    G* gp = global_batch_get(mp->p);
    sched.lock.unlock();
    return gp;
  }
  if (!mp->spinning && sched.idle.spinner_requested()) {
    mp->spinning = true;
    sched.idle.become_spinning();
    sched.lock.unlock();
    return nullptr;
  }
  P* pp = release_p(mp, p_status::idle);
  idle_p_put(pp);
  sched.lock.unlock();
  chaos_pause(mp);
  const bool was_spinning = mp->spinning;
  mp->spinning = false;
  const bool too_early = WEFT_MUTANT("look-before-drop") && !somebody_has_work();
  if (sched.idle.must_look_again(was_spinning) && !too_early && somebody_has_work()) {
    sched.lock.lock();
    pp = idle_p_get_for_work();
    sched.lock.unlock();
    if (pp != nullptr) {
      acquire_p(mp, pp);
      mp->spinning = true;
      sched.idle.become_spinning();
      return nullptr;
    }
  }
  stop_m(mp);
  return nullptr;
}

// pp has no M, and the caller's thread will not run it. [MS-3]
void hand_off_p(P* pp) {
  sched.lock.lock();
  if (sched.gate.closed() && !WEFT_MUTANT("hand-off-passes-gate")) {
    set_status(pp, p_status::stopped);
    sched.gate.arrive();
    sched.lock.unlock();
    return;
  }
  if (!pp->runq.empty() || !sched.runq.empty() || nobody_would_poll()) {  // keeps PO1
    start_m_unlock(pp, /*spinning=*/false);
    return;
  }
  idle_p_put(pp);
  sched.lock.unlock();
  // Letting a P go idle obliges to look again, like any M that does. keeps I1
  if (sched.idle.must_look_again(/*was_spinning=*/false) && somebody_has_work() &&
      sched.idle.claim_wake()) {
    wake_p_slow();
  }
  if (!WEFT_MUTANT("hand-off-forgets-timers")) {
    find_timer_watcher();
  }
}

}  // namespace weft::rt
