// Sleeping and waking on a 32-bit word: the one way in which a thread of the runtime sleeps.
//
// futex_wait(word, expected) sleeps if *word == expected when the kernel looks, and that look and
// the queueing are one step with respect to futex_wake on the same word. So after
//     store a new value; futex_wake(word)
// a waiter either sees the new value (would_block) or is woken. The kernel promises nothing more:
// callers loop, since signals and stale wakes return early, and the word's own orders publish data.
//
// Words are process-private. errno is preserved: callers sit in the middle of a user's call.
// Blocks: M. Runs on: any thread, signal handlers included (a plain system call).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"
#include "base/tsan_signals.h"

#ifndef WEFT_MODEL
#include <cerrno>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

namespace weft::rt {

enum class futex_result : std::uint8_t {
  woken,        // by futex_wake, by a signal, or for no reason: look at the word again
  would_block,  // the word did not hold the expected value
  timed_out,
};

#ifdef WEFT_MODEL

// The explorer's futex; time passes only there, so a deadline may strike at any moment.
inline futex_result futex_wait(atomic<std::uint32_t>& word, std::uint32_t expected) {
  return static_cast<futex_result>(model::kernel_wait(word, expected, false));
}
inline futex_result futex_wait_until(atomic<std::uint32_t>& word, std::uint32_t expected,
                                     std::int64_t) {
  return static_cast<futex_result>(model::kernel_wait(word, expected, true));
}
inline futex_result futex_wait(atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t) {
  return static_cast<futex_result>(model::kernel_wait(word, expected, true));
}
inline int futex_wake(atomic<std::uint32_t>& word, int n) { return model::kernel_wake(word, n); }
inline std::int64_t futex_deadline(std::int64_t) { return 0; }

#else

namespace futex_detail {

// Keeps errno, which is the thread's.
WEFT_NO_TSAN inline long call(std::uint32_t* word, int op, std::uint32_t value,
                              const timespec* deadline) {
  const int saved = errno;
  const long rc = syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, deadline, nullptr,
                          FUTEX_BITSET_MATCH_ANY);
  const long result = rc < 0 ? -errno : rc;
  errno = saved;
  return result;
}

inline futex_result wait(atomic<std::uint32_t>& word, std::uint32_t expected,
                         const timespec* deadline) {
  static constexpr timespec kFarAway{1'000'000'000, 0};
  if (kDelaysSignals && deadline == nullptr) {
    deadline = &kFarAway;
  }
  switch (call(word.address(), FUTEX_WAIT_BITSET, expected, deadline)) {
    case -EAGAIN: return futex_result::would_block;
    case -ETIMEDOUT: return futex_result::timed_out;
    case -EINTR: run_delayed_handlers(); return futex_result::woken;
    case 0: return futex_result::woken;
    default: fatal("futex failed");  // denied or broken: waiting would become spinning
  }
}

}  // namespace futex_detail

// Now plus timeout_ns on CLOCK_MONOTONIC, the clock of futex_wait_until; does not overflow.
inline std::int64_t futex_deadline(std::int64_t timeout_ns) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t start = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  if (timeout_ns <= 0) return start;
  return timeout_ns > INT64_MAX - start ? INT64_MAX : start + timeout_ns;
}

inline futex_result futex_wait(atomic<std::uint32_t>& word, std::uint32_t expected) {
  return futex_detail::wait(word, expected, nullptr);
}

// Sleeps until an absolute deadline from futex_deadline(), so that early returns do not extend it.
inline futex_result futex_wait_until(atomic<std::uint32_t>& word, std::uint32_t expected,
                                     std::int64_t deadline_ns) {
  const timespec deadline{static_cast<time_t>(deadline_ns / 1'000'000'000),
                          static_cast<long>(deadline_ns % 1'000'000'000)};
  return futex_detail::wait(word, expected, &deadline);
}

inline futex_result futex_wait(atomic<std::uint32_t>& word, std::uint32_t expected,
                               std::int64_t timeout_ns) {
  return futex_wait_until(word, expected, futex_deadline(timeout_ns));
}

// Wakes up to n sleepers; returns how many.
inline int futex_wake(atomic<std::uint32_t>& word, int n) {
  const long rc =
      futex_detail::call(word.address(), FUTEX_WAKE, static_cast<std::uint32_t>(n), nullptr);
  return rc < 0 ? 0 : static_cast<int>(rc);
}

#endif  // WEFT_MODEL

}  // namespace weft::rt
