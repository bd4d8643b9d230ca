// errno from a goroutine's point of view.
//
// Not inlined: the compiler may keep the address of a thread-local, and so of errno, in a register
// within a function, while the goroutine moves to another thread. Not seen by TSan: what belongs to a
// thread is written by all goroutines on it, one after the other, and TSan takes them for as many
// threads. The guide on sanitizers says so to users.
#pragma once

#include <cerrno>

#if defined(__clang__)
#define WEFT_TEST_OF_THE_THREAD __attribute__((disable_sanitizer_instrumentation, noinline))
#elif defined(__SANITIZE_THREAD__)
#define WEFT_TEST_OF_THE_THREAD __attribute__((no_sanitize("thread"), noinline))
#else
#define WEFT_TEST_OF_THE_THREAD __attribute__((noinline))
#endif

namespace weft::test {

WEFT_TEST_OF_THE_THREAD inline int get_errno() {
  asm volatile("");
  return errno;
}
WEFT_TEST_OF_THE_THREAD inline void set_errno(int n) {
  asm volatile("");
  errno = n;
}

}  // namespace weft::test
