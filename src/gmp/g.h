// G: a goroutine. A record of four cache lines that is never freed, only reused (ids are not).
//
// Layout is deliberate. A goroutine that is spawned, runs and ends without ever parking touches the
// first three lines only, and a switch touches the first one.
//
// A G that has never run has no stack: it gets one when it first runs, often the still warm one of
// the goroutine that has just ended (sched/exit.cc).
//
// Go: runtime/runtime2.go type g
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"
#include "fiber/context.h"
#include "fiber/eh_globals.h"
#include "fiber/sanitizer.h"
#include "fiber/stack.h"
#include "gmp/completion.h"
#include "gmp/park_gate.h"
#include "gmp/status.h"
#include "gmp/wait_reason.h"
#include "gmp/waiter.h"

namespace weft::rt {

struct M;
struct exit_hook;

struct alignas(64) G {
  static constexpr std::size_t kInlineClosure = 64;
  static constexpr std::uintptr_t kLimitedWait = 1;

  // -- first line: every switch. Owned by whoever owns the stack (status.h), but for status.
  context ctx;             // saved while not running; null: it has no stack yet
  M* m = nullptr;          // runs it; null unless running
  G* schedlink = nullptr;  // link of the one list it is on [RQ-11]
  atomic<g_status> status{g_status::idle};
  bool frozen = false;           // goes on only on its M `m`, where it was stopped (preempt.cc)
  std::uint16_t keeps_p = 0;     // no_preempt scopes that it is in
  std::int32_t saved_errno = 0;  // errno belongs to the goroutine across a park
  union {
    void (*body)(void*) = nullptr;  // until it starts: runs and destroys the closure
    std::uintptr_t waiting_on;      // of one that waits: see awaited()
  };
  void* closure = nullptr;          // inline_closure or heap
  M* locked_m = nullptr;            // runs on this M only
  std::uint32_t closure_align = 0;  // of a closure on the heap, otherwise 0
  wait_reason reason = wait_reason::none;
  bool joinable = false;          // a thread handle refers to it: not recycled before the join
  bool custom_stack : 1 = false;  // stack_size counts
  bool has_exit_hooks : 1 = false;
  bool helper : 1 = false;  // the runtime's own: start_helper()
  bool carries = false;     // what it takes up when it runs again: `eh`, or a wait that is measured

  // -- second line: the callable, if it fits
  alignas(64) std::byte inline_closure[kInlineClosure];

  // -- third line: identity and resources
  alignas(64) std::uint64_t goid = 0;
  std::uint64_t parent_goid = 0;
  const void* created_pc = nullptr;
  stack stk{};
  completion<waiter> ended;    // for the joiner
  const char* name = nullptr;  // heap copy, or null

  // -- fourth line: seldom
  alignas(64) eh_state eh{};  // the exception state while not running (D6)
  union {
    std::size_t stack_size = 0;  // asked for by attrs
    G* lender;                   // of a borrowed stack: sched/in_place.cc
  };
  // Of the first G of a chain on a shared list: the next chain. In the global queue: one to fetch (queue.cc).
  G* chain_next = nullptr;
  union {
    std::uint32_t chain_length;      // … and how many Gs it links
    std::int64_t waiting_since = 0;  // of one that waits: coarse_time()
    std::int64_t frozen_since;       // of one that is frozen: nanotime()
  };
  park_gate gate;                   // of a wait with a limit
  exit_hook* exit_hooks = nullptr;  // the goroutine's own: sched/at_exit.cc
  void* own_word = nullptr;         // likewise
  [[no_unique_address]] fiber_tools tools;

  // The one choke point for state changes. The edge is checked by the compiler, the present state at
  // run time. The caller owns the transition: no CAS is needed because exactly one party may move a
  // G out of any state (status.h).
  template <g_status From, g_status To>
  void transition() {
    static_assert(legal_edge(From, To), "no such edge: see status.h");
    // order: relaxed; who may look at the G is handed over by queues and locks, not by its status
    const g_status now = status.load(WEFT_ORDER(GS0, relaxed));
    if (now != From) [[unlikely]] {
      bad_transition(now, From, To);
    }
    status.store(To, WEFT_ORDER(GS0, relaxed));  // order: relaxed, as above
  }

  // What it waits for, for reports: the object, the G that it joins, the selection; or null. Limited: the
  // wait ends by itself, too, at a deadline or with a context.
  void awaits(const void* object, bool limited) {
    waiting_on = reinterpret_cast<std::uintptr_t>(object) | (limited ? kLimitedWait : 0);
  }
  const void* awaited() const { return reinterpret_cast<const void*>(waiting_on & ~kLimitedWait); }
  bool wait_is_limited() const { return (waiting_on & kLimitedWait) != 0; }

  bool in(g_status s) const {
    return status.load(WEFT_ORDER(GS0, relaxed)) == s;  // order: relaxed, diagnostics and asserts
  }

  [[noreturn]] void bad_transition(g_status now, g_status from, g_status to) const;
};

#ifndef WEFT_MODEL
static_assert(WEFT_ASAN || WEFT_TSAN || sizeof(G) == 256, "four cache lines");
#endif

}  // namespace weft::rt
