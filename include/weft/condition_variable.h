// Waiting for a condition that others make true under a mutex, in std's shape.
#pragma once

#include <condition_variable>  // cv_status is std's own
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>
#include <weft/mutex.h>

namespace weft {

using std::cv_status;

namespace detail {

// Storage of rt::cond_core (src/sync/cond_core.h), which starts as zeros but for who made it, and what is done with it.
class cond {
 public:
  [[gnu::always_inline]] constexpr cond() noexcept : made_by_(made(this)) {}
  cond(const cond&) = delete;
  cond& operator=(const cond&) = delete;
  ~cond() {
    // order: CV1 acquire, as cond_core::quiet(); pairs with the last step of whoever waited here
    if (__atomic_load_n(&state_, __ATOMIC_ACQUIRE) != 0) [[unlikely]] {
      drain();
    }
  }

  WEFT_EXPORT void notify_one() noexcept;
  WEFT_EXPORT void notify_all() noexcept;

 protected:
  // What somebody waits with who brings a lock of his own.
  struct foreign_lock {
    void* lock;
    void (*unlock)(void* lock);
    bool (*cancelled)(const void* token);  // null: cannot be
    const void* token;
  };

  // The mutex is locked before and after. False: not notified before the limit.
  WEFT_EXPORT void wait(mutex& m);
  WEFT_EXPORT bool wait_until(mutex& m, limit until);
  // The lock is locked before, and not afterwards. False: neither notified nor cancelled in time.
  WEFT_EXPORT bool wait_any(const foreign_lock& l, limit until);
  // As notify_all(), from one who has not held the lock.
  WEFT_EXPORT void notify_surely() noexcept;
  // ThreadSanitizer looks away in between.
  WEFT_EXPORT static void quiet_begin() noexcept;
  WEFT_EXPORT static void quiet_end() noexcept;

 private:
  WEFT_EXPORT void drain() noexcept;

  [[maybe_unused]] const void* made_by_;
  std::uint64_t state_ = 0;
  [[maybe_unused]] void* first_ = nullptr;
  [[maybe_unused]] void* last_ = nullptr;
};

// wait_for and wait_until, with and without a predicate, over one wait with a deadline.
template <class Cond, class Lock>
class timed_waits {
 public:
  template <class Clock, class Duration>
  cv_status wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& t) {
    const bool notified = self().wait_before(lock, deadline_at(t));
    return notified || nanoseconds_until(t) != 0 ? cv_status::no_timeout : cv_status::timeout;
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& t,
                  Predicate stop_waiting) {
    while (!stop_waiting()) {
      if (wait_until(lock, t) == cv_status::timeout) {
        return stop_waiting();
      }
    }
    return true;
  }
  template <class Rep, class Period>
  cv_status wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d) {
    return self().wait_before(lock, deadline_after(d)) ? cv_status::no_timeout : cv_status::timeout;
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d, Predicate stop_waiting) {
    const std::int64_t deadline = deadline_after(d);
    while (!stop_waiting()) {
      if (!self().wait_before(lock, deadline)) {
        return stop_waiting();
      }
    }
    return true;
  }

 private:
  Cond& self() { return static_cast<Cond&>(*this); }
};

}  // namespace detail

/// std::condition_variable for weft::mutex. Waiters are served in the order in which they came, and wake
/// only when notified. notify_all() does not wake a thousand waiters to collide on the mutex: they
/// move to its queue, and each wakes as the one before unlocks.
///
/// It may be destroyed once everybody has been notified, even if they have not returned yet, and also by
/// somebody who holds their mutex.
class condition_variable
    : private detail::cond,
      private detail::timed_waits<condition_variable, std::unique_lock<mutex>> {
 public:
  using native_handle_type = void*;

  [[gnu::always_inline]] condition_variable() noexcept = default;

  // Members of this class, as std's: somebody may take their addresses.
  void notify_one() noexcept { cond::notify_one(); }
  void notify_all() noexcept { cond::notify_all(); }

  void wait(unique_lock<mutex>& lock) { cond::wait(*lock.mutex()); }
  template <class Predicate>
  void wait(unique_lock<mutex>& lock, Predicate stop_waiting) {
    while (!stop_waiting()) {
      wait(lock);
    }
  }
  /// Ends also when ctx is cancelled: false, if that came first; with a predicate, what that says then.
  /// The mutex is locked again in any case.
  bool wait(unique_lock<mutex>& lock, const context& ctx) { return wait_before(lock, ctx); }
  template <class Predicate>
  bool wait(unique_lock<mutex>& lock, const context& ctx, Predicate stop_waiting) {
    while (!stop_waiting()) {
      if (!wait(lock, ctx)) {
        return stop_waiting();
      }
    }
    return true;
  }
  using timed_waits::wait_for;
  using timed_waits::wait_until;

  native_handle_type native_handle() { return this; }

 private:
  friend timed_waits;
  bool wait_before(unique_lock<mutex>& lock, detail::limit until) {
    return cond::wait_until(*lock.mutex(), until);
  }
};

/// std::condition_variable_any: the same for any lock that has lock() and unlock().
class condition_variable_any : private detail::cond {
 public:
  [[gnu::always_inline]] condition_variable_any() noexcept = default;

  // Members of this class, as std's: somebody may take their addresses.
  void notify_one() noexcept { cond::notify_one(); }
  void notify_all() noexcept { cond::notify_all(); }

  template <class Lock>
  void wait(Lock& lock) {
    wait_before(lock, detail::kNoDeadline);
  }
  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate stop_waiting) {
    while (!stop_waiting()) {
      wait(lock);
    }
  }
  /// Ends also when ctx is cancelled: false, if that came first; with a predicate, what that says then.
  template <class Lock>
  bool wait(Lock& lock, const context& ctx) {
    return wait_before(lock, ctx);
  }
  template <class Lock, class Predicate>
  bool wait(Lock& lock, const context& ctx, Predicate stop_waiting) {
    while (!stop_waiting()) {
      if (!wait(lock, ctx)) {
        return stop_waiting();
      }
    }
    return true;
  }
  /// Ends also when a stop is requested; returns what the predicate says then.
  template <class Lock, class Predicate>
  bool wait(Lock& lock, std::stop_token token, Predicate stop_waiting) {
    return wait_or_stop(lock, token, stop_waiting, [&] {
      wait_before(lock, detail::kNoDeadline, &token);
      return true;
    });
  }

  template <class Lock, class Clock, class Duration>
  cv_status wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& t) {
    return timed<Lock>{*this}.wait_until(lock, t);
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& t,
                  Predicate stop_waiting) {
    return timed<Lock>{*this}.wait_until(lock, t, std::move(stop_waiting));
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, std::stop_token token,
                  const std::chrono::time_point<Clock, Duration>& t, Predicate stop_waiting) {
    return wait_or_stop(lock, token, stop_waiting, [&] {
      return wait_before(lock, detail::deadline_at(t), &token) || detail::nanoseconds_until(t) != 0;
    });
  }
  template <class Lock, class Rep, class Period>
  cv_status wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d) {
    return timed<Lock>{*this}.wait_for(lock, d);
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& d, Predicate stop_waiting) {
    return timed<Lock>{*this}.wait_for(lock, d, std::move(stop_waiting));
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, std::stop_token token, const std::chrono::duration<Rep, Period>& d,
                Predicate stop_waiting) {
    const std::int64_t deadline = detail::deadline_after(d);
    return wait_or_stop(lock, token, stop_waiting,
                        [&] { return wait_before(lock, deadline, &token); });
  }

 private:
  struct notifier {
    condition_variable_any& self;
    void operator()() const noexcept { self.notify_surely(); }
  };
  // The C++ library knows by the thread whether a callback is destroyed by itself, and then reads
  // what the requester wrote: in goroutines that share a thread, one after the other, but TSan does
  // not see why.
  class stop_guard {
   public:
    stop_guard(const std::stop_token& token, condition_variable_any& self)
        : callback_(std::in_place, token, notifier{self}) {}
    ~stop_guard() {
      quiet_begin();
      callback_.reset();
      quiet_end();
    }

   private:
    std::optional<std::stop_callback<notifier>> callback_;
  };

  template <class Lock>
  struct timed : detail::timed_waits<timed<Lock>, Lock> {
    explicit timed(condition_variable_any& c) : self(c) {}
    bool wait_before(Lock& lock, std::int64_t deadline) { return self.wait_before(lock, deadline); }
    condition_variable_any& self;
  };

  template <class Lock>
  bool wait_before(Lock& lock, detail::limit until, const std::stop_token* token = nullptr) {
    struct relock {
      Lock& lock;
      bool unlocked = false;
      ~relock() {
        if (unlocked) lock.lock();  // as in std: std::terminate if that throws
      }
    } again{lock};
    const auto unlock = [](void* p) {
      static_cast<relock*>(p)->lock.unlock();
      static_cast<relock*>(p)->unlocked = true;
    };
    foreign_lock l{&again, unlock, nullptr, token};
    if (token != nullptr) {
      l.cancelled = [](const void* p) {
        return static_cast<const std::stop_token*>(p)->stop_requested();
      };
    }
    return wait_any(l, until);
  }

  template <class Lock, class Predicate, class Wait>
  bool wait_or_stop(Lock&, const std::stop_token& token, Predicate& stop_waiting, Wait&& wait) {
    if (token.stop_requested()) {
      return stop_waiting();
    }
    const stop_guard at_stop(token, *this);
    while (!stop_waiting()) {
      if (token.stop_requested() || !wait()) {
        return stop_waiting();
      }
    }
    return true;
  }
};

namespace detail {
WEFT_EXPORT void notify_all_at_exit(condition_variable& cv, mutex* locked);
}  // namespace detail

/// std::notify_all_at_thread_exit: when the goroutine, or the plain thread, has ended, unlocks the lock
/// and notifies.
inline void notify_all_at_thread_exit(condition_variable& cv, unique_lock<mutex> lock) {
  detail::notify_all_at_exit(cv, lock.release());
}

}  // namespace weft
