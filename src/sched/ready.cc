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
      wake_p_for_next(mp->p);
    } else {
      wake_p(mp->p);
    }
  }
  leave_runtime(mp);
}

}  // namespace weft::rt
