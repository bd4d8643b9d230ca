// A child that nobody has started yet runs on the stack of whoever joins it.
//
// Problem. Fork-join code starts a goroutine, does its own half and joins. Mostly nobody had time to
// steal the child, so that the joiner parks, a stack is bound, the child runs, ends, makes the joiner
// runnable, and is buried: two queue operations, two atomic hand-shakes and a stack for nothing. The
// joiner waits for this very child anyway, and below its stack pointer there is room.
//
// Protocol
//   joiner                                              child
//   1. takes the child out of its own P's queue
//   2. becomes waiting; lends what lies below its
//      stack pointer
//   3. switches to the child, a goroutine like any      4. runs; may park and go on elsewhere: the
//      other, with its own id, errno, exception            stack stays lent
//      state and floating-point environment             5. ends, also by goexit(): switches straight
//   6. goes on, on whichever M the child ended             back to the lender
//
// IP1: the lender runs again only after the child has ended. Otherwise two goroutines write to one stack.
//      It is waiting and on no list, and nobody but the child knows of it.
// IP2: a child runs in place only if the lenders together have used at most kMostUsed of a standard
//      stack; one that asked for a size gets its own. Otherwise a child that fits its stack would
//      overflow it or not by who comes first. Nested children lend in turn.
// IP3: every kLongestSlice switches, when timers want a look, and when the world stops, joins go the
//      ordinary way, so that the scheduler gets its turn.
// IP4: nothing is written below the joiner's stack pointer before step 3 has moved it. A signal handler
//      without a stack of its own would overwrite it. (context.h, C5)
//
// The only step in which two threads may meet is 1, and that is run_queue::take() against thieves
// (tests/model/run_queue_model.cc). What follows needs no model: from 1 on the child is the joiner's
// alone; 3 and 5 are plain calls on one thread; and if the child moves in between, it takes the lender
// along through the queues and locks that hand over the child itself. ended.complete() is not called:
// nobody can wait for it but the joiner, who has the handle.
//
// Not under TSan: to it, the frames of the child and those that the joiner had there before would be
// two goroutines that write to the same addresses, and an edge that orders them hides users' races.
//
// ASan is told by the lender, as soon as it is back, that the frames below it are dead. The child cannot
// say so: the code that ends it runs in such a frame, and marks its own variables as out of scope up to
// the switch. Marks that stay are reported much later as uses after scope, by frames of the lender, or of
// whoever gets its stack, that take it for granted that stacks are clean. (exit.cc, stack_give())
#include <cstddef>

#include "base/debug_vars.h"
#include "fiber/stack.h"
#include "os/clock.h"
#include "sched/chaos.h"
#include "sched/switch.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

constexpr bool kPossible = !WEFT_TSAN;
// IP2. (With pages of 64 KiB guards are larger, stacks never have that much, and nothing runs in place.)
constexpr std::ptrdiff_t kMostUsed = 16 * 1024;
constexpr std::ptrdiff_t kRoom = kStackReserve - kGuardBytes - kMostUsed;
// What lies below this frame when the switch has saved it: a return address and the registers.
constexpr std::ptrdiff_t kSwitchFrame = 512;

// IP3: the slice is over. A child in place is two switches, so that the counter may step over the end of
// the slice; it is put there, for take_local() and global_is_due() to see.
bool slice_ends_here(P* pp) {
  // order: SW0 relaxed, the owner's own counter
  const std::uint32_t n = pp->switches.load(WEFT_ORDER(SW0, relaxed));
  if (n % kLongestSlice != 0 && n % kLongestSlice < kLongestSlice - 2) [[likely]] {
    return false;
  }
  // order: SW0 relaxed, as above
  pp->switches.store((n + kLongestSlice - 1) / kLongestSlice * kLongestSlice,
                     WEFT_ORDER(SW0, relaxed));
  return true;
}

// IP2, IP3, and what needs a thread of its own.
bool suits(const M* mp, P* pp, const G* gp, const std::byte* sp) {
  // order: AT1 relaxed; a stop request is acted upon under sched.lock
  return pp->attention.load(WEFT_ORDER(AT1, relaxed)) == 0 && mp->locked_g == nullptr &&
         sp - gp->stk.lo >= kRoom && !slice_ends_here(pp) && !timers_want_a_look(pp) &&
         !process_is_exiting() && debug_vars.stackusage == 0;
}

}  // namespace

bool run_in_place(G* child) {
  M* mp = kPossible ? enter_runtime() : nullptr;
  G* gp = mp == nullptr ? nullptr : mp->curg;
  if (gp == nullptr) {
    leave_runtime(mp);
    return false;
  }
  P* pp = mp->p;
  const std::uint32_t depth = mp->border.depth();
  auto* sp = static_cast<std::byte*>(__builtin_alloca(16));  // the end of this frame, about
  std::byte* const top = sp - kSwitchFrame;
  if (!suits(mp, pp, gp, sp) || chaos_coin(mp) || !pp->runq.take(child)) {
    leave_runtime(mp);
    return false;
  }
  if (child->stk || child->custom_stack || child->locked_m != nullptr) [[unlikely]] {
    queue_put(mp, pp, child, /*next=*/true);
    wake_p(pp);
    leave_runtime(mp);
    return false;
  }
  gp->reason = wait_reason::thread_join;
  gp->awaits(child, /*limited=*/false);
  gp->waiting_since = coarse_time();
  gp->transition<g_status::running, g_status::waiting>();
  leave_stack(mp, gp, leaving::nothing);
  child->stk = {gp->stk.lo, top, guard_method::borrowed};
  child->lender = gp;
  child->ctx = new_context(top);  // keeps IP4
  child->tools.attach(child->stk.lo, child->stk.hi);
  take_over(mp, child, /*inherit_time=*/true);
  gp->tools.leave(child->tools);
  void* const transfer = weft_switch(&gp->ctx, &child->ctx, mp, goroutine_main);
  asan_unpoison(gp->stk.lo, static_cast<std::size_t>(top - gp->stk.lo));
  mp = arrive(transfer, gp, depth);
  WEFT_DCHECK(static_cast<std::byte*>(gp->ctx.sp) >= top,
              "a lent stack reached into the lender's frame");
  leave_runtime(mp);
  return true;
}

}  // namespace weft::rt
