// M: an OS thread of the runtime. It runs goroutines while it holds a P, and its own scheduler stack
// (g0, the thread's real stack) when there is nothing to run or when work may not be done on a
// goroutine's stack.
//
// M records are never freed, only reused by other threads: a thief or a waker may hold a stale pointer.
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
#include "gmp/border.h"
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
  rt::border border;  // … and who may take its P when
  P* p = nullptr;
  G* left = nullptr;  // the goroutine that has just left, and what it wants
  leaving left_wants = leaving::nothing;
  bool spinning = false;
  std::uint8_t futile_spins = 0;  // how often in a row it has looked for long in vain
  bool has_deputy = false;        // … and somebody else wakes soon, too
  bool timer_is_due = false;      // woken by time: look at everybody's timers first
  bool looks_for_news = false;    // of descriptors, before it looks for other work
  bool hands_p_on = false;        // on g0: lets another M go on with its P (WEFTDEBUG=migrate)
  M* lender = nullptr;            // whose P it has, for a moment (sched/borrow.cc)
  std::uint32_t lenders_slice = 0;
  std::int32_t lenders_p = 0;
  bool short_slices = false;   // … as the kernel gives it processors
  bool owes_watch = false;     // before it runs a goroutine: does anybody watch the timers?
  commit_fn commit = nullptr;  // leaving::parked
  waiter* commit_waiter = nullptr;
  void* commit_arg = nullptr;
  stack left_stack{};  // leaving::exited: the record may be reused already
  bool left_stack_standard = true;
  [[no_unique_address]] fiber_tools left_tools;
  context discarded;                 // where a context goes that nobody will resume
  int* errno_location = nullptr;     // this thread's errno
  eh_state* eh_globals = nullptr;    // this thread's exception state
  G* preselected = nullptr;          // popped on a goroutine's stack, to be dealt with on g0
  G* locked_g = nullptr;             // this M runs only that G, as long as one of these is not 0:
  std::uint32_t locked_by_user = 0;  // lock_os_thread() that has not been undone
  std::uint32_t locked_by_runtime = 0;  // likewise pin_to_thread(); and run() with lock_main_thread
  bool lent = false;                    // … to which the thread belongs
  bool lent_once = false;               // … and only until its goroutine leaves it
  bool in_handler = false;              // interrupted by the runtime's signal
  const void* interrupted = nullptr;    // … here: the handler's ucontext_t, for stack traces
  bool leaves_loop = false;             // as soon as no goroutine is locked to it
  rng random;

  // -- constant after construction
  std::uint64_t id = 0;
  int tid = 0;  // while it has a thread; others may ask under sched.lock, as in thread_to_signal()
  [[no_unique_address]] fiber_tools tools;  // of the thread's own stack, g0
  signal_stack handlers;                    // … and the one for its signal handlers

  // -- guarded by sched.lock
  P* nextp = nullptr;   // the P to take on waking; set before the wake-up
  P* last_p = nullptr;  // … that it has released. Its own until somebody else may let it go on
  M* idle_prev = nullptr;
  M* idle_next = nullptr;
  M* all_next = nullptr;
  bool is_idle = false;
  bool stands_in = false;         // it sleeps until the next timer although no P is idle
  bool watches_deadlock = false;  // sleeps with a time-out to look for deadlocks again
  bool poked = false;             // its note is set, but without a P: it shall look now
  bool dismissed = false;         // … or without a P: it shall end (sched/reap.cc)
  std::uint32_t idle_since = 0;   // sched.idle_period when it went idle
  note park;                      // sleeps here

  // -- sysmon's (sched/sysmon.cc, sched/retake.cc)
  atomic<std::uint32_t> signalled{0};  // a request is on its way
  atomic<std::uint32_t> calls{0};      // odd: it has said that it may block (runtime::blocking())
  std::int64_t call_began = 0;         // owner only: … and given its P away then
  M* robbed_next = nullptr;            // guarded by sched.lock
  bool lends = false;  // guarded by sched.lock: … robbed while it computed (sched/borrow.cc)
  bool frozen_outside = false;  // guarded by sched.lock: frozen in the user's code
  bool returned = false;        // guarded by sched.lock: … or waits for a P after a call
  long long cpu_seen = 0;       // of a robbed one

  // By the owner, which is another thread than the record's last one. A signal may have been on its way to that, which
  // took it as a plain thread.
  void begin_thread(int thread) {
    tid = thread;
    if (!WEFT_MUTANT("signal-of-the-last")) {
      signalled.store(0, WEFT_ORDER(SG0, relaxed));  // order: relaxed, a flag
    }
  }

  // By the owner. Calls that may block have numbers, by which sysmon knows one for the same.
  [[gnu::always_inline]] bool begin_call() { return count_call(0); }
  [[gnu::always_inline]] void end_call() { count_call(1); }
  bool in_call() const {
    return (calls.load(WEFT_ORDER(IC0, relaxed)) & 1) != 0;  // order: relaxed, a hint for sysmon
  }

 private:
  [[gnu::always_inline]] bool count_call(std::uint32_t odd) {
    const std::uint32_t n = calls.load(WEFT_ORDER(IC0, relaxed));  // order: relaxed, own word
    if ((n & 1) != odd) {
      return false;
    }
    calls.store(n + 1, WEFT_ORDER(IC0, relaxed));  // order: relaxed, a hint for sysmon
    return true;
  }
};

}  // namespace weft::rt
