// Walking a stack, any stack: one's own, or that of a goroutine parked anywhere.
//
// Problem. libgcc's unwinder starts at its caller only. Dumps need the stacks of goroutines that do
// not run, of which there is nothing but a stack pointer; and a walk must survive a stack that is
// being overwritten, or garbage. So this is an interpreter of its own for call frame information
// (DWARF 5, section 6.4; the same tables that exceptions use and that g++ and clang++ always emit).
//
// Protocol: a `frame` holds the registers that are known in one activation; step() replaces them by
// those of its caller. The tables are trusted, they belong to loaded files; the stack is not: every
// read is checked to be readable memory, and every step must move up the stack.
//
// Invariant F1: a walk ends. Frames on one stack have growing addresses, and the number of steps is
// bounded by the caller. Otherwise a corrupt stack hangs the crash report.
// Rejected: frame pointers (not there in optimised code), libunwind (a dependency), switching to
// the parked goroutine to let it print itself (it may hold locks, and must not run).
#pragma once

#include <cstdint>

#include "fiber/context.h"

namespace weft::rt {

#if defined(__x86_64__)
inline constexpr int kFrameRegisters = 17;  // DWARF numbers: rsp 7, return address 16
inline constexpr int kStackRegister = 7;
inline constexpr int kReturnRegister = 16;
inline constexpr int kPcRegister = 16;  // expressions may name it
#elif defined(__aarch64__)
inline constexpr int kFrameRegisters = 32;  // x0 … x30, sp 31
inline constexpr int kStackRegister = 31;
inline constexpr int kReturnRegister = 30;
inline constexpr int kPcRegister = -1;
#endif

// One activation of a function.
struct frame {
  std::uintptr_t registers[kFrameRegisters] = {};
  std::uint64_t known = 0;  // bit n: registers[n] is the activation's own value
  std::uintptr_t pc = 0;
  bool exact = false;  // pc is the next instruction to run, not a return address

  bool has(int n) const { return (known >> n & 1) != 0; }
  void set(int n, std::uintptr_t value) {
    registers[n] = value;
    known |= std::uint64_t{1} << n;
  }
  std::uintptr_t sp() const { return registers[kStackRegister]; }
  // An address inside the call instruction that this activation is in.
  std::uintptr_t call_site() const { return exact ? pc : pc - 1; }
};

enum class frame_step : std::uint8_t {
  ok,
  end,    // that was the outermost frame
  stuck,  // no table covers the address, or the stack makes no sense
};

// Replaces an activation by its caller's. Runs on: any, signal handlers included.
[[nodiscard]] frame_step step(frame& f) noexcept;

// Where a suspended context will go on.
frame frame_of(const context& suspended) noexcept;

// The activation of the function that calls this. Inlined, so that it is that function's own.
[[gnu::always_inline]] inline frame this_frame() noexcept {
  frame f;
#if defined(__x86_64__)
  asm volatile(
      "movq %%rbx, 24(%0)\n\t"
      "movq %%rbp, 48(%0)\n\t"
      "movq %%rsp, 56(%0)\n\t"
      "movq %%r12, 96(%0)\n\t"
      "movq %%r13, 104(%0)\n\t"
      "movq %%r14, 112(%0)\n\t"
      "movq %%r15, 120(%0)\n\t"
      "leaq 0f(%%rip), %%rax\n"
      "0:\tmovq %%rax, %1"
      :
      : "r"(f.registers), "m"(f.pc)
      : "rax", "memory");
  f.known = 0b1111'0000'1100'1000;
#elif defined(__aarch64__)
  asm volatile(
      "stp x19, x20, [%0, #152]\n\t"
      "stp x21, x22, [%0, #168]\n\t"
      "stp x23, x24, [%0, #184]\n\t"
      "stp x25, x26, [%0, #200]\n\t"
      "stp x27, x28, [%0, #216]\n\t"
      "stp x29, x30, [%0, #232]\n\t"
      "mov x9, sp\n\t"
      "str x9, [%0, #248]\n\t"
      "adr x9, 0f\n"
      "0:\tstr x9, %1"
      :
      : "r"(f.registers), "m"(f.pc)
      : "x9", "memory");
  f.known = 0xfff80000;
#endif
  f.exact = true;
  return f;
}

}  // namespace weft::rt
