// running → waiting, and running → runnable: how a goroutine gives up its M.
//
// Go: runtime/proc.go gopark, Gosched
#include "sched/park.h"

#include <sched.h>

#include <weft/go.h>

#include "base/debug_vars.h"
#include "base/fatal.h"
#include "os/clock.h"
#include "sched/chaos.h"
#include "sched/diagnostics.h"
#include "sched/foreign.h"
#include "sched/switch.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

void park(M* mp, G* gp, wait_reason reason, const waiter& w) {
  gp->reason = reason;
  gp->awaits(w.on, w.claim != nullptr);
  gp->waiting_since = coarse_time();
  gp->transition<g_status::running, g_status::waiting>();
  leave_stack(mp, gp, leaving::parked);
}

// WEFTDEBUG=migrate=1: goes on on another M than the one that it parked on. Inlined: it returns on another M, and TSan
// counts calls and returns by those.
[[gnu::always_inline]] inline M* move_on(M* mp, G* gp, const M* from) {
  while (mp == from && mp->locked_g == nullptr && !this_thread_exits()) {
    mp->hands_p_on = true;
    gp->transition<g_status::running, g_status::runnable>();
    leave_stack(mp, gp, leaving::yielded);
    mp = switch_to_g0(mp, gp);
  }
  return mp;
}

}  // namespace

void block(waiter& w, commit_fn commit, void* arg, void* object, wait_reason reason) {
  G* gp = current_goroutine();
  if (gp != nullptr && this_thread_exits()) [[unlikely]] {
    gp = nullptr;  // in exit() a goroutine's thread, too, can only sleep as a thread
  }
  if (w.gp != gp) {
    w.gp = gp;  // a wait with a limit has set it, before somebody else could look at it
  }
  tsan_release(object, "PARK");
  if (gp == nullptr) {
    block_thread(w, commit, arg);
    return;
  }
  if (debug_vars.lockcheck != 0) [[unlikely]] {
    check_held_mutexes(*gp);
  }
  M* mp = enter_runtime();
  const M* const before = mp;
  mp->commit = commit;
  mp->commit_waiter = &w;
  mp->commit_arg = arg;
  park(mp, gp, reason, w);
  bool inherit = false;
  G* next = pick_local(mp, mp->p, &inherit);
  mp = next != nullptr ? switch_to(mp, gp, next, inherit) : switch_to_g0(mp, gp);
  if (debug_vars.migrate != 0) [[unlikely]] {
    mp = move_on(mp, gp, before);
  }
  leave_runtime(mp, "FIBER");
  tsan_acquire(gp);      // from the waker,
  tsan_acquire(object);  // or from the object, if the commit refused
  if (chaos_seldom(mp)) {
    gosched();
  }
}

}  // namespace weft::rt

namespace weft {

using namespace rt;  // NOLINT: the public function is a thin cover

namespace {

// A goroutine that yields in a loop keeps its P from being idle: now and then it is for those who wait for
// descriptors that it yields.
bool looks_for_news(M* mp, P* pp) {
  constexpr std::uint32_t kBetweenLooks = 64;
  return mp->looks_for_news = ++pp->lone_yields % kBetweenLooks == 0 && io_is_awaited();
}

}  // namespace

void gosched() {
  M* mp = enter_runtime();
  if (mp == nullptr || mp->curg == nullptr) {
    leave_runtime(mp);
    sched_yield();
    if (process_is_exiting()) {
      cpu_pause();  // naps, as below
    }
    return;
  }
  G* gp = mp->curg;
  P* pp = mp->p;
  bool inherit = false;
  G* next = pick_local(mp, pp, &inherit);
  if (next == nullptr && this_thread_exits()) [[unlikely]] {
    leave_runtime(mp);  // everybody else is frozen, and who comes back to g0 would be, too
    cpu_pause();        // naps, so that whoever has what we wait for is let go (freeze.cc)
    return;
  }
  if (next == nullptr && mp->preselected == nullptr && mp->locked_g == nullptr &&
      nobody_waits_for(pp) && !looks_for_news(mp, pp)) {
    leave_runtime(mp);  // nobody else is here
    return;
  }
  gp->transition<g_status::running, g_status::runnable>();
  leave_stack(mp, gp, leaving::yielded);
  mp = next != nullptr ? switch_to(mp, gp, next, inherit, leaving::yielded) : switch_to_g0(mp, gp);
  leave_runtime(mp, "FIBER");
}

}  // namespace weft
