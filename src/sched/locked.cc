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
// Go: runtime/proc.go stoplockedm, startlockedm
#include "sched/locked.h"

#include <pthread.h>
#include <signal.h>

#include "base/fatal.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"

namespace weft::rt {

// [MS-5]
void stop_locked_m(M* mp) {
  if (mp->p != nullptr) {
    hand_off_p(release_p(mp, p_status::idle));
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

}  // namespace

void run_on_this_thread(detail::spawn_slot slot, const main_start& how) {
  start_system_threads();
  sched.lock.lock();
  M* mp = reserve_m();
  sched.lock.unlock();
  bind_thread(mp);
  const lent_mask mask;
  const eh_state callers = *mp->eh_globals;
  *mp->eh_globals = {};
  ++mp->locked_by_runtime;
  link_to_m(mp, static_cast<G*>(slot.goroutine));
  mp->lent = mp->leaves_loop = true;
  start_main(slot, how);  // without a P: through the global queue, to somebody who lends us one
  schedule(mp);
  *mp->eh_globals = callers;
  leave_m(mp);
}

}  // namespace weft::rt
