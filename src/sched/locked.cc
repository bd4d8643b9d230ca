// Goroutines that run on one thread only, and threads that run one goroutine only.
//
// When such a goroutine blocks, its M hands the P on and sleeps. When another M's scheduler comes to
// it in a queue, that M lends it its own P and sleeps instead: two thread switches per wake-up.
//
// There are two counts of reasons, both on the M (gmp/m.h): the user's, and the runtime's. They are
// independent, so that a stop callback, which is pinned, may lock its thread for longer than it runs.
//
// LK1: M and G refer to each other as long as one of the counts is not 0, and only then. Otherwise the
//      goroutine goes on elsewhere, or the thread waits for a goroutine that has long left.
//
// A thread is lent in two ways. With lock_main_thread it is, until the goroutine ends, the only one to run it. The very first
// goroutine of the process, if it is run()'s, begins on its caller's thread, too: a program that does little then needs
// no other thread. But only until it leaves its stack for the first time (end_loan()): were the thread to run others in
// its place, its caller might wait for one of those when it wants to return.
//
// Go: runtime/proc.go stoplockedm, startlockedm
#include "sched/locked.h"

#include <pthread.h>
#include <signal.h>

#include "base/debug_vars.h"
#include "base/fatal.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"
#include "sched/world.h"

namespace weft::rt {

// [MS-5]
void stop_locked_m(M* mp) {
  if (mp->p != nullptr) {
    hand_off_p(release_p(mp, p_status::idle));
  }
  if (!WEFT_MUTANT("locked-watch-owed")) {
    pay_watch(mp);  // it does not watch in this sleep. keeps T3
  }
  sched.lock.lock();
  ++sched.locked_m_idle;  // may have been taken off already by whoever was faster
  sleep_for_p_unlock(mp);
  WEFT_CHECK(mp->locked_g->in(g_status::runnable), "locked goroutine is not runnable");
}

void start_locked_m(M* mp, G* gp) {
  P* pp = release_p(mp, p_status::idle);
  sched.lock.lock();
  --sched.locked_m_idle;
  // What its M has done before gp ran there last. Who found gp runnable comes after that, but TSan knows that of gp only.
  tsan_acquire(&gp->locked_m->nextp);
  hand_p_unlock(gp->locked_m, pp);
  stop_m(mp);
}

void link_to_m(M* mp, G* gp) {
  mp->locked_g = gp;
  gp->locked_m = mp;
}

void unlink_from_m(M* mp, G* gp) {
  if (mp->locked_by_user == 0 && mp->locked_by_runtime == 0) {  // keeps LK1
    mp->locked_g = nullptr;
    gp->locked_m = nullptr;
  }
}

namespace {

// The runtime's signal gets through to a thread that was lent, as it does to all Ms, while it is one.
class lent_mask {
 public:
  lent_mask() {
    sigemptyset(&ours_);
    sigaddset(&ours_, runtime_signal());
    sigset_t before;
    pthread_sigmask(SIG_UNBLOCK, &ours_, &before);
    was_blocked_ = sigismember(&before, runtime_signal()) == 1;
  }
  ~lent_mask() {
    if (was_blocked_) {
      pthread_sigmask(SIG_BLOCK, &ours_, nullptr);
    }
  }
  lent_mask(const lent_mask&) = delete;
  lent_mask& operator=(const lent_mask&) = delete;

 private:
  sigset_t ours_;
  bool was_blocked_ = false;
};

// The calling thread becomes mp, and is the caller's again afterwards.
void lend_thread(M* mp, P* pp, detail::spawn_slot slot, const main_start& how) {
  bind_thread(mp);
  const lent_mask mask;
  const eh_state callers = *mp->eh_globals;
  *mp->eh_globals = {};
  ++mp->locked_by_runtime;
  link_to_m(mp, static_cast<G*>(slot.goroutine));
  mp->lent = mp->leaves_loop = true;
  if (pp != nullptr) {
    mp->lent_once = true;
    acquire_p(mp, pp);
    if (process_is_exiting()) {
      stand_aside();  // whoever freezes the others did not see us: the P had no thread
    }
    preselect_main(slot, how);
  } else {
    start_main(slot, how);  // through the global queue, to somebody who lends us a P
  }
  schedule(mp);
  *mp->eh_globals = callers;
  leave_m(mp);
}

// A P for the first goroutine of all, and its M. Nothing if it is not the first, or sysmon is wanted from the beginning.
P* first_p(M** mp) {
  const scoped_lock held(sched.lock);
  if (system_threads_begun() || sched.m_count != 0 || sched.gate.closed() ||
      debug_vars.schedtrace != 0) {
    return nullptr;
  }
  P* pp = idle_p_get();
  *mp = pp == nullptr ? nullptr : reserve_m();
  return pp;
}

}  // namespace

void run_on_this_thread(detail::spawn_slot slot, const main_start& how) {
  start_system_threads();
  sched.lock.lock();
  M* mp = reserve_m();
  sched.lock.unlock();
  lend_thread(mp, nullptr, slot, how);
}

bool begin_on_this_thread(detail::spawn_slot slot, const main_start& how) {
  M* mp = nullptr;
  P* pp = first_p(&mp);
  if (pp == nullptr) {
    return false;
  }
  lend_thread(mp, pp, slot, how);
  return true;
}

// Nobody can see the goroutine yet, which has just left its stack: from now on any M may run it.
void end_loan(M* mp) {
  if (mp->locked_by_user != 0 || mp->locked_by_runtime > 1) {
    return;  // for reasons of its own it stays for now
  }
  mp->lent_once = false;
  if (mp->locked_g != nullptr) {  // else it has ended
    mp->locked_by_runtime = 0;
    unlink_from_m(mp, mp->locked_g);
  }
}

}  // namespace weft::rt
