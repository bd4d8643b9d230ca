// Waiting until a number of things have happened, once, in std's shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>

namespace weft {

/// std::latch. It may be destroyed as soon as the last wait() has returned. Counting below zero is a fatal error.
///
/// When not to use it: if the number is not known beforehand, or for more than one round, use
/// wait_group; if everybody waits for everybody, again and again, use barrier.
class latch {
 public:
  static constexpr std::ptrdiff_t max() noexcept { return 0x7fffffff; }

  [[gnu::always_inline]] constexpr explicit latch(std::ptrdiff_t expected) noexcept
      : made_by_(detail::made(this)), state_(static_cast<std::uint64_t>(expected) << 32) {}
  latch(const latch&) = delete;
  latch& operator=(const latch&) = delete;

  WEFT_EXPORT void count_down(std::ptrdiff_t n = 1);
  WEFT_EXPORT bool try_wait() const noexcept;
  WEFT_EXPORT void wait() const;
  /// With a limit; false if that came first. One who has counted down has done so, whatever comes of it.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& d) const {
    return wait_within(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& t) const {
    return detail::attempt_until(t,
                                 [this](std::int64_t deadline) { return wait_within(deadline); });
  }
  bool wait(const context& ctx) const { return wait_within(ctx); }
  void arrive_and_wait(std::ptrdiff_t n = 1) {
    count_down(n);
    wait();
  }

 private:
  WEFT_EXPORT bool wait_within(detail::limit l) const;

  // Storage of rt::wait_group_core (src/sync/wait_group_core.h).
  [[maybe_unused]] const void* made_by_;
  [[maybe_unused]] std::uint64_t state_;
  [[maybe_unused]] void* lists_[3] = {};
};

}  // namespace weft
