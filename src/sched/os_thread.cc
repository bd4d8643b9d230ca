// runtime::lock_os_thread(): the user's side of locked.cc.
//
// While the user's count is not 0 the M leaves its loop when its goroutine ends (gmp/m.h: leaves_loop),
// whatever the goroutine has done to the thread. A lent thread leaves it anyway.
//
// The counter is the M's, as in Go, and not the goroutine's: while it is not 0 that is the same, and G keeps its
// four cache lines.
//
// Go: runtime/proc.go LockOSThread, UnlockOSThread [LK-1]
#include <weft/panic.h>
#include <weft/runtime.h>

#include "sched/sched_api.h"

namespace weft::runtime {

void lock_os_thread() {
  rt::M* mp = rt::enter_runtime();
  rt::G* gp = mp == nullptr ? nullptr : mp->curg;
  bool overflow = false;
  if (gp != nullptr) {
    rt::start_system_threads();  // before it can do anything to its thread that they should not inherit
    overflow = mp->locked_by_user + 1 == 0;
    mp->locked_by_user += overflow ? 0 : 1;
    mp->leaves_loop = true;
    rt::link_to_m(mp, gp);
  }
  rt::leave_runtime(mp);
  if (overflow) {
    throw panic_error("LockOSThread nesting overflow");
  }
}

void unlock_os_thread() {
  rt::M* mp = rt::enter_runtime();
  rt::G* gp = mp == nullptr ? nullptr : mp->curg;
  if (gp != nullptr && mp->locked_by_user != 0 && --mp->locked_by_user == 0) {
    mp->leaves_loop = mp->lent;
    rt::unlink_from_m(mp, gp);
  }
  rt::leave_runtime(mp);
}

}  // namespace weft::runtime
