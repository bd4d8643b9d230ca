// M: an OS thread of the runtime. It runs goroutines while it holds a P, and its own scheduler stack
// (g0, the thread's real stack) when there is nothing to run or when work may not be done on a
// goroutine's stack.
//
// M records are never freed: a thief or a waker may hold a stale pointer.
//
// Go: runtime/runtime2.go type m
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/note.h"
#include "base/rng.h"
#include "fiber/context.h"
#include "fiber/eh_globals.h"
#include "fiber/sanitizer.h"
#include "fiber/stack.h"
#include "gmp/waiter.h"
#include "os/signal_stack.h"

namespace weft::rt {

struct G;
struct P;

// What the goroutine that has just left wants done once it is off its stack. The successor does it
// first thing, on its own stack (D5).
enum class leaving : std::uint8_t {
  nothing,
  yielded,  // put it at the tail of the local queue
  parked,   // run its commit; if that refuses it is runnable again
  exited,   // give back its stack and record
};

using commit_fn = bool (*)(waiter*, void*);

struct alignas(64) M {
  // -- owner only
  context g0;  // the scheduler's context while a goroutine runs
  G* curg = nullptr;
  P* p = nullptr;
  G* left = nullptr;  // the goroutine that has just left, and what it wants
  leaving left_wants = leaving::nothing;
  bool spinning = false;
  std::uint8_t futile_spins = 0;  // how often in a row it has looked for long in vain
  bool has_deputy = false;        // … and somebody else wakes soon, too
  bool timer_is_due = false;      // woken by time: look at everybody's timers first
  bool owes_watch = false;        // before it runs a goroutine: does anybody watch the timers?
  commit_fn commit = nullptr;     // leaving::parked
  waiter* commit_waiter = nullptr;
  void* commit_arg = nullptr;
  stack left_stack{};  // leaving::exited: the record may be reused already
  bool left_stack_standard = true;
  [[no_unique_address]] fiber_tools left_tools;
  context discarded;               // where a context goes that nobody will resume
  int* errno_location = nullptr;   // this thread's errno
  eh_state* eh_globals = nullptr;  // this thread's exception state
  G* preselected = nullptr;        // popped on a goroutine's stack, to be dealt with on g0
  G* locked_g = nullptr;           // this M runs only that G
  rng random;

  // -- constant after construction
  std::uint64_t id = 0;
  int tid = 0;
  [[no_unique_address]] fiber_tools tools;  // of the thread's own stack, g0
  signal_stack handlers;                    // … and the one for its signal handlers

  // -- guarded by sched.lock
  P* nextp = nullptr;  // the P to take on waking; set before the wake-up
  M* idle_prev = nullptr;
  M* idle_next = nullptr;
  M* all_next = nullptr;
  bool is_idle = false;
  bool watches_deadlock = false;  // sleeps with a time-out to look for deadlocks again
  bool poked = false;             // its note is set, but without a P: it shall look now
  note park;                      // sleeps here

  // A locked M of lock_main_thread ends its loop when its goroutine is gone.
  bool leave_when_g_ends = false;
};

}  // namespace weft::rt
