// A goroutine that computes for long while others wait is frozen on its thread, and goes on there later.
//
// Problem. C++ code has no safe points: a goroutine may be anywhere, in malloc, under a pthread mutex, with
// the address of a thread_local in a register. It cannot be moved to another thread, and its stack
// cannot be left. But a thread can stand still anywhere: the kernel does that to it all the time. So
// the handler of a signal queues the goroutine as runnable, bound to its M, passes the P on and sleeps.
// Whoever comes to it in the queue lends that M its P, and the handler returns.
//
// What the kernel has to do with it, how the signal is sent and taken, is in preempt_signal.cc.
//
//   sysmon                   the hog's M                              another M
//   1. border.ask()          leaves the runtime, sees it: as 3
//   2. signal            ──► 3. handler: inside? then border.ask()
//                               and return. Otherwise:
//                            4. (sched.lock) G → list of the frozen,
//                               P → somebody who has use for it  ──►  runs what waited
//                            5. sleeps on its note                    6. finds the frozen G:
//                            7. acquires the P, returns          ◄──     hands its P over, sleeps
//
// PE1: a goroutine is frozen in its own code only, never in the runtime (gmp/border.h): so it holds no lock
//      of the runtime, and whoever looks for it needs nothing that it has.
// PE2: nobody who could let a frozen goroutine go on waits for what it may hold. It may hold locks of libc.
//      So while anybody is frozen, or was robbed, no M creates a thread (sched/spawner.cc), and while an M creates
//      one (sched.creators) nobody is frozen, be it for others, for a stop of the world, or because it has no P, and
//      nobody is robbed. Otherwise the last P, or a stop of the world, waits for the lock's holder, who waits for them.
// PE3: a goroutine whose P was taken waits for another one on its own thread: what it called may be
//      something that must not change threads.
// PE4: while a frozen goroutine waits for its turn no P is idle, nor waits for an M that the spawner makes: nobody else
//      would come by, and the spawner may wait for what the goroutine holds.
// PE5: who is in a no_preempt scope keeps the P that it has. In a call that blocks it loses it all the same. Then there is
//      nothing that it could keep, and it is frozen as anybody else until it has a P: otherwise it would compute beside
//      gomaxprocs others, and in a stopped world, until its scope ends. The runtime's own scopes (io/child.cc, io/signal.cc)
//      hold locks that neither sysmon nor the spawner takes, nor who stops the world; whoever else waits there loses its P. keeps PE2
//
// The handler calls nothing but futex(2) and the like. It runs on the M's stack for handlers, with all
// signals masked but glibc's own.
//
// Go: runtime/preempt.go; KLT-switching: Shiina et al., PPoPP 2021
#include "sched/preempt.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/debug_vars.h"
#include "base/fatal.h"
#include "base/tsan_signals.h"
#include "os/clock.h"
#include "os/process.h"
#include "sched/freeze.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/switch.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

constexpr std::int32_t kLeastFrozen = 64;

// Of this M, whose turn it is again.
void go_on(M* mp, G* gp) {
  keep_p(mp);  // it may have been frozen on an errand
  gp->frozen = false;
  gp->transition<g_status::runnable, g_status::running>();
  count_slice(mp->p);
  count_switch(mp->p);  // what is due at every n-th is due once
  if (mp->in_handler) {
    mp->p->deaf_slice.store(slice_of(mp->p),
                            WEFT_ORDER(SB0, relaxed));  // order: relaxed, for sysmon
  }
}

enum class rank { last, first, urgent };

void queue_frozen_locked(M* mp, G* gp, rank where) WEFT_REQUIRES(sched.lock) {
  sched.freezes += mp->in_handler ? 1 : 0;
  gp->frozen = true;
  gp->m = mp;
  const std::int64_t now = nanotime();
  switch (where) {
    case rank::last: sched.runq.push_frozen(gp, now); break;
    case rank::first: sched.runq.push_frozen_front(gp, now); break;
    case rank::urgent: sched.runq.push_returned(gp, now); break;
  }
  ++sched.frozen_ms;
}

// It has a P again. True: but the world stops, and it is not its turn all the same. keeps W3 (world.cc)
bool stopped_again(M* mp, G* gp) {
  const scoped_lock held(sched.lock);
  mp->nextp = nullptr;  // under the lock: whoever finds none finds its note clear
  --sched.frozen_ms;
  const bool turn = std::exchange(mp->p->has_turn, false) && !process_is_exiting() && !crashing();
  if (!sched.gate.closed() || turn) {
    mp->border.give_back();
    mp->frozen_outside = false;
    mp->returned = false;
    return false;
  }
  release_p(mp, p_status::stopped);
  sched.gate.arrive();
  queue_frozen_locked(mp, gp, mp->returned ? rank::urgent : rank::first);
  return true;
}

// In exit(): frozen until it is let go, for a while (freeze.cc). Then the runtime is closed to it.
void go_without_p(M* mp) {
  mp->border.be_robbed();
  while (!freeze_for_exit()) {
    mp->park.sleep();
    mp->park.clear();
  }
}

// Until somebody hands over a P. If the world stops before it is used, it queues again.
void sleep_for_turn(M* mp, G* gp) {
  for (;;) {
    mp->park.sleep();
    mp->park.clear();
    P* pp = mp->nextp;
    if (pp == nullptr) {
      WEFT_CHECK(process_is_exiting(), "a frozen M was woken without a P");
      go_without_p(mp);
      return;
    }
    acquire_p(mp, pp);
    if (!stopped_again(mp, gp)) {
      break;
    }
    if (process_is_exiting() && mp->frozen_outside && !WEFT_MUTANT("frozen-past-exit")) {
      go_without_p(mp);
      return;
    }
  }
  go_on(mp, gp);
}

bool is_stopped(const P* pp) {
  // order: relaxed, under sched.lock
  return pp->status.load(WEFT_ORDER(PS0, relaxed)) == p_status::stopped;
}

// pp goes to whoever has waited: an idle M that will find them, or the oldest frozen one itself. [MS-3]
void pass_on_unlock(P* pp, bool timer_is_due) WEFT_RELEASE(sched.lock) {
  M* idle = timer_is_due ? idle_m_get() : nullptr;
  if (idle != nullptr) {
    idle->timer_is_due = true;  // on whichever P
    idle->stands_in = true;     // from then on
    hand_p_unlock(idle, pp);
    return;
  }
  const std::int64_t now = nanotime();
  const bool frozen_first = sched.frozen_ms > most_frozen() || sched.idle_ms == nullptr ||
                            sched.runq.frozen_are_next(fresh_work_locked(), now);
  G* oldest = frozen_first ? sched.runq.pop_frozen(now) : nullptr;
  if (oldest != nullptr) {
    hand_p_unlock(oldest->m, pp);
    return;
  }
  prepare_for_fresh_locked(pp);
  start_m_unlock(pp, /*spinning=*/false);
}

// Whether it is worth while, and possible, to take the P from a goroutine that runs.
bool should_freeze_locked(bool timer_is_due) WEFT_REQUIRES(sched.lock) {
  if (!sched.runq.has_frozen() && !fresh_work_locked() && !timer_is_due) {
    return false;  // whoever waited has been served
  }
  if (sched.idle_ps != nullptr) {
    return false;  // … or will be. keeps PE4
  }
  if (sched.idle_ms == nullptr && (timer_is_due || !sched.runq.has_frozen())) {
    request_spare_ms_locked(1);  // next time
    // The spawner may be waiting for what one of the frozen holds: it is his turn. keeps PE4
    return sched.runq.has_frozen();
  }
  return true;
}

// A goroutine without a P, where it may not be: one that nobody uses, or its turn. [SC-3]
void get_p_unlock(M* mp, bool outside) WEFT_RELEASE(sched.lock) {
  G* gp = mp->curg;
  forget_robbed_locked(mp);
  P* pp = nullptr;
  if (!sched.gate.closed()) {
    pp = idle_p_get();
    // That of an M to come: its thread may be waiting for what we hold. keeps PE4
    if (pp == nullptr && (pp = unmanned_p_get()) != nullptr) {
      // For what was to run there. keeps I1, SY-a
      if (!WEFT_MUTANT("unmanned-without-request")) {
        sched.idle.request_spinner();
      }
      if (!WEFT_MUTANT("unmanned-without-sysmon")) {
        wake_sysmon_locked();
      }
    }
  }
  if (pp != nullptr) {
    if (!WEFT_MUTANT("back-but-robbed")) {
      mp->border.give_back();
    }
    const bool late = WEFT_MUTANT("back-unlisted");
    if (!late) {
      acquire_p(mp, pp);  // it will not look at the gate, and exit() knows it by its P
    }
    sched.lock.unlock();
    if (late) {
      acquire_p(mp, pp);
    }
    keep_p(mp);  // … or robbed
    gp->transition<g_status::syscall, g_status::running>();
    count_slice(pp);
    return;
  }
  mp->frozen_outside = outside;
  mp->returned = true;
  gp->transition<g_status::syscall, g_status::runnable>();
  queue_frozen_locked(mp, gp, rank::urgent);
  sched.lock.unlock();
  wake_sysmon();  // it looks for such under the lock before it sleeps
  sleep_for_turn(mp, gp);
}

// TSan is told that the M does what follows, as in a section (section.h); the caller is inside already.
class as_m {
 public:
#if WEFT_TSAN
  WEFT_NO_TSAN explicit as_m(M* mp) : mp_(mp) {
    mp->tools.become();
    tsan_ignore_begin();
  }
  WEFT_NO_TSAN ~as_m() {
    tsan_ignore_end();
    if (mp_->curg != nullptr) {
      mp_->curg->tools.become();
    }
  }

 private:
  M* mp_;
#else
  explicit as_m(M*) {}
#endif
};

// The goroutine that runs here makes room. Returns when it is its turn again. Runs on: G, signal.
void freeze(M* mp) {
  const as_m here(mp);
  G* gp = mp->curg;
  const bool keeps = gp != nullptr && gp->keeps_p != 0;
  if (keeps && !mp->border.robbed() && !WEFT_MUTANT("scope-forgets-request")) {
    return;  // at the end of its scope
  }
  mp->border.begin_slice();
  if (gp == nullptr || crashing() || this_thread_exits()) {
    return;
  }
  sched.lock.lock();
  P* pp = mp->p;
  if (sched.gate.closed() && (process_is_exiting() || (pp != nullptr && is_stopped(pp)))) {
    sched.lock.unlock();  // freeze.cc sees to it; or it is the one that has stopped the world
    return;
  }
  if (thread_is_created_locked()) {
    sched.lock.unlock();  // sysmon asks again. keeps PE2
    return;
  }
  if (pp == nullptr) {
    get_p_unlock(mp, /*outside=*/true);  // it was taken, and the goroutine computes on
    return;
  }
  if (keeps && !WEFT_MUTANT("scope-ends-early")) {
    if (!WEFT_MUTANT("scope-forgets-request")) {
      mp->border.ask();  // it was being taken, and was left alone after all
    }
    sched.lock.unlock();
    return;
  }
  mp->frozen_outside = true;
  if (sched.gate.closed()) {
    gp->transition<g_status::running, g_status::runnable>();
    release_p(mp, p_status::stopped);
    // Behind those who wait already: it has had a turn, and where the next stop comes soon they would have none.
    queue_frozen_locked(mp, gp, WEFT_MUTANT("stopped-goes-first") ? rank::first : rank::last);
    if (!WEFT_MUTANT("freeze-does-not-arrive")) {
      sched.gate.arrive();
    }
    sched.lock.unlock();
    sleep_for_turn(mp, gp);
    return;
  }
  const bool timer_is_due = earliest_timer() <= nanotime();
  if (!should_freeze_locked(timer_is_due)) {
    mp->frozen_outside = false;
    sched.lock.unlock();
    return;
  }
  gp->transition<g_status::running, g_status::runnable>();
  release_p(mp, p_status::idle);
  queue_frozen_locked(mp, gp, rank::last);
  pass_on_unlock(pp, timer_is_due);
  sleep_for_turn(mp, gp);
}

}  // namespace

bool fresh_work_locked() {
  bool found = sched.runq.has_free();
  for (std::int32_t i = 0; i < sched.proc_count() && !found; ++i) {
    found = !sched.p(i)->runq.empty();
  }
  return found;
}

void prepare_for_fresh_locked(P* pp) {
  // Where a P is idle somebody looks for what others have, or will, and must find it there. keeps I1. And without an M
  // those who are brought here would wait.
  if (!pp->runq.empty() || sched.idle_ps != nullptr || sched.idle_ms == nullptr ||
      sched.gate.closed()) {
    return;
  }
  G* gp = sched.runq.pop_free();
  // Nobody is stolen from while the global queue has somebody, and that is whoever was just stopped.
  for (std::int32_t i = 1; i < sched.proc_count() && gp == nullptr; ++i) {
    if (WEFT_MUTANT("frozen-for-nothing")) {
      break;
    }
    P* victim = sched.p((pp->id + i) % sched.proc_count());
    gp = victim != pp ? victim->runq.steal_into(pp->runq) : nullptr;
  }
  if (gp != nullptr) {
    static_cast<void>(pp->runq.put_next(gp));
  }
}

std::int32_t most_frozen() {
  const std::int32_t wish = debug_vars.maxfrozen;
  return wish != 0 ? wish : std::max(kLeastFrozen, 4 * sched.proc_count());
}

// Its P was taken while it was in the user's code.
void come_back(M* mp) noexcept {
  const as_m here(mp);
  sched.lock.lock();
  if (!mp->border.robbed() && !WEFT_MUTANT("back-without-looking")) {
    sched.lock.unlock();  // sysmon has left it alone after all
    return;
  }
  if (sched.gate.closed() && process_is_exiting()) {
    WEFT_CHECK(!this_thread_exits(), "the exiting thread has no P");
    if (!WEFT_MUTANT("lender-stays-away")) {
      forget_robbed_locked(mp);  // a lender is waited for. keeps W1
    }
    sched.lock.unlock();
    for (note never;;) {
      never.sleep();
    }
  }
  get_p_unlock(mp, /*outside=*/false);
}

// Not instrumented: errno is the thread's, whichever goroutine is there.
WEFT_NO_TSAN void give_way(M* mp) noexcept {
  const int saved_errno = errno;
  if (mp->border.enter()) {
    freeze(mp);
  } else {
    come_back(mp);  // it has been others' turn
  }
  static_cast<void>(mp->border.leave());  // what was asked meanwhile is asked again
  errno = saved_errno;
}

void thaw(M* mp, G* gp) {
  P* pp = release_p(mp, p_status::idle);
  sched.lock.lock();
  pp->has_turn = true;  // mp has taken that of its P, and has run nobody. keeps W3 (world.cc)
  hand_p_unlock(gp->m, pp);
  stop_m(mp);
}

void rouse_frozen_locked(bool (*list)(int tid)) {
  for (M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (!mp->frozen_outside || !list(mp->tid)) {
      continue;
    }
    // Who has been handed a P wakes by itself, and finds the gate closed.
    if (mp->nextp == nullptr || WEFT_MUTANT("roused-with-a-p")) {
      mp->poked = !WEFT_MUTANT("roused-unpoked");  // who hands it one now has come too late
      mp->park.wake();
    }
  }
}

namespace {

WEFT_NO_TSAN bool keeps_p(const M* mp) { return mp->curg != nullptr && mp->curg->keeps_p != 0; }

}  // namespace

WEFT_NO_TSAN bool take_request(M* mp) noexcept {
  // order: relaxed, a flag. The kernel drops what a signal carries when too many are queued, and merges signals
  return mp->signalled.exchange(0, WEFT_ORDER(SG0, relaxed)) != 0;
}

WEFT_NO_TSAN void obey_request(M* mp) noexcept {
  const bool may_go_on = keeps_p(mp) && (!mp->border.robbed() || WEFT_MUTANT("scope-without-end"));
  if ((!mp->border.outside() && !WEFT_MUTANT("frozen-inside")) || may_go_on) {
    if (!WEFT_MUTANT("request-dropped")) {
      mp->border.ask();
    }
    return;
  }
  static_cast<void>(mp->border.enter());  // freeze() looks under the lock itself
  mp->in_handler = true;
  freeze(mp);
  mp->in_handler = false;
  static_cast<void>(mp->border.leave());
}

int thread_to_signal(M* mp) noexcept {
  if (debug_vars.asyncpreemptoff != 0) {
    return 0;
  }
  // order: relaxed, one at a time is enough. Not under TSan: there the last one may wait for the goroutine, or the M, that
  // was interrupted by it to be back on some thread (tsan_signals.h)
  if (mp->signalled.exchange(1, WEFT_ORDER(SG0, relaxed)) != 0 && !kDelaysSignals) {
    return 0;
  }
  return mp->tid;
}

void ask_to_yield(M* mp, int tid) noexcept {
  mp->border.ask();
  if (tid != 0 && !send_runtime_signal(tid)) {
    mp->signalled.store(0, WEFT_ORDER(SG0, relaxed));  // order: relaxed; sysmon asks again
  }
}

}  // namespace weft::rt
