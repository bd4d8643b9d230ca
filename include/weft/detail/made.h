// Where the objects that goroutines wait for are made, for reports.
//
// A constructor keeps, in the first word of its object, the address of the very instruction that finds it out. As
// constructors are inlined, that is in the user's function, or in what is inlined into it, and reports find file and
// line by it: one more instruction, and one store. What is initialised before the program runs is static, and has a
// name instead. Without optimisation std::make_unique() and the like have frames of their own, so that the caller
// is looked for. Rejected: std::source_location, which is that of std::make_unique() then, optimised or not.
#pragma once

#include <type_traits>

#include <weft/detail/export.h>

namespace weft::detail {

// The nearest caller that is neither weft's nor std's.
WEFT_EXPORT const void* find_maker() noexcept;

// Whether the compiler runs this itself. Of `static weft::mutex m;` g++ does so only if nobody asks whether it does
// (std::is_constant_evaluated() makes it a constructor that runs later, perhaps after the first lock); so we ask
// whether a value is known to it, in a way that the optimiser does not see through. Variables of functions,
// which it initialises likewise, have no maker then: reports name the frame they lie in.
[[gnu::always_inline]] constexpr bool is_evaluated() noexcept {
#if defined(__clang__)
  return std::is_constant_evaluated();
#else
  int known = 0;
  return __builtin_constant_p(*__builtin_launder(&known));
#endif
}

// For constructors, which are inlined by force: what a call from here would return to. Of the object nothing is used
// but that its address is unknown when the program is compiled: without an argument this would be a constant.
[[gnu::always_inline]] constexpr const void* made(const volatile void* /*object*/) noexcept {
  if (is_evaluated()) {
    return nullptr;
  }
  // Volatile, or two objects of one function would be made at one place.
#if !defined(__OPTIMIZE__)
  return find_maker();
#elif defined(__x86_64__)
  const void* here;
  asm volatile("{leaq 0(%%rip), %0|lea %0, [rip]}" : "=r"(here));
  return here;
#elif defined(__aarch64__)
  const void* here;
  asm volatile("adr %0, .+4" : "=r"(here));
  return here;
#else
  return find_maker();
#endif
}

}  // namespace weft::detail
