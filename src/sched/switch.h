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

#include "os/clock.h"
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

// The same for an M that has just taken pp: mostly it has slept, and knows neither how late it is nor that it was asked,
// where it was before, to make room. The first goroutine begins the next slice (slice_began()).
inline void begin_holding(M* mp, P* pp) {
  begin_slice(mp, pp);
#ifndef WEFT_MODEL
  const std::int64_t now = nanotime();
  note_time(now);
  pp->held_since.store(now, WEFT_ORDER(SB0, relaxed));            // order: SB0 relaxed, for sysmon
  pp->first_slice.store(slice_of(pp), WEFT_ORDER(SB0, relaxed));  // order: SB0 relaxed, as above
#endif
}

// Marks gp as the one that runs on mp. [L-3]
[[gnu::always_inline]] inline void take_over(M* mp, G* gp, bool inherit_time) {
  P* pp = mp->p;
  if (gp->ctx.sp == nullptr) [[unlikely]] {
    bind_stack(pp, gp);
  }
  if (gp->carries) [[unlikely]] {
    take_up(mp, pp, gp);
  }
  gp->transition<g_status::runnable, g_status::running>();
  gp->m = mp;
  mp->curg = gp;
  set_current_id(&gp->goid);
  if (!inherit_time) {
    begin_slice(mp, pp);
  }
  count_switch(pp);
}

[[gnu::always_inline]] inline void leave_stack(M* mp, G* gp, leaving wants) {
  mp->left = gp;
  mp->left_wants = wants;
  if (live_borders) {
    mp->end_call();  // runtime::blocking() around something that parks
  }
  gp->m = nullptr;
  gp->saved_errno = *mp->errno_location;
  if (eh_leave(mp->eh_globals, gp->eh)) [[unlikely]] {
    gp->carries = true;
  }
}

[[gnu::always_inline]] inline void queue_yielded(M* mp, G* gp) {
  queue_put(mp, mp->p, gp, /*next=*/false);
  // Between the successor's leaving the queue and this push it may have looked empty to an M on
  // its way to sleep; so this is new work. keeps I1
  wake_p(mp->p);
}

// What the goroutine that has just left wants done; first thing on its successor's stack. likely: who yields
// mostly comes back when another one yields, and so on.
[[gnu::always_inline]] inline void complete_switch(M* mp, leaving likely) {
  const leaving wants = mp->left_wants;
  G* gp = mp->left;
  mp->left_wants = leaving::nothing;
  chaos_pause(mp);
  if (likely == leaving::yielded && wants == leaving::yielded) [[likely]] {
    queue_yielded(mp, gp);
    return;
  }
  switch (wants) {
    case leaving::nothing: return;
    case leaving::yielded: queue_yielded(mp, gp); return;
    case leaving::parked:
      // From a successful commit on, gp belongs to its waker and may run, or be gone. [PK-2]
      if (!mp->commit(mp->commit_waiter, mp->commit_arg)) [[unlikely]] {
        unpark(mp, gp);
      }
      return;
    case leaving::exited:
      mp->left_tools.detach();
      stack_give(mp->p, mp->left_stack, mp->left_stack_standard);
      return;
  }
}

// Back on gp's stack, on whichever M that is now. Returns that M.
[[gnu::always_inline]] inline M* arrive(void* transfer, G* gp, std::uint32_t depth,
                                        leaving likely = leaving::parked) {
  M* mp = static_cast<M*>(transfer);
  gp->tools.arrive();
  mp->border.set_depth(depth);
  complete_switch(mp, likely);
  *mp->errno_location = gp->saved_errno;
  return mp;
}

// From a running goroutine straight to the next one. Returns when gp runs again.
[[gnu::always_inline]] inline M* switch_to(M* mp, G* gp, G* next, bool inherit_time,
                                           leaving likely = leaving::parked) {
  const std::uint32_t depth = mp->border.depth();
  take_over(mp, next, inherit_time);
  gp->tools.leave(next->tools);
  return arrive(weft_switch(&gp->ctx, &next->ctx, mp, goroutine_main), gp, depth, likely);
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

// Some things are due every so many switches only, all of them at the end of a long slice. One test tells a
// switch that it is none of these.
inline constexpr std::uint32_t kBetweenNews = 8 * kLongestSlice;
inline constexpr std::uint32_t kBetweenTurns = 2 * kLongestSlice;

// Every so many switches somebody looks for news of descriptors, although there is other work: those who
// wait for them shall not starve beside a P that is never idle.
[[gnu::always_inline]] inline bool news_are_due(const P* pp) {
  // order: SW0 relaxed, the owner's own counter
  return pp->switches.load(WEFT_ORDER(SW0, relaxed)) % kBetweenNews == 0 && io_is_awaited();
}

// Somebody waits in the global queue, and it is his turn: every 61st slice [FR-1] 6; and, since a slice of
// goroutines that hand over to each other is long, after so many switches, too. (Not more often: what a
// full ring has sent there are the largest parts of a tree that forks and joins, and to begin many of
// them at once costs stacks.)
[[gnu::always_inline]] inline bool global_is_due(const P* pp) {
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
  const bool slice_over = slice_is_over(pp);
  if ((slice_over && news_are_due(pp)) || timers_want_a_look(pp)) [[unlikely]] {
    return nullptr;
  }
  G* gp;
  if ((slice_over || slice_of(pp) % kFairnessTick == 0) && global_is_due(pp)) [[unlikely]] {
    gp = take_global();
    *inherit = false;
  } else {
    gp = take_local(pp, slice_over, inherit);
  }
  if (gp == nullptr) {
    return nullptr;
  }
  if (!*inherit) {
    // The records of those who come next, and the saved registers of the very next one: over
    // a thousand goroutines every one of them would be a cache miss otherwise.
    if constexpr (!WEFT_TSAN) {
      const auto [first, second] = pp->runq.peek_two();
      if (second != nullptr) {
        __builtin_prefetch(second);
      }
      if (first != nullptr) {
        // A hint: a thief may be running it by now, and then the address is merely old.
        const void* sp = __atomic_load_n(&first->ctx.sp, __ATOMIC_RELAXED);  // order: hint
        if (sp != nullptr) {
          __builtin_prefetch(sp);
          __builtin_prefetch(static_cast<const char*>(sp) + 64);
        } else {
          __builtin_prefetch(first->inline_closure);  // it has not started yet
          __builtin_prefetch(&first->goid);
        }
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
