// Calls of which the goroutine says that they may block.
//
// A note for sysmon, and nothing else: it takes the P after 20 us if somebody needs it, instead of making
// sure first that the thread is asleep (retake.cc). Whoever knows that it will take long gives the P away.
//
// The goroutine stays on its thread throughout, and comes back to it.
//
// Go: runtime/proc.go entersyscall, exitsyscall, entersyscallblock [SC-1]…[SC-9]
#include <cerrno>

#include <weft/runtime.h>

#include "base/fatal.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

// Gives the P away as if it had been taken.
void give_p_away(M* mp) {
  sched.lock.lock();
  G* gp = mp->curg;
  P* pp = mp->p;
  gp->transition<g_status::running, g_status::syscall>();
  mp->border.be_robbed();
  release_p(mp, p_status::idle);
  list_robbed_locked(mp);
  sched.lock.unlock();
  hand_off_p(pp);
}

}  // namespace

}  // namespace weft::rt

namespace weft::detail {

using namespace rt;  // NOLINT: a thin cover

WEFT_NO_TSAN blocking_call::blocking_call(bool surely) noexcept {
  M* mp = current_m();
  if (mp == nullptr || mp->curg == nullptr) {
    return;
  }
  if (!surely) {
    outermost_ = mp->begin_call();
    return;
  }
  mp = enter_runtime();
  give_p_away(mp);
  leave_runtime(mp);
}

// Not instrumented: errno is the thread's, whichever goroutine is there.
WEFT_NO_TSAN blocking_call::~blocking_call() {
  M* mp = current_m();
  if (mp == nullptr || mp->curg == nullptr) {
    return;
  }
  if (outermost_) {
    mp->end_call();
  }
  const int saved = errno;  // the result of the call
  leave_runtime(enter_runtime());
  errno = saved;
}

}  // namespace weft::detail

namespace weft {

no_preempt::no_preempt() noexcept {
  if (rt::G* gp = rt::current_goroutine()) {
    ++gp->keeps_p;
  }
}

no_preempt::~no_preempt() {
  if (rt::G* gp = rt::current_goroutine(); gp != nullptr && --gp->keeps_p == 0) {
    rt::leave_runtime(rt::enter_runtime());  // what was asked meanwhile
  }
}

}  // namespace weft
