// fiber/context.h, C2: the stack can be unwound at every single instruction of a switch, as preemption
// signals and profilers need. The processor's single-step flag raises SIGTRAP after each instruction;
// the handler walks the stack. x86-64 only.
#include <cstdint>
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>

#include "fiber/context.h"
#include "support/test_fiber.h"

namespace weft::rt {
namespace {

#if defined(__x86_64__)

constexpr std::uint64_t kTrapFlag = 0x100;

// Written by the handler, read after stepping has ended.
struct {
  std::uintptr_t switch_start = 0;
  std::uintptr_t entry_start = 0;
  std::uintptr_t caller_start[2] = {};  // the functions that switch: one per side
  int inside_switch = 0;                // steps within weft_switch
  int inside_entry = 0;                 // … within weft_goroutine_entry
  int wrong = 0;                        // walks that did not find what they should
  std::uintptr_t first_wrong = 0;
} steps;

struct walk_state {
  std::uintptr_t interrupted;
  std::uintptr_t function_there = 0;
  std::uintptr_t caller = 0;
  bool seen = false;
};

_Unwind_Reason_Code look(_Unwind_Context* frame, void* arg) {
  auto* state = static_cast<walk_state*>(arg);
  if (_Unwind_GetIP(frame) == 0) return _URC_NO_REASON;  // past the outermost frame
  const auto function = static_cast<std::uintptr_t>(_Unwind_GetRegionStart(frame));
  if (state->seen) {
    state->caller = function;
    return _URC_NORMAL_STOP;
  }
  if (_Unwind_GetIP(frame) == state->interrupted) {
    state->seen = true;
    state->function_there = function;
  }
  return _URC_NO_REASON;
}

void on_step(int, siginfo_t*, void* raw) {
  const auto* ucontext = static_cast<const ucontext_t*>(raw);
  const auto pc = static_cast<std::uintptr_t>(ucontext->uc_mcontext.gregs[REG_RIP]);
  constexpr std::uintptr_t kSpan = 512;
  if (pc < steps.switch_start || pc >= steps.switch_start + kSpan) return;
  walk_state state{pc};
  _Unwind_Backtrace(look, &state);
  bool right = false;
  if (state.function_there == steps.entry_start) {
    ++steps.inside_entry;
    right = state.caller == 0;  // the outermost frame
  } else if (state.function_there == steps.switch_start) {
    ++steps.inside_switch;
    right = state.caller == steps.caller_start[0] || state.caller == steps.caller_start[1];
  } else {
    return;  // another function that lies close by
  }
  if (!right) {
    ++steps.wrong;
    if (steps.first_wrong == 0) steps.first_wrong = pc - steps.switch_start;
  }
}

[[gnu::noinline]] void* switch_in_main(context* save, const context* load) {
  void* answer = weft_switch(save, load, nullptr, test::fiber::entry);
  asm volatile("" : "+r"(answer));
  return answer;
}

[[gnu::noinline]] void* switch_in_fiber(context* save, const context* load) {
  void* answer = weft_switch(save, load, nullptr, test::fiber::entry);
  asm volatile("" : "+r"(answer)::"memory");
  return answer;
}

void set_single_step(bool on) {
  const std::uint64_t flags = __builtin_ia32_readeflags_u64();
  __builtin_ia32_writeeflags_u64(on ? flags | kTrapFlag : flags & ~kTrapFlag);
}

TEST(ContextStepTest, EveryInstructionOfASwitchCanBeUnwound) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "switches behind the tool's back";
  steps.switch_start = reinterpret_cast<std::uintptr_t>(&weft_switch);
  steps.entry_start = reinterpret_cast<std::uintptr_t>(&weft_goroutine_entry);
  steps.caller_start[0] = reinterpret_cast<std::uintptr_t>(&switch_in_main);
  steps.caller_start[1] = reinterpret_cast<std::uintptr_t>(&switch_in_fiber);

  test::fiber other([&](void*) {
    for (int i = 0; i < 3; ++i) {
      if (i == 2) __builtin_ia32_ldmxcsr(0x9f80);  // makes the next switches load control words
      switch_in_fiber(other.own(), other.resumer());
    }
  });
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_NO_REASON; }, nullptr);  // loads it

  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGTRAP, &action, &before), 0);
  set_single_step(true);
  for (int i = 0; i < 4; ++i) switch_in_main(other.resumer(), other.own());  // also its end
  set_single_step(false);
  sigaction(SIGTRAP, &before, nullptr);

  EXPECT_TRUE(other.finished());
  EXPECT_GE(steps.inside_switch, 7 * 20) << "the flag must reach both sides";
  EXPECT_GE(steps.inside_entry, 8 + 8) << "the beginning and the end";
  EXPECT_EQ(steps.wrong, 0) << "first at weft_switch+" << steps.first_wrong;
}

#endif

}  // namespace
}  // namespace weft::rt
