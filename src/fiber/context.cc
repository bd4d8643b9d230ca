// The default floating-point environment, for those who begin without a switch; see context.h. The
// switch has the same values (switch_x86_64.S, switch_aarch64.S).
#include "fiber/context.h"

#include <cstdint>

namespace weft::rt {

// Compares before it loads, as the switch does.
void default_fp_control() noexcept {
#if defined(__x86_64__)
  constexpr std::uint32_t kDefaultMxcsr = 0x1f80;       // all exceptions masked, round to nearest
  constexpr std::uint32_t kMxcsrControl = 0xffc0;       // the low bits are sticky flags
  constexpr std::uint16_t kDefaultX87Control = 0x037f;  // as mxcsr, 64-bit mantissa
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
#elif defined(__aarch64__)
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  if (fpcr != 0) [[unlikely]] {
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
#else
#error "weft runs on x86-64 and aarch64"
#endif
}

}  // namespace weft::rt
