// Ms without work and Ps without an M: the delicate part. The counters and the proof are in
// gmp/idle_state.h; this file does what they decide, under sched.lock.
//
// Idle lists are stacks: the M and the P that slept last have the warmest caches.
//
// Go: runtime/proc.go startm, stopm, wakep, handoffp, pidleget, mput
#include "base/fatal.h"
#include "sched/chaos.h"
#include "sched/sched_api.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

p_status status_of(const P* pp) {
  return pp->status.load(WEFT_ORDER(PS0, relaxed));  // order: relaxed, handed over under sched.lock
}

void set_status(P* pp, p_status to) {
  pp->status.store(to, WEFT_ORDER(PS0, relaxed));  // order: relaxed, handed over under sched.lock
}

// For freeze.cc, which asks when nobody takes or gives a P any more.
void set_thread(P* pp, int tid) {
  pp->thread.store(tid, WEFT_ORDER(PT0, relaxed));  // order: relaxed, a word on its own
}

}  // namespace

// [P-2]
void acquire_p(M* mp, P* pp) {
  WEFT_CHECK(mp->p == nullptr && pp->m == nullptr, "acquire_p: already in use");
  WEFT_CHECK(status_of(pp) != p_status::running, "acquire_p: P is running");
  mp->p = pp;
  pp->m = mp;
  set_thread(pp, mp->tid);
  set_status(pp, p_status::running);
}

P* release_p(M* mp, p_status to) {
  P* pp = mp->p;
  WEFT_CHECK(pp != nullptr && pp->m == mp, "release_p: not ours");
  if (status_of(pp) == p_status::stopped) {
    fatal(kBlocksInStoppedWorld, user_fault);  // it would arrive at the gate twice. keeps W1
  }
  mp->p = nullptr;
  pp->m = nullptr;
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
  }
  return pp;
}

// [SP-7]
P* idle_p_get_for_work() {
  P* pp = idle_p_get();
  if (pp == nullptr && !WEFT_MUTANT("no-request-for-work")) {
    sched.idle.request_spinner();
  }
  return pp;
}

void idle_m_put(M* mp) {
  WEFT_CHECK(!mp->is_idle && mp->nextp == nullptr && mp->p == nullptr, "M cannot go idle");
  mp->is_idle = true;
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

// Whoever watches the timers goes last: somebody else would have to take that over.
M* idle_m_get() {
  M* mp = sched.idle_ms;
  if (mp != nullptr && mp == sched.timer_watcher && mp->idle_next != nullptr) {
    mp = mp->idle_next;
  }
  if (mp != nullptr) {
    idle_m_remove(mp);
  }
  return mp;
}

// [MS-1]
void start_m_unlock(P* pp, bool spinning) {
  WEFT_CHECK(!spinning || pp->runq.empty(), "start_m: a spinning M needs an empty P");
  M* mp = idle_m_get();
  if (mp == nullptr) {
    // Counted from here on, so that the deadlock check sees a running M. [DD-8]
    mp = reserve_m();
    sched.lock.unlock();
    start_thread(mp, pp, spinning);
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
  sched.lock.unlock();
  if (!awake) {
    mp->park.wake();
  }
}

// Sleeps until a P is handed over, and takes it. Entered with sched.lock, leaves without. One of those
// who sleep watches the timers, and takes an idle P by itself when one is due. The last M to fall
// asleep looks for deadlocks now and then, if there is anybody who might be in one; another that is
// poked looks, too.
void sleep_for_p_unlock(M* mp) {
  std::int64_t pause = kFirstLook;
  while (mp->nextp == nullptr) {
    const std::int64_t until = mp->locked_g != nullptr ? kNever : watch_timers(mp);
    if (until == kTimerDue) {
      sched.lock.unlock();
      return;
    }
    mp->watches_deadlock = all_asleep();
    const bool watch = mp->watches_deadlock;
    sched.lock.unlock();
    const std::int64_t nap = watch || until != kNever ? 0 : chaos_nap(mp);
    if (nap != 0) {
      mp->park.sleep_for(nap);
    } else if (watch) {
      mp->park.sleep_for(pause);
      pause = longer(pause);
    } else if (until != kNever) {
      mp->park.sleep_until(until);
    } else {
      mp->park.sleep();
    }
    sched.lock.lock();
    mp->watches_deadlock = false;
    if (mp->nextp != nullptr) {
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
    } else {
      check_dead();
    }
  }
  const bool watched = stop_watching_timers(mp);
  const bool crowd_waits = watched && sched.crowd_waits && sched.timer_watcher == nullptr;
  sched.lock.unlock();
  mp->park.sleep();
  mp->park.clear();
  mp->poked = false;
  P* pp = mp->nextp;
  mp->nextp = nullptr;
  WEFT_CHECK(pp != nullptr, "an M was woken without a P");
  acquire_p(mp, pp);
  mp->has_deputy = false;
  if (!watched || mp->spinning) {  // a spinning one looks itself
    return;
  }
  if (!WEFT_MUTANT("watcher-leaves")) {
    find_timer_watcher();
  }
  if (crowd_waits && !WEFT_MUTANT("watcher-leaves-crowd")) {
    wake_p(pp);  // keeps T2
  }
}

// [MS-2]
void stop_m(M* mp) {
  WEFT_CHECK(mp->p == nullptr && !mp->spinning, "stop_m: M has work");
  sched.lock.lock();
  // Who puts something there and finds no idle M relies on those who are about to become one. keeps I1
  P* pp = sched.runq.empty() || WEFT_MUTANT("stops-without-looking") ? nullptr : idle_p_get();
  if (pp != nullptr) {
    mp->spinning = true;
    sched.idle.become_spinning();
    sched.lock.unlock();
    acquire_p(mp, pp);
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
  if (!pp->runq.empty() || !sched.runq.empty()) {
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
