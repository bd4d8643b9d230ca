// The end of a goroutine, and the beginning of its stack.
//
// What ends owns little: its closure is destroyed by then, its record goes back to the P (or to the
// joiner), its stack to the P's cache. The stack is still under our feet, so that is left to the
// successor; and if the successor has not started yet, it simply takes the stack over and runs on
// it, warm as it is, without any switch.
//
// E1: after ended.complete() the record belongs to the joiner and may be reused at once. Therefore
// everything needed to leave (stack, sanitizer state, a place to save the dead context) moves to
// the M first.
//
// Go: runtime/proc.go goexit1, goexit0
#include <weft/go.h>

#include "base/debug_vars.h"
#include "base/fatal.h"
#include "fiber/unwind.h"
#include "gmp/limited_waiter.h"
#include "sched/at_exit.h"
#include "sched/diagnostics.h"
#include "sched/foreign.h"
#include "sched/switch.h"

namespace weft::rt {

namespace {

// Tells the joiner. The record is no longer ours afterwards.
void announce_end(M* mp, P* pp, G* gp) {
  if (!gp->joinable) {
    g_free_put(pp, gp);
    return;
  }
  tsan_release(&gp->schedlink);  // what this M wrote into the record, for g_recycle()
  waiter* w = gp->ended.complete_in_section();
  if (w == nullptr) {
    return;
  }
  if (gp->ended.abandoned(w)) {
    g_free_put(pp, gp);
    return;
  }
  w = whom_to_wake(w);
  if (w == nullptr) {
    return;
  }
  G* joiner = w->gp;
  if (joiner == nullptr) {
    wake_thread(w);
    return;
  }
  joiner->transition<g_status::waiting, g_status::runnable>();
  if (queue_put(mp, pp, joiner, /*next=*/true)) {
    wake_p_for_next(pp);
  } else {
    wake_p(pp);
  }
}

// Takes it off the M.
void end_on(M* mp, G* gp) {
  gp->transition<g_status::running, g_status::dead>();
  gp->m = nullptr;
  gp->reason = wait_reason::none;
  mp->curg = nullptr;
  *mp->eh_globals = {};
  mp->left = nullptr;
  mp->left_tools = gp->tools;
  if (gp->locked_m != nullptr) {
    WEFT_CHECK(gp->locked_m == mp, "a locked goroutine ended elsewhere");
    WEFT_CHECK(mp->lent || mp->locked_by_runtime == 0,
               "exited a goroutine internally locked to the OS thread");
    mp->locked_by_user = mp->locked_by_runtime = 0;  // leaves_loop remains: the thread ends
    unlink_from_m(mp, gp);
  }
  count_ended(mp->p);
}

// Everything but the stack.
void bury(M* mp, G* gp) {
  check_overflow(gp->stk);  // while it still has a name
  end_on(mp, gp);
  mp->left_stack = gp->stk;
  mp->left_stack_standard = !gp->custom_stack;
  gp->stk = {};
  gp->ctx = {};
  announce_end(mp, mp->p, gp);
}

// The stack was lent, and whoever lent it waits for nothing else (in_place.cc).
[[gnu::always_inline]] inline departure return_stack(M* mp, G* gp) {
  G* lender = gp->lender;
  check_overflow(lender->stk);  // borrowed as well: its own end will tell
  end_on(mp, gp);
  gp->stk = {};
  gp->ctx = {};
  lender->transition<g_status::waiting, g_status::runnable>();
  if (mp->leaves_loop) [[unlikely]] {  // its thread ends with it: the lender goes on elsewhere
    mp->left = lender;
    mp->left_wants = leaving::yielded;
    mp->left_tools.leave_for_good(mp->tools);
    return {&mp->g0, mp};
  }
  mp->left_wants = leaving::nothing;
  take_over(mp, lender, /*inherit_time=*/true);
  mp->left_tools.leave_for_good(lender->tools);
  return {&lender->ctx, mp};
}

// True: next has not started yet and now runs on the stack that has become free.
bool take_over_stack(M* mp, G* next, bool inherit_time) {
  if (WEFT_TSAN || next->stk || next->custom_stack || !mp->left_stack_standard) {
    return false;  // under TSan stacks rest before they are used again: cached_stack()
  }
  next->stk = mp->left_stack;
  next->ctx.sp = next->stk.hi;  // it runs already; what counts is that it has a stack
  mp->left_tools.detach();
  next->tools.attach(next->stk.lo, next->stk.hi);
  default_fp_control();
  take_over(mp, next, inherit_time);
  return true;
}

// Leaves the stack for good, to next or to g0.
[[gnu::always_inline]] inline departure leave_for_good(M* mp, G* next, bool inherit_time) {
  mp->left_wants = leaving::exited;
  if (next == nullptr) {
    mp->left_tools.leave_for_good(mp->tools);
    return {&mp->g0, mp};
  }
  take_over(mp, next, inherit_time);
  mp->left_tools.leave_for_good(next->tools);
  return {&next->ctx, mp};
}

// The last steps of a goroutine that has been unwound: there is nothing to return to any more.
departure end_here(M* mp) {
  if (mp->curg->stk.guard == guard_method::borrowed) {
    return return_stack(mp, mp->curg);
  }
  bury(mp, mp->curg);
  bool inherit = false;
  G* next = mp->leaves_loop ? nullptr : pick_local(mp, mp->p, &inherit);
  return leave_for_good(mp, next, inherit);
}

// A dump must not find a name that is being freed.
WEFT_NO_TSAN void forget_name(G* gp) { gp->name = nullptr; }

WEFT_NO_TSAN bool has_exit_hooks(const G* gp) { return gp->has_exit_hooks; }

// At the end of the stack of a goroutine that called goexit().
WEFT_NO_TSAN void finish_goexit(void*) {
  G* self = current_goroutine();
  if (self->has_exit_hooks) {
    run_exit_hooks(self);
  }
  if (debug_vars.stackusage != 0) [[unlikely]] {
    note_stack_use(*self);
  }
  const belongings owned{self->closure, self->closure_align, self->name};
  forget_name(self);
  free_belongings(owned);
  tsan_release(self->ended.address(), "END");
  tsan_release(self->stk.lo);
  M* mp = enter_runtime();
  const departure d = end_here(mp);
  weft_switch(&mp->discarded, d.to, d.transfer, goroutine_main);
  fatal("a dead goroutine was resumed");
}

// User code: apart, so that TSan's call stack of the goroutine begins here.
[[gnu::noinline]] void run_body(G* gp, void (*body)(void*), const belongings& owned, void* ended,
                                [[maybe_unused]] void* stack_tag) {
  tsan_acquire(gp);
  tsan_acquire(stack_tag);  // its last user's frames are gone
  body(owned.closure);
  if (has_exit_hooks(gp)) [[unlikely]] {
    run_exit_hooks(gp);
  }
  if (debug_vars.stackusage != 0) [[unlikely]] {
    note_stack_use(*gp);
  }
  if (owned.closure_align != 0 || owned.name != nullptr) {
    forget_name(gp);
    free_belongings(owned);
  }
  tsan_release(ended, "END");  // for the joiner
  tsan_release(stack_tag);
}

}  // namespace

WEFT_NO_TSAN G* current_goroutine() noexcept {
  M* mp = current_m();
  return mp == nullptr ? nullptr : mp->curg;
}

// Not instrumented: it returns to another stack than the one that the tools have been told of.
WEFT_NO_TSAN WEFT_NO_ASAN departure goroutine_main(void* transfer) {
  M* mp = static_cast<M*>(transfer);
  mp->curg->tools.arrive();
  complete_switch(mp, leaving::parked);
  for (;;) {
    mp->border.set_depth(1);
    G* gp = mp->curg;
    void (*const body)(void*) = gp->body;
    const belongings owned{gp->closure, gp->closure_align, gp->name};
    *mp->errno_location = 0;
    leave_runtime(mp);
    run_body(gp, body, owned, gp->ended.address(), gp->stk.lo);
    mp = enter_runtime();
    if (mp->curg->stk.guard == guard_method::borrowed) {
      return return_stack(mp, mp->curg);
    }
    bury(mp, mp->curg);
    bool inherit = false;
    G* next = mp->leaves_loop ? nullptr : pick_local(mp, mp->p, &inherit);
    if (next == nullptr || !take_over_stack(mp, next, inherit)) {
      return leave_for_good(mp, next, inherit);
    }
  }
}

void end_goroutine() { unwind_goroutine(finish_goexit, nullptr); }

}  // namespace weft::rt

namespace weft {

void goexit() {
  if (!rt::on_goroutine()) {
    rt::fatal("runtime.Goexit called in a thread that was not created by the Go runtime",
              rt::user_fault);
  }
  rt::end_goroutine();
}

}  // namespace weft
