// Threads that are not the runtime's.
//
// A plain thread may start goroutines, wake them, and wait for them. It has no P, so what it makes
// runnable goes to the global queue under sched.lock, and in the same critical section an idle P is
// taken for it. An M that runs dry looks at the global queue under that lock before it lets its P
// go: so one of the two sees the other, and no fence is needed. [IJ]
//
// Those asleep here are counted, because the deadlock check has to tell a thread that waits for
// goroutines from one that may still act. The waiter counts itself once it is published; the waker
// takes it off *before* it wakes it. So at every moment a thread that is on its way out, or not yet
// surely asleep, counts as one that may act: a report may come late, never wrongly. (The count may
// be negative for a moment.) foreign_changes tells the check that something moved while it looked.
#include "sched/foreign.h"

#include "sched/sched_api.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

void count_blocked(std::int64_t n) {
  // order: FB1 release with the acquire in check_dead(): a change is seen no later than its effects
  sched.foreign_changes.fetch_add(1, WEFT_ORDER(FB1, acq_rel));  // order: FB1
  sched.foreign_blocked.fetch_add(n, WEFT_ORDER(FB1, acq_rel));  // order: FB1
}

}  // namespace

void block_thread(waiter& w, commit_fn commit, void* arg) {
  ensure_started();
  watch_thread_exit();
  if (!commit(&w, arg)) {
    return;
  }
  count_blocked(1);
  look_for_deadlock_soon();  // the last M may have fallen asleep before this thread counted
  w.event.sleep();
}

void wake_thread(waiter* w) {
  count_blocked(-1);
  w->event.wake();
}

void inject(G* gp) {
  sched.lock.lock();
  sched.runq.push_back(gp);
  P* pp = idle_p_get_for_work();
  if (pp == nullptr) {
    sched.lock.unlock();
    return;
  }
  start_m_unlock(pp, /*spinning=*/false);
}

}  // namespace weft::rt
