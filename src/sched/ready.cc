// waiting → runnable: the waker's side.
//
// Go: runtime/proc.go ready
#include "base/fatal.h"
#include "sched/chaos.h"
#include "sched/foreign.h"
#include "sched/park.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

// On g0, and nobody else is here: it is what mp does next, so that nobody need be woken for whoever is next on its P.
bool comes_to_it(const M* mp) {
  return mp->curg == nullptr && mp->p->runq.size() == 0 && sched.runq.empty();
}

}  // namespace

void wake(waiter* w) {
  G* gp = w->gp;
  if (gp == nullptr) {
    wake_thread(w);  // by the goroutine itself: its note publishes what we have done so far
    return;
  }
  tsan_release(gp, "WAKE");
  M* mp = enter_runtime();
  if (mp == nullptr) [[unlikely]] {
    watch_thread_exit();
  }
  gp->transition<g_status::waiting, g_status::runnable>();
  if (mp == nullptr || mp->p == nullptr) {
    inject(gp);
  } else {
    chaos_pause(mp);
    sample_runnable(mp->p, gp);
    if (queue_put(mp, mp->p, gp, /*next=*/true)) {
      if (!comes_to_it(mp)) {
        wake_p_for_next(mp->p);
      }
    } else {
      wake_p(mp->p);
    }
  }
  leave_runtime(mp);
}

}  // namespace weft::rt
