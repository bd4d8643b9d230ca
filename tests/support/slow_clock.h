// A clock that is being set back all the time.
#pragma once

#include <chrono>

namespace weft::test {

// Half as fast as the steady one: limits by it come at the time that it says, however long that takes.
struct slow_clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<slow_clock>;
  [[maybe_unused]] static constexpr bool is_steady = false;
  static time_point now() {
    return time_point(std::chrono::steady_clock::now().time_since_epoch() / 2);
  }
};

}  // namespace weft::test
