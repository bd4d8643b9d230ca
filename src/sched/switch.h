// Leaving one stack for another (D5).
//
// The goroutine that leaves chooses its successor on its own stack and jumps straight to it; g0 is
// used only when there is nothing to run or when the choice may not be made there. What must happen
// once the leaver is off its stack (queue it, publish it to its waker, give its stack back) it leaves
// written in its M, and the successor does it first thing: complete_switch().
//
//   leaver                                   successor
//   1. status, m->left, m->left_wants
//   2. save errno and exception state
//   3. weft_switch ───────────────────────►  4. complete_switch(m): queue / commit / recycle leaver
//                                            5. restore own errno and exception state
//
// S1: nobody may see the leaver in a queue before step 4. Otherwise two Ms run on one stack.
// S2: all of 1-5 runs as the M (section.h). No function that is entered on one side of weft_switch
//     returns on the other, except those inlined here: TSan's call stacks would get out of step.
//
// Rejected: always through g0, as in Go (twice the switches); a scheduler thread of its own.
#pragma once

#include "sched/netpoll.h"
#include "sched/sched_api.h"

namespace weft::rt {

// order: relaxed throughout; only the owner writes, thieves compare two readings
inline void count_switch(P* pp) {
  pp->switches.store(
      pp->switches.load(WEFT_ORDER(SW0, relaxed)) + 1,  // order: SW0 relaxed, see above
      WEFT_ORDER(SW0, relaxed));                        // order: SW0 relaxed
}

[[gnu::always_inline]] inline void count_slice([[maybe_unused]] P* pp) {
#ifndef WEFT_MODEL  // nobody measures them there
  // order: ST0 relaxed; the owner's own counter, sysmon compares two readings
  pp->schedtick.store(pp->schedtick.load(WEFT_ORDER(ST0, relaxed)) + 1, WEFT_ORDER(ST0, relaxed));
#endif
}

// A time slice begins, which sysmon measures (sched/retake.cc).
[[gnu::always_inline]] inline void begin_slice([[maybe_unused]] M* mp, P* pp) {
  count_slice(pp);
  if (live_borders) {
    mp->border.begin_slice();
  }
}

// Marks gp as the one that runs on mp. [L-3]
[[gnu::always_inline]] inline void take_over(M* mp, G* gp, bool inherit_time) {
  P* pp = mp->p;
  if (!gp->stk) [[unlikely]] {
    bind_stack(pp, gp);
  }
  sample_running(pp, gp);
  gp->transition<g_status::runnable, g_status::running>();
  gp->m = mp;
  mp->curg = gp;
  if (!inherit_time) {
    begin_slice(mp, pp);
  }
  count_switch(pp);
  eh_enter(mp->eh_globals, gp->eh);
}

[[gnu::always_inline]] inline void leave_stack(M* mp, G* gp, leaving wants) {
  mp->left = gp;
  mp->left_wants = wants;
  if (live_borders) {
    mp->end_call();  // runtime::blocking() around something that parks
  }
  gp->m = nullptr;
  gp->saved_errno = *mp->errno_location;
  eh_leave(mp->eh_globals, gp->eh);
}

// Back on gp's stack, on whichever M that is now. Returns that M.
[[gnu::always_inline]] inline M* arrive(void* transfer, G* gp, std::uint32_t depth) {
  M* mp = static_cast<M*>(transfer);
  gp->tools.arrive();
  mp->border.set_depth(depth);
  complete_switch(mp);
  *mp->errno_location = gp->saved_errno;
  return mp;
}

// From a running goroutine straight to the next one. Returns when gp runs again.
[[gnu::always_inline]] inline M* switch_to(M* mp, G* gp, G* next, bool inherit_time) {
  const std::uint32_t depth = mp->border.depth();
  take_over(mp, next, inherit_time);
  gp->tools.leave(next->tools);
  return arrive(weft_switch(&gp->ctx, &next->ctx, mp, goroutine_main), gp, depth);
}

// From a running goroutine to its M's scheduler. Returns when gp runs again.
[[gnu::always_inline]] inline M* switch_to_g0(M* mp, G* gp) {
  const std::uint32_t depth = mp->border.depth();
  mp->curg = nullptr;
  gp->tools.leave(mp->tools);
  return arrive(weft_switch(&gp->ctx, &mp->g0, mp, nullptr), gp, depth);
}

// Whether giving up pp would let nobody run who cannot run now.
inline bool nobody_waits_for(P* pp) {
  return sched.runq.empty() && pp->runq.empty() && !timers_want_a_look(pp) &&
         // order: AT1 relaxed; a stop is acted upon under sched.lock
         pp->attention.load(WEFT_ORDER(AT1, relaxed)) == 0;
}

// Every so many switches somebody looks for news of descriptors, although there is other work: those who
// wait for them shall not starve beside a P that is never idle.
[[gnu::always_inline]] inline bool news_are_due(const P* pp) {
  constexpr std::uint32_t kBetweenLooks = 512;
  // order: SW0 relaxed, the owner's own counter
  return pp->switches.load(WEFT_ORDER(SW0, relaxed)) % kBetweenLooks == 0 && io_is_awaited();
}

// Somebody waits in the global queue, and it is his turn: every 61st slice [FR-1] 6; and, since a slice of
// goroutines that hand over to each other is long, after so many switches, too. (Not more often: what a
// full ring has sent there are the largest parts of a tree that forks and joins, and to begin many of
// them at once costs stacks.)
[[gnu::always_inline]] inline bool global_is_due(const P* pp) {
  constexpr std::uint32_t kBetweenTurns = 2 * kLongestSlice;
  // order: SW0 relaxed, the owner's own counter
  return (slice_of(pp) % kFairnessTick == 0 ||
          pp->switches.load(WEFT_ORDER(SW0, relaxed)) % kBetweenTurns == 0) &&
         !sched.runq.empty();
}

// The next local goroutine, if the choice may be made on a goroutine's stack. Null: g0 decides.
// [FR-1] steps 1 to 8; timers and the poller are asked on g0.
[[gnu::always_inline]] inline G* pick_local(M* mp, P* pp, bool* inherit) {
  // order: AT1 relaxed; a stop request is acted upon under sched.lock, this only says "go and look"
  if (pp->attention.load(WEFT_ORDER(AT1, relaxed)) != 0 || mp->locked_g != nullptr) [[unlikely]] {
    return nullptr;
  }
  if (global_is_due(pp) || timers_want_a_look(pp) || news_are_due(pp)) [[unlikely]] {
    return nullptr;
  }
  G* gp = take_local(pp, inherit);
  if (gp == nullptr) {
    return nullptr;
  }
  if (!*inherit) {
    // The records of those who come next, and the saved registers of the very next one: over
    // a thousand goroutines every one of them would be a cache miss otherwise.
    if constexpr (!WEFT_TSAN) {
      if (G* second = pp->runq.peek(1)) {
        __builtin_prefetch(second);
      }
      if (G* first = pp->runq.peek(0)) {
        // A hint: a thief may be running it by now, and then the address is merely old.
        __builtin_prefetch(__atomic_load_n(&first->ctx.sp, __ATOMIC_RELAXED));  // order: hint
        __builtin_prefetch(first->inline_closure);  // if it has not started yet
        __builtin_prefetch(&first->goid);
      }
    }
  }
  if (gp->locked_m != nullptr) [[unlikely]] {
    mp->preselected = gp;
    return nullptr;
  }
  return gp;
}

}  // namespace weft::rt
