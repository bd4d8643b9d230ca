// What Valgrind must be told: which memory is a stack.
//
// Problem. Memcheck takes a large step of the stack pointer for a large frame, and then calls the memory in
// between dead, unless it knows that there are two stacks. It is told by a few instructions that do nothing
// outside of it, once for each stack that is mapped: so every library that was compiled where Valgrind's header
// is can be run under it, and none is slower for that. WEFT_VALGRIND=0 leaves them out.
//
// Stacks are never taken off its list. Standard ones are never unmapped; where one of another size was there
// will be another stack, or no stack pointer.
#pragma once

#include <cstddef>

#ifndef WEFT_VALGRIND
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#define WEFT_VALGRIND 1
#endif
#endif
#endif
#ifndef WEFT_VALGRIND
#define WEFT_VALGRIND 0
#endif

#if WEFT_VALGRIND
#include <valgrind/valgrind.h>
#endif

namespace weft::rt {

// Whether the library can tell it anything.
inline constexpr bool kKnowsValgrind = WEFT_VALGRIND != 0;

inline bool on_valgrind() noexcept {
#if WEFT_VALGRIND
  return RUNNING_ON_VALGRIND != 0;
#else
  return false;
#endif
}

inline void tell_valgrind_of_stack([[maybe_unused]] std::byte* lo,
                                   [[maybe_unused]] std::byte* hi) noexcept {
#if WEFT_VALGRIND
  static_cast<void>(VALGRIND_STACK_REGISTER(lo, hi - 1));
#endif
}

}  // namespace weft::rt
