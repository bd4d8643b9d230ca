// Goroutines that run on one thread only, and threads that run one goroutine only.
//
// When such a goroutine blocks, its M hands the P on and sleeps. When another M's scheduler comes to
// it in a queue, that M lends it its own P and sleeps instead: two thread switches per wake-up.
//
// Go: runtime/proc.go stoplockedm, startlockedm
#include "sched/locked.h"

#include "base/fatal.h"
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

void run_on_this_thread(detail::spawn_slot slot, const main_start& how) {
  sched.lock.lock();
  M* mp = reserve_m();
  sched.lock.unlock();
  bind_thread(mp);
  const eh_state callers = *mp->eh_globals;
  *mp->eh_globals = {};
  auto* gp = static_cast<G*>(slot.goroutine);
  mp->locked_g = gp;
  gp->locked_m = mp;
  mp->leave_when_g_ends = true;
  start_main(slot, how);  // without a P: through the global queue, to somebody who lends us one
  schedule(mp);
  hand_off_p(release_p(mp, p_status::idle));
  mp->leave_when_g_ends = false;
  *mp->eh_globals = callers;
  unbind_thread(mp);
  release_m(mp);
}

}  // namespace weft::rt
