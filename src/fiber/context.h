// Switching between stacks: the one place where control leaves a stack other than by returning.
//
// Problem. A goroutine parks deep inside straight-line C++ and some other goroutine goes on, on the
// same thread. Everything that the ABI lets a function rely on across a call must be as it was when
// the first one is resumed, perhaps on another thread.
//
// Protocol. A context that does not run is one word, its stack pointer; what else must survive lies
// on its own stack just above it, in a frame of fixed layout (switch_x86_64.S, switch_aarch64.S):
// the callee-saved registers, the floating-point control words, the address to go on from.
//   weft_switch(save, load, transfer, entry)
//   1. pushes that frame on the current stack, and stores the stack pointer in *save;
//   2. takes the stack pointer from *load and pops the frame found there;
//   3. returns `transfer` to whoever had suspended *that* context.
// A context that has not started yet has no frame: its word is the top of its stack plus one. Then
//   2a. the stack pointer becomes that top, and entry(transfer) is called;
//   2b. if it returns, that context is over, and step 2 goes on with the one it names.
// From step 2 on, *save may be resumed by another thread: the caller publishes a suspended context
// only afterwards, from the other side (design D5: the successor completes the parking).
//
// Invariants
//   C1 A context is resumed exactly once per suspension. Otherwise two threads run on one stack.
//   C2 The frame is unwindable at every instruction, for a preemption signal or a profiler may look
//      at any of them.
//   C3 The unwinder stops at the entry of a context: its return address is "undefined" in the CFI
//      sense. Otherwise an uncaught exception or a backtrace walks off the top of the stack.
//   C4 A context starts with the default floating-point environment and keeps its own changes. The
//      control words are compared before they are loaded: they hardly ever differ, and loading them
//      costs more than all the rest.
//   C5 Nothing is written below a stack pointer that is in use, nor to a stack that nobody runs on.
//      A new stack may lie below the frames of whoever switches to it (sched/in_place.cc), where a
//      signal handler would overwrite it.
//
// Rejected: ucontext (two system calls for the signal mask); keeping the registers in the context
// instead of on the stack (one more cache line per switch); leaving by a jump instead of `ret` (the
// figures are in switch_x86_64.S; callers get the best of it by suspending at few places); an inline
// assembly switch that leaves the registers to the compiler (4 % of a yield, but the frame would have no
// fixed layout for debuggers, and every caller would need -mno-red-zone); control words
// saved by those goroutines only that ever changed them (nobody tells us); a first frame made by hand
// (C5, and two ways of beginning); a second function for first switches (a goroutine that suspends at
// another place is resumed by a `ret` that the processor has predicted wrongly).
//
// Thread-local addresses must not be cached across a switch: see base/tls.h.
#pragma once

#include <cstdint>

namespace weft::rt {

/// A flow of control that does not run. The word is meaningful only meanwhile.
struct context {
  void* sp = nullptr;

  /// False: it will begin on the stack whose top the word tells.
  bool started() const noexcept { return (reinterpret_cast<std::uintptr_t>(sp) & 1) == 0; }
};

/// Where to go on when a context is over. `to` need not have started; then it begins with the same
/// entry function.
struct departure {
  const context* to;
  void* transfer;
};

/// What a new context runs. `transfer` is the argument of the weft_switch that started it.
using context_entry = departure (*)(void* transfer);

/// A context that begins on the stack ending at `stack_top`, which need not be aligned, when it is
/// switched to for the first time. Touches no memory there.
inline context new_context(void* stack_top) noexcept {
  constexpr std::uintptr_t kStackAlignment = 16;  // both ABIs
  const auto top = reinterpret_cast<std::uintptr_t>(stack_top) & ~(kStackAlignment - 1);
  return {reinterpret_cast<void*>(top + 1)};
}

/// Gives the running flow the default floating-point environment, as a new context has: for a
/// goroutine that begins on a stack that another one has just left (C4).
void default_fp_control() noexcept;

extern "C" {

/// Suspends the running flow into *save and resumes *load, or calls `entry` on its stack if it has not
/// started; `entry` is not looked at otherwise. Returns, much later and perhaps on another thread,
/// what the flow that resumes *save passed as `transfer`.
/// Requires: *load does not run, and nobody else resumes it (C1).
/// Runs on: any stack. Blocks: nothing.
[[gnu::visibility("hidden")]] void* weft_switch(context* save, const context* load, void* transfer,
                                                context_entry entry) noexcept;

/// The outermost function of every context (switch_*.S). Declared for those who recognise it in a
/// backtrace; not callable.
[[gnu::visibility("hidden")]] void weft_goroutine_entry() noexcept;
}

}  // namespace weft::rt
