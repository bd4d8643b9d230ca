// How an M joins those that look for work, and how it leaves them for good.
//
// MT1: there is an M that looks for deadlocks, unless there is nobody for whom to look: no goroutine, and no
//      plain thread that sleeps. Whoever leaves as the last one that is not asleep for its
//      locked goroutine starts another: nobody else would look again, and a plain thread that waits for a
//      goroutine in vain would wait for ever.
//
// Nobody relies on an M's looking at the global queue before it leaves, or sleeps: whoever queues something there
// finds an idle P in the same critical section, and an M for it (start_m_unlock()); or there is none, and whoever
// lets one go looks at the queue first, under the lock.
//
// Go: runtime/proc.go mexit
#include "sched/sched_api.h"

namespace weft::rt {

void join_idle_ms(M* mp) {
  sched.lock.lock();
  --sched.spares_coming;
  P* pp = unmanned_p_take(mp);
  if (pp == nullptr && !sched.gate.closed()) {
    pp = idle_p_get();
    if (pp != nullptr) {  // whoever asked has dropped its token: look for what it had. keeps I1
      mp->spinning = true;
      sched.idle.become_spinning();
    }
  }
  if (pp != nullptr) {
    sched.lock.unlock();
    acquire_p(mp, pp);
    return;
  }
  idle_m_put(mp);
  sleep_for_p_unlock(mp);
}

namespace {

// The record of a thread that has left.
void release_m_locked(M* mp) WEFT_REQUIRES(sched.lock) {
  mp->tid = 0;
  mp->stands_in = mp->short_slices = false;  // that was the thread's
  mp->idle_next = sched.free_ms;
  sched.free_ms = mp;
  --sched.m_count;
}

// Threads that fell asleep while there was an M. From now on who does so looks itself (foreign.cc).
bool sleepers_rely_on_ms() {
  return sched.foreign.blocked() > 0 && !WEFT_MUTANT("leaves-a-sleeper");
}

}  // namespace

void leave_m(M* mp) {
  sched.lock.lock();
  ++sched.leaving_ms;  // the limit of threads has room for its successor
  sched.lock.unlock();
  if (mp->p != nullptr) {
    hand_off_p(release_p(mp, p_status::idle));
  }
  pay_watch(mp);
  mp->lent = mp->leaves_loop = false;
  set_current_m(nullptr);
  mp->handlers.abandon();
  sched.lock.lock();
  --sched.leaving_ms;
  release_m_locked(mp);
  const bool last = sched.idle_ms == nullptr && sched.m_count == sched.locked_m_idle &&
                    (live_goroutines() > 0 || sleepers_rely_on_ms());
  M* successor = last && !WEFT_MUTANT("leaves-nobody") ? reserve_m() : nullptr;  // keeps MT1
  sched.spares_coming += successor != nullptr ? 1 : 0;
  sched.lock.unlock();
  if (successor != nullptr) {
    start_thread(successor, nullptr, /*spinning=*/false);
  }
}

}  // namespace weft::rt
