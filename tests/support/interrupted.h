// Calls that may say EINTR after all, where docs/guide/preemption.md allows it.
#pragma once

#include <cerrno>

#include "support/patience.h"
#include "support/thread_state.h"

namespace weft::test {

// After a call that has failed.
inline bool may_be_interrupted() {
#ifdef __aarch64__
  constexpr bool begun_again = false;
#else
  constexpr bool begun_again = true;
#endif
  return (WEFT_TEST_TSAN || !begun_again || emulated()) && get_errno() == EINTR;
}

// The result of call(), made again where it may have been interrupted.
template <class F>
auto uninterrupted(F call) {
  auto result = call();
  while (result < 0 && may_be_interrupted()) result = call();
  return result;
}

}  // namespace weft::test
