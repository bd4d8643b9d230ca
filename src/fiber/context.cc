// Builds the frame that the first weft_switch to a new context pops; see context.h. The layouts
// here are those drawn in switch_x86_64.S and switch_aarch64.S.
#include "fiber/context.h"

#include <cstddef>
#include <cstdint>

namespace weft::rt {
namespace {

#if defined(__x86_64__)

struct switch_frame {
  std::uint32_t mxcsr;
  std::uint16_t x87_control;
  std::uint16_t unused;
  void* r15;
  void* r14;
  void* r13;
  void* r12;
  context_entry rbx;
  void* rbp;
  void (*resume)() noexcept;
};
static_assert(sizeof(switch_frame) == 64);
static_assert(offsetof(switch_frame, x87_control) == 4);
static_assert(offsetof(switch_frame, rbx) == 40);
static_assert(offsetof(switch_frame, resume) == 56);

constexpr std::uint32_t kDefaultMxcsr = 0x1f80;       // all exceptions masked, round to nearest
constexpr std::uint16_t kDefaultX87Control = 0x037f;  // the same, 64-bit mantissa

constexpr std::uint32_t kMxcsrControl = 0xffc0;  // the low bits are sticky flags

// Compares before it loads, as the switch does.
void load_default_fp_control() noexcept {
  std::uint32_t mxcsr;
  std::uint16_t x87_control;
  asm volatile("stmxcsr %0" : "=m"(mxcsr));
  asm volatile("fnstcw %0" : "=m"(x87_control));
  if (((mxcsr ^ kDefaultMxcsr) & kMxcsrControl) != 0) [[unlikely]] {
    asm volatile("ldmxcsr %0" : : "m"(kDefaultMxcsr));
  }
  if (x87_control != kDefaultX87Control) [[unlikely]] {
    asm volatile("fldcw %0" : : "m"(kDefaultX87Control));
  }
}

void fill(switch_frame& frame, context_entry entry) noexcept {
  frame = {};
  frame.mxcsr = kDefaultMxcsr;
  frame.x87_control = kDefaultX87Control;
  frame.rbx = entry;
  frame.resume = &weft_goroutine_begin;
}

#elif defined(__aarch64__)

struct switch_frame {
  void* x29;
  void (*resume)() noexcept;  // x30
  context_entry x19;
  void* x20_to_x28[9];
  std::uint64_t d8_to_d15[8];
  std::uint64_t fpcr;
  std::uint64_t unused;
};
static_assert(sizeof(switch_frame) == 176);
static_assert(offsetof(switch_frame, x19) == 16);
static_assert(offsetof(switch_frame, d8_to_d15) == 96);
static_assert(offsetof(switch_frame, fpcr) == 160);

void load_default_fp_control() noexcept {
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  if (fpcr != 0) [[unlikely]] {
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
}

void fill(switch_frame& frame, context_entry entry) noexcept {
  frame = {};  // fpcr 0: no traps, round to nearest
  frame.x19 = entry;
  frame.resume = &weft_goroutine_begin;
}

#else
#error "weft runs on x86-64 and aarch64"
#endif

constexpr std::uintptr_t kStackAlignment = 16;  // both ABIs; sizeof(switch_frame) keeps it

}  // namespace

void make_context(context& made, void* stack_top, context_entry entry) noexcept {
  static_assert(sizeof(switch_frame) % kStackAlignment == 0);
  const auto top = reinterpret_cast<std::uintptr_t>(stack_top) & ~(kStackAlignment - 1);
  auto* frame = reinterpret_cast<switch_frame*>(top) - 1;
  fill(*frame, entry);
  made.sp = frame;
}

void default_fp_control() noexcept { load_default_fp_control(); }

}  // namespace weft::rt
