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
  if constexpr (std::is_floating_point_v<Rep>) {
    // Their own multiplication would round, maybe beyond what fits.
    const auto whole = static_cast<std::int64_t>(approximate);
    return whole + (static_cast<long double>(whole) < approximate ? 1 : 0);
  }
  return std::chrono::ceil<std::chrono::nanoseconds>(d).count();
}

inline std::int64_t steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
constexpr std::int64_t deadline_after(std::int64_t now, std::int64_t ns) {
  return ns > kNoDeadline - now ? kNoDeadline : now + ns;
}
template <class Rep, class Period>
std::int64_t deadline_after(const std::chrono::duration<Rep, Period>& d) {
  return deadline_after(steady_now(), nanoseconds_of(d));
}

// How long it is until Clock says t, or 0. The difference of two times, or one of them in the other's unit, may be more
// than their types hold. This one holds every nanosecond of 64 bits, and rounds what is farther away.
template <class Clock, class Duration>
std::int64_t nanoseconds_until(const std::chrono::time_point<Clock, Duration>& t) {
  using wide = std::chrono::duration<long double, std::nano>;
  return nanoseconds_of(wide(t.time_since_epoch()) - wide(Clock::now().time_since_epoch()));
}

// Who loses its processor between the two clocks is late; or early, if it looks at its own clock again afterwards.
template <class Clock, class Duration>
std::int64_t deadline_at(const std::chrono::time_point<Clock, Duration>& t, bool again = false) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    return nanoseconds_of(t.time_since_epoch());
  } else {
    const std::int64_t before = steady_now(), ns = nanoseconds_until(t);
    return deadline_after(again ? before : steady_now(), ns);
  }
}

// attempt(deadline) until it succeeds or Clock says t: a clock other than the steady one may be set back meanwhile. That
// it is set forward is seen when the attempt ends, which is no earlier for it.
template <class Clock, class Duration, class Attempt>
bool attempt_until(const std::chrono::time_point<Clock, Duration>& t, Attempt&& attempt) {
  for (;;) {
    if (attempt(deadline_at(t, /*again=*/true))) {
      return true;
    }
    if (std::is_same_v<Clock, std::chrono::steady_clock> || nanoseconds_until(t) == 0) {
      return false;
    }
  }
}

}  // namespace weft::detail
