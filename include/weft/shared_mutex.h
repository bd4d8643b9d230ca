// Many readers or one writer, in std's shape.
#pragma once

#include <cstdint>
#include <shared_mutex>  // shared_lock is std's own

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>
#include <weft/mutex.h>

namespace weft {

using std::shared_lock;

/// std::shared_mutex with Go's preference: a writer that waits keeps new readers out, and when it
/// leaves, all readers that have come meanwhile go before the next writer. So a reader must not lock
/// it again: it would wait for the writer that waits for it.
///
/// Unlocking what is not locked is a fatal error, with Go's text. It may be destroyed as soon as the
/// last one has made it free.
class shared_mutex {
 public:
  using native_handle_type = void*;

  [[gnu::always_inline]] constexpr shared_mutex() noexcept : made_by_(detail::made(this)) {}
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  void lock() { lock_until(detail::kNoDeadline); }
  /// Unless ctx is cancelled first; false then.
  [[nodiscard]] bool lock(const context& ctx) { return lock_until(ctx); }
  WEFT_EXPORT bool try_lock();
  WEFT_EXPORT void unlock();

  void lock_shared() { lock_shared_until(detail::kNoDeadline); }
  [[nodiscard]] bool lock_shared(const context& ctx) { return lock_shared_until(ctx); }
  WEFT_EXPORT bool try_lock_shared();
  WEFT_EXPORT void unlock_shared();

  native_handle_type native_handle() noexcept { return this; }

 protected:
  WEFT_EXPORT bool lock_until(detail::limit l);
  WEFT_EXPORT bool lock_shared_until(detail::limit l);

 private:
  // Storage of rt::shared_mutex_core (src/sync/shared_mutex_core.h), which starts as zeros but for who
  // made it.
  [[maybe_unused]] const void* made_by_;
  [[maybe_unused]] std::uint32_t state_ = 0;
  [[maybe_unused]] std::uint32_t readers_waiting_ = 0;
  [[maybe_unused]] void* lists_[4] = {};
  [[maybe_unused]] std::uint32_t writer_ = 0;
};

/// std::shared_timed_mutex.
class shared_timed_mutex : public shared_mutex {
 public:
  [[gnu::always_inline]] constexpr shared_timed_mutex() noexcept = default;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return lock_until(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(t, [this](std::int64_t d) { return lock_until(d); });
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& d) {
    return lock_shared_until(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(t, [this](std::int64_t d) { return lock_shared_until(d); });
  }
};

}  // namespace weft
