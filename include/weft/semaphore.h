// Counting what there is, in std's shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>

namespace weft {

namespace detail {

// Storage of rt::sema_core (src/sync/sema_core.h).
class semaphore {
 public:
  [[gnu::always_inline]] constexpr explicit semaphore(std::ptrdiff_t count) noexcept
      : made_by_(made(this)), state_(static_cast<std::uint64_t>(count) << 32) {}
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  WEFT_EXPORT bool try_acquire() noexcept;
  WEFT_EXPORT bool acquire_until(limit l);
  WEFT_EXPORT void release(std::ptrdiff_t n);

 private:
  [[maybe_unused]] const void* made_by_;
  [[maybe_unused]] std::uint64_t state_;
  [[maybe_unused]] void* first_ = nullptr;
  [[maybe_unused]] void* last_ = nullptr;
};

inline constexpr std::ptrdiff_t kSemaphoreMax = 0x7fffffff;

}  // namespace detail

/// std::counting_semaphore. Units that are released while somebody waits go to the longest waiters, in
/// order. It may be destroyed as soon as the acquire() that gets the last unit has returned.
template <std::ptrdiff_t LeastMaxValue = detail::kSemaphoreMax>
class counting_semaphore {
  static_assert(LeastMaxValue >= 0 && LeastMaxValue <= detail::kSemaphoreMax);

 public:
  static constexpr std::ptrdiff_t max() noexcept { return LeastMaxValue; }

  [[gnu::always_inline]] constexpr explicit counting_semaphore(std::ptrdiff_t desired) noexcept
      : semaphore_(desired) {}
  counting_semaphore(const counting_semaphore&) = delete;
  counting_semaphore& operator=(const counting_semaphore&) = delete;

  void release(std::ptrdiff_t update = 1) { semaphore_.release(update); }
  void acquire() { semaphore_.acquire_until(detail::kNoDeadline); }
  /// Unless ctx is cancelled first; false then.
  [[nodiscard]] bool acquire(const context& ctx) { return semaphore_.acquire_until(ctx); }
  bool try_acquire() noexcept { return semaphore_.try_acquire(); }
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& d) {
    return semaphore_.acquire_until(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(
        t, [this](std::int64_t deadline) { return semaphore_.acquire_until(deadline); });
  }

 private:
  detail::semaphore semaphore_;
};

/// std::binary_semaphore.
using binary_semaphore = counting_semaphore<1>;

}  // namespace weft
