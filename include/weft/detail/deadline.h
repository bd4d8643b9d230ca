// Limits of waits: durations and time points as nanoseconds of the steady clock, without overflow; or a
// context.
#pragma once

#include <cstdint>
#include <type_traits>
#if __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // libstdc++: a fifth of <chrono>
#else
#include <chrono>
#endif

namespace weft {
class context;
}

namespace weft::detail {

inline constexpr std::int64_t kNoDeadline = INT64_MAX;

// How long somebody waits: until a deadline, or until a context is cancelled.
struct limit {
  constexpr limit(std::int64_t ns) noexcept : deadline(ns) {}      // NOLINT: implicit
  constexpr limit(const context& until) noexcept : ctx(&until) {}  // NOLINT: implicit

  std::int64_t deadline = kNoDeadline;
  const context* ctx = nullptr;  // null: cannot be cancelled
};

// Rounded up; from 0 to kNoDeadline.
template <class Rep, class Period>
constexpr std::int64_t nanoseconds_of(const std::chrono::duration<Rep, Period>& d) {
  const long double approximate = std::chrono::duration<long double, std::nano>(d).count();
  if (!(approximate > 0)) {
    return 0;
  }
  if (approximate >= static_cast<long double>(kNoDeadline)) {
    return kNoDeadline;
  }
  return std::chrono::ceil<std::chrono::nanoseconds>(d).count();
}

template <class Rep, class Period>
std::int64_t deadline_after(const std::chrono::duration<Rep, Period>& d) {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::int64_t ns = nanoseconds_of(d);
  return ns > kNoDeadline - now ? kNoDeadline : now + ns;
}

template <class Clock, class Duration>
std::int64_t deadline_at(const std::chrono::time_point<Clock, Duration>& t) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    return nanoseconds_of(t.time_since_epoch());
  } else {
    return deadline_after(t - Clock::now());
  }
}

// attempt(deadline) until it succeeds or Clock says t: a clock other than the steady one may be set.
template <class Clock, class Duration, class Attempt>
bool attempt_until(const std::chrono::time_point<Clock, Duration>& t, Attempt&& attempt) {
  for (;;) {
    if (attempt(deadline_at(t))) {
      return true;
    }
    if (std::is_same_v<Clock, std::chrono::steady_clock> || Clock::now() >= t) {
      return false;
    }
  }
}

}  // namespace weft::detail
