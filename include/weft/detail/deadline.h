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

// How long it is until Clock says t. The difference of two times, and either of them in units of the other, may be more
// than their types hold. This one holds every nanosecond of 64 bits, and what is more than that it rounds.
template <class Clock, class Duration>
std::chrono::duration<long double, std::nano> time_until(
    const std::chrono::time_point<Clock, Duration>& t) {
  using wide = std::chrono::duration<long double, std::nano>;
  return wide(t.time_since_epoch()) - wide(Clock::now().time_since_epoch());
}

// Does Clock say t, or later?
template <class Clock, class Duration>
bool has_come(const std::chrono::time_point<Clock, Duration>& t) {
  return !(time_until(t).count() > 0);
}

// Not before t: whoever loses its processor between the two clocks is late.
template <class Clock, class Duration>
std::int64_t deadline_at(const std::chrono::time_point<Clock, Duration>& t) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    return nanoseconds_of(t.time_since_epoch());
  } else {
    return deadline_after(time_until(t));
  }
}

// Not after t: it is early then, and has to look at its clock again.
template <class Clock, class Duration>
std::int64_t deadline_towards(const std::chrono::time_point<Clock, Duration>& t) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
    return deadline_at(t);
  } else {
    const std::int64_t now = steady_now();
    return deadline_after(now, nanoseconds_of(time_until(t)));
  }
}

// attempt(deadline) until it succeeds or Clock says t: a clock other than the steady one may be set back meanwhile. If it
// is set forward, that is seen when the attempt ends, which is no earlier for it.
template <class Clock, class Duration, class Attempt>
bool attempt_until(const std::chrono::time_point<Clock, Duration>& t, Attempt&& attempt) {
  for (;;) {
    if (attempt(deadline_towards(t))) {
      return true;
    }
    if (std::is_same_v<Clock, std::chrono::steady_clock> || has_come(t)) {
      return false;
    }
  }
}

}  // namespace weft::detail
