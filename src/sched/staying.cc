// Waiting without changing thread.
//
// Problem. Calls that cannot block (try_*, close, notify, a cancellation) promise to return on the thread
// on which they were called: their caller may hold a std::mutex, or a thread-local's address. But what
// they wait for, a word that somebody holds for some nanoseconds, may be held by a goroutine that is
// queued for this very processor. Spinning would be a deadlock; gosched() comes back anywhere.
//
// So the kernel is asked first: mostly the holder's thread has lost its CPU. If others wait for this
// processor, the goroutine is pinned to its thread and yields: its M hands the P on and sleeps, until
// some scheduler comes to the goroutine in its queue and lends it a P. That costs two thread switches, and
// happens only if somebody holds such a word for longer than anybody spins.
//
// ST1: a pinned goroutine's thread runs nobody else. So the thread identifies it (gmp/cancel_source.h), and
//      a lock of the standard library that it holds has no second owner on its thread.
#include "sched/staying.h"

#include <sched.h>

#include <weft/go.h>

#include "base/fatal.h"
#include "sched/switch.h"
#include "sched/thread_exit.h"

namespace weft::rt {

bool pin_to_thread() noexcept {
  M* mp = enter_runtime();
  G* gp = mp == nullptr ? nullptr : mp->curg;
  if (gp != nullptr) {
    ++mp->locked_by_runtime;
    link_to_m(mp, gp);
  }
  leave_runtime(mp);
  return gp != nullptr;
}

// To TSan goroutines that follow each other on a thread are not ordered; what compares threads (as
// std::stop_source does) relies on that they are.
void follow_pinned() noexcept { tsan_acquire(current_m()); }

void unpin_from_thread() noexcept {
  tsan_release(current_m());
  M* mp = enter_runtime();
  WEFT_CHECK(mp->locked_by_runtime != 0,  // [LK-6]
             "runtime: internal error: misuse of lockOSThread/unlockOSThread");
  --mp->locked_by_runtime;
  unlink_from_m(mp, mp->curg);
  leave_runtime(mp);
}

void yield_staying() {
  sched_yield();
  M* mp = enter_runtime();
  const bool alone = mp == nullptr || mp->curg == nullptr || nobody_waits_for(mp->p);
  leave_runtime(mp);
  if (this_thread_exits()) {
    cpu_pause();  // naps, so that whoever is frozen with what we wait for is let go (freeze.cc)
    return;
  }
  if (alone) {
    return;
  }
  const bool pinned = pin_to_thread();
  gosched();
  if (pinned) {
    unpin_from_thread();
  }
}

}  // namespace weft::rt
