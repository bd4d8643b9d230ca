// Mutual exclusion between goroutines and plain threads, in std's shape.
#pragma once

#include <cstdint>
#include <mutex>  // lock_guard, unique_lock, scoped_lock … are std's own

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>
#include <weft/detail/owner.h>

namespace weft {

class mutex;

namespace detail {
extern WEFT_EXPORT bool
    lock_checks;  // WEFTDEBUG=lockcheck=1; constant once the runtime has started
WEFT_EXPORT bool lock_until(mutex& m, limit l);
WEFT_EXPORT std::uint64_t this_thread_id() noexcept;
[[noreturn]] WEFT_EXPORT void throw_too_recursive();
[[noreturn]] WEFT_EXPORT void not_the_owner(bool locked);
}  // namespace detail

using std::adopt_lock;
using std::adopt_lock_t;
using std::defer_lock;
using std::defer_lock_t;
using std::lock;
using std::lock_guard;
using std::scoped_lock;
using std::swap;  // of unique_lock and shared_lock
using std::try_lock;
using std::try_to_lock;
using std::try_to_lock_t;
using std::unique_lock;

/// std::mutex whose waiters park instead of blocking their thread, with Go's two modes: normally
/// whoever is running gets it, and a waiter that has lost for more than a millisecond gets it by hand.
///
/// It is not tied to a goroutine: one may lock it and another unlock it. It is not recursive. Unlocking
/// what is not locked is a fatal error ("sync: unlock of unlocked mutex"). It may be destroyed as soon
/// as the last owner's unlock() has made it free, even if that call has not returned yet.
class mutex {
 public:
  using native_handle_type = void*;

  [[gnu::always_inline]] constexpr mutex() noexcept : made_by_(detail::made(this)) {}
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() {
    std::uint32_t none = 0;
    // order: MX1 acquire, as mutex_core::lock_fast(); pairs with every unlock
    if (detail::lock_checks ||
        !__atomic_compare_exchange_n(&state_, &none, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        [[unlikely]] {
      lock_slow();
    }
    note_owner();
  }

  /// Unless ctx is cancelled first; false then.
  [[nodiscard]] bool lock(const context& ctx) { return detail::lock_until(*this, ctx); }

  bool try_lock() noexcept {
    std::uint32_t none = 0;
    // order: MX1 acquire, as above; relaxed: a failure orders nothing
    const bool locked =
        (!detail::lock_checks && __atomic_compare_exchange_n(&state_, &none, 1u, false,
                                                             __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) ||
        try_lock_slow();
    if (locked) {
      note_owner();
    }
    return locked;
  }

  void unlock() {
    std::uint32_t alone = 1;
    // order: MX1 release, as mutex_core::unlock_fast(); pairs with the next lock
    if (detail::lock_checks ||
        !__atomic_compare_exchange_n(&state_, &alone, 0u, false, WEFT_HEADER_RELEASE(MX1),
                                     __ATOMIC_RELAXED)) [[unlikely]] {
      unlock_slow();
    }
  }

  /// There is nothing underneath that other libraries know: its address.
  native_handle_type native_handle() noexcept { return this; }

 private:
  void note_owner() noexcept {
    // order: relaxed, a note for reports, by whoever has locked it
    __atomic_store_n(&owner_, detail::this_owner(), __ATOMIC_RELAXED);
  }

  WEFT_EXPORT void lock_slow();
  WEFT_EXPORT void unlock_slow();
  WEFT_EXPORT bool try_lock_slow();

  // Storage of rt::mutex_core (src/sync/mutex_core.h), which starts as zeros but for who made it.
  [[maybe_unused]] const void* made_by_;
  std::uint32_t state_ = 0;
  std::uint32_t owner_ = 0;
  [[maybe_unused]] void* first_ = nullptr;
  [[maybe_unused]] void* last_ = nullptr;
};

/// std::timed_mutex: a mutex with try_lock_for() and try_lock_until().
class timed_mutex : private mutex {
 public:
  [[gnu::always_inline]] constexpr timed_mutex() noexcept = default;

  using mutex::lock;
  using mutex::native_handle;
  using mutex::native_handle_type;
  using mutex::try_lock;
  using mutex::unlock;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return detail::lock_until(*this, detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(
        t, [this](std::int64_t deadline) { return detail::lock_until(*this, deadline); });
  }
};

namespace detail {

// Who holds it, and how many times over. An owner is a goroutine, or a plain thread.
template <class Mutex>
class recursive {
 public:
  using native_handle_type = void*;

  [[gnu::always_inline]] constexpr recursive() noexcept = default;

  void lock() {
    const std::uint64_t me = this_thread_id();
    if (!again(me)) {
      mutex_.lock();
      begin(me);
    }
  }
  [[nodiscard]] bool lock(const context& ctx) {
    return lock_by([&ctx](Mutex& m) { return m.lock(ctx); });
  }
  // False also where lock() would throw: it is locked too many times over.
  bool try_lock() noexcept {
    const std::uint64_t me = this_thread_id();
    if (is_mine(me)) {
      return deeper();
    }
    if (!mutex_.try_lock()) {
      return false;
    }
    begin(me);
    return true;
  }
  void unlock() {
    // order: relaxed, as is_mine(); to whom it does not belong, it does not matter whose it is
    const std::uint64_t owner = __atomic_load_n(&owner_, __ATOMIC_RELAXED);
    if (owner != this_thread_id()) [[unlikely]] {
      not_the_owner(owner != 0);
    }
    if (--depth_ == 0) {
      // order: relaxed, nobody else finds his own id here
      __atomic_store_n(&owner_, 0, __ATOMIC_RELAXED);
      mutex_.unlock();
    }
  }
  native_handle_type native_handle() noexcept { return this; }

 protected:
  template <class Attempt>
  bool lock_by(Attempt&& attempt) {
    const std::uint64_t me = this_thread_id();
    if (again(me)) {
      return true;
    }
    if (!attempt(mutex_)) {
      return false;
    }
    begin(me);
    return true;
  }

 private:
  bool is_mine(std::uint64_t me) const noexcept {
    // order: relaxed, only the owner finds his own id here
    return __atomic_load_n(&owner_, __ATOMIC_RELAXED) == me;
  }
  bool deeper() noexcept {
    if (depth_ == UINT32_MAX) {
      return false;
    }
    ++depth_;
    return true;
  }
  bool again(std::uint64_t me) {
    if (!is_mine(me)) {
      return false;
    }
    if (!deeper()) {
      throw_too_recursive();
    }
    return true;
  }
  void begin(std::uint64_t me) {
    __atomic_store_n(&owner_, me, __ATOMIC_RELAXED);  // order: relaxed, as above
    depth_ = 1;
  }

  Mutex mutex_;
  std::uint64_t owner_ = 0;
  std::uint32_t depth_ = 0;  // guarded by mutex_
};

}  // namespace detail

/// std::recursive_mutex: its owner, a goroutine or a plain thread, may lock it again. If anybody else unlocks
/// it, that is a fatal error.
class recursive_mutex : public detail::recursive<mutex> {
 public:
  [[gnu::always_inline]] constexpr recursive_mutex() noexcept = default;
  recursive_mutex(const recursive_mutex&) = delete;
  recursive_mutex& operator=(const recursive_mutex&) = delete;
};

/// std::recursive_timed_mutex.
class recursive_timed_mutex : public detail::recursive<timed_mutex> {
 public:
  [[gnu::always_inline]] recursive_timed_mutex() noexcept = default;
  recursive_timed_mutex(const recursive_timed_mutex&) = delete;
  recursive_timed_mutex& operator=(const recursive_timed_mutex&) = delete;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& d) {
    return lock_by([&](timed_mutex& m) { return m.try_lock_for(d); });
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& t) {
    return lock_by([&](timed_mutex& m) { return m.try_lock_until(t); });
  }
};

}  // namespace weft
