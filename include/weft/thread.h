// std::thread's shape over goroutines: something that can be joined.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <stop_token>
#include <string_view>  // std::hash; <functional> is ten times as dear
#include <type_traits>
#include <utility>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/spawn.h>
#include <weft/go.h>

namespace weft {

using std::nostopstate;
using std::nostopstate_t;
using std::stop_callback;
using std::stop_source;
using std::stop_token;

class thread;
class jthread;

namespace detail {
// What a handle holds is the goroutine itself; it is recycled by whoever joins or detaches it.
WEFT_EXPORT void join_goroutine(void* goroutine);
WEFT_EXPORT bool join_goroutine(void* goroutine, limit l);  // false: the limit came first
WEFT_EXPORT void detach_goroutine(void* goroutine) noexcept;
WEFT_EXPORT std::uint64_t goroutine_id(void* goroutine) noexcept;
WEFT_EXPORT std::uint64_t this_thread_id() noexcept;
[[noreturn]] WEFT_EXPORT void throw_thread_error(int code);
// The calling goroutine stays on its thread, alone. False: it does so already, or is none.
WEFT_EXPORT bool lock_to_thread() noexcept;
WEFT_EXPORT void unlock_from_thread() noexcept;
struct thread_lock {
  const bool locked = lock_to_thread();
  thread_lock() noexcept = default;
  thread_lock(const thread_lock&) = delete;
  thread_lock& operator=(const thread_lock&) = delete;
  ~thread_lock() {
    if (locked) {
      unlock_from_thread();
    }
  }
};
WEFT_EXPORT unsigned hardware_concurrency() noexcept;
WEFT_EXPORT void sleep_until(std::int64_t deadline);  // in nanoseconds of the steady clock
}  // namespace detail

/// The identity of a goroutine or of a plain thread; what thread::get_id() returns.
class thread_id {
 public:
  constexpr thread_id() noexcept = default;
  friend constexpr bool operator==(thread_id, thread_id) noexcept = default;
  friend constexpr std::strong_ordering operator<=>(thread_id, thread_id) noexcept = default;

  template <class C, class T>
  friend std::basic_ostream<C, T>& operator<<(std::basic_ostream<C, T>& out, thread_id id) {
    return id.value_ == 0 ? out << "thread::id of a non-executing thread" : out << id.value_;
  }

 private:
  friend class thread;
  friend struct std::hash<thread_id>;
  friend thread_id make_thread_id(std::uint64_t) noexcept;
  constexpr explicit thread_id(std::uint64_t v) noexcept : value_(v) {}
  std::uint64_t value_ = 0;
};

inline thread_id make_thread_id(std::uint64_t v) noexcept { return thread_id(v); }

namespace this_thread {
/// Differs between any two goroutines and plain threads alive.
inline thread_id get_id() noexcept { return make_thread_id(detail::this_thread_id()); }
/// gosched().
inline void yield() noexcept { gosched(); }

/// Waits for at least d. At once, without yielding, if d is not positive. A goroutine costs a timer
/// meanwhile, not a thread; on an idle machine it wakes within some tens of microseconds.
template <class Rep, class Period>
void sleep_for(const std::chrono::duration<Rep, Period>& d) {
  if (d > d.zero()) {
    detail::sleep_until(detail::deadline_after(d));
  }
}

/// Waits until Clock says t or later: if the clock is set back meanwhile, that counts. If it is set forward, the sleep is no
/// shorter.
template <class Clock, class Duration>
void sleep_until(const std::chrono::time_point<Clock, Duration>& t) {
  if (detail::nanoseconds_until(t) != 0) {
    detail::attempt_until(t, [](std::int64_t deadline) {
      detail::sleep_until(deadline);
      return false;
    });
  }
}
}  // namespace this_thread

/// std::thread as a goroutine: replacing std:: by weft:: compiles and behaves. join() may be called
/// from goroutines and plain threads. An exception from the callable is a panic.
class thread {
 public:
  using id = thread_id;
  using native_handle_type = void*;

  thread() noexcept = default;

  template <class F, class... Args>
  requires(!std::is_same_v<std::remove_cvref_t<F>, thread> &&
           !std::is_same_v<std::remove_cvref_t<F>, attrs>)
      [[gnu::always_inline]] explicit thread(F&& f, Args&&... args) {
    constexpr detail::spawn_options options{{}, 0, true};
    goroutine_ = detail::spawn(&options, std::forward<F>(f), std::forward<Args>(args)...);
  }

  /// As go(attrs, f, args...), to be joined.
  template <class F, class... Args>
  [[gnu::always_inline]] thread(attrs a, F&& f, Args&&... args) {
    const detail::spawn_options options{a.name, a.stack_size, true};
    goroutine_ = detail::spawn(&options, std::forward<F>(f), std::forward<Args>(args)...);
  }

  thread(thread&& other) noexcept : goroutine_(std::exchange(other.goroutine_, nullptr)) {}
  thread& operator=(thread&& other) noexcept {
    if (joinable()) {
      std::terminate();
    }
    goroutine_ = std::exchange(other.goroutine_, nullptr);
    return *this;
  }
  ~thread() {
    if (joinable()) {
      std::terminate();
    }
  }

  void swap(thread& other) noexcept { std::swap(goroutine_, other.goroutine_); }
  friend void swap(thread& a, thread& b) noexcept { a.swap(b); }

  bool joinable() const noexcept { return goroutine_ != nullptr; }

  /// Throws std::system_error: invalid_argument if not joinable, resource_deadlock_would_occur for
  /// the goroutine itself.
  void join() {
    detail::join_goroutine(goroutine_);
    goroutine_ = nullptr;
  }
  /// With a limit; false if that came first: it is still joinable then. (No overload of join(), whose address
  /// std programs take.)
  template <class Rep, class Period>
  bool join_for(const std::chrono::duration<Rep, Period>& d) {
    return join_within(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool join_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(t,
                                 [this](std::int64_t deadline) { return join_within(deadline); });
  }
  bool join_until(const context& ctx) { return join_within(ctx); }

  void detach() {
    if (!joinable()) {
      detail::throw_thread_error(22 /* EINVAL */);
    }
    detail::detach_goroutine(std::exchange(goroutine_, nullptr));
  }

  id get_id() const noexcept {
    return joinable() ? make_thread_id(detail::goroutine_id(goroutine_)) : id();
  }
  native_handle_type native_handle() { return goroutine_; }
  static unsigned hardware_concurrency() noexcept { return detail::hardware_concurrency(); }

 private:
  bool join_within(detail::limit l) {
    const bool joined = detail::join_goroutine(goroutine_, l);
    goroutine_ = joined ? nullptr : goroutine_;
    return joined;
  }

  void* goroutine_ = nullptr;
};

/// std::jthread as a goroutine: joins when it goes, and carries a stop token.
///
/// Stop callbacks are std's, which tells by the thread's id whether a callback is removed by itself or
/// by somebody else. Callbacks may park if the stop is requested by request_stop() or the destructor,
/// which keep the goroutine on its thread meanwhile; in callbacks that are run by a std::stop_source,
/// get_stop_source()'s included, goroutines must not park. Who removes a callback that runs waits for
/// it as a thread does: others get its P when it has been asleep for a while.
class jthread {
 public:
  using id = thread::id;
  using native_handle_type = thread::native_handle_type;

  jthread() noexcept : stop_(std::nostopstate) {}

  template <class F, class... Args>
  requires(!std::is_same_v<std::remove_cvref_t<F>, jthread> &&
           !std::is_same_v<std::remove_cvref_t<F>, attrs>) explicit jthread(F&& f, Args&&... args)
      : thread_(start(attrs{}, stop_, std::forward<F>(f), std::forward<Args>(args)...)) {}

  /// As go(attrs, f, args...), to be joined.
  template <class F, class... Args>
  jthread(attrs a, F&& f, Args&&... args)
      : thread_(start(a, stop_, std::forward<F>(f), std::forward<Args>(args)...)) {}

  jthread(jthread&&) noexcept = default;
  jthread& operator=(jthread&& other) noexcept {
    jthread(std::move(other)).swap(*this);
    return *this;
  }
  ~jthread() {
    if (joinable()) {
      request_stop();
      join();
    }
  }

  void swap(jthread& other) noexcept {
    std::swap(stop_, other.stop_);
    thread_.swap(other.thread_);
  }
  friend void swap(jthread& a, jthread& b) noexcept { a.swap(b); }

  bool joinable() const noexcept { return thread_.joinable(); }
  void join() { thread_.join(); }
  /// With a limit, as thread's. Nobody is asked to stop.
  template <class Rep, class Period>
  bool join_for(const std::chrono::duration<Rep, Period>& d) {
    return thread_.join_for(d);
  }
  template <class Limit>
  bool join_until(const Limit& t) {
    return thread_.join_until(t);
  }
  void detach() { thread_.detach(); }
  id get_id() const noexcept { return thread_.get_id(); }
  native_handle_type native_handle() { return thread_.native_handle(); }
  static unsigned hardware_concurrency() noexcept { return thread::hardware_concurrency(); }

  std::stop_source get_stop_source() noexcept { return stop_; }
  std::stop_token get_stop_token() const noexcept { return stop_.get_token(); }
  bool request_stop() noexcept {
    const detail::thread_lock here;
    return stop_.request_stop();
  }

 private:
  template <class F, class... Args>
  static thread start(attrs a, std::stop_source& stop, F&& f, Args&&... args) {
    if constexpr (std::is_invocable_v<std::decay_t<F>, std::stop_token, std::decay_t<Args>...>) {
      return thread(a, std::forward<F>(f), stop.get_token(), std::forward<Args>(args)...);
    } else {
      return thread(a, std::forward<F>(f), std::forward<Args>(args)...);
    }
  }

  std::stop_source stop_;
  thread thread_;
};

// For those who call them by their full names, as std::swap().
void swap(thread& a, thread& b) noexcept;
void swap(jthread& a, jthread& b) noexcept;

}  // namespace weft

template <>
struct std::hash<weft::thread_id> {
  std::size_t operator()(weft::thread_id id) const noexcept {
    return std::hash<std::uint64_t>()(id.value_);
  }
};

// The rest of the family: promise, future, async, packaged_task; task_group.
#include <weft/future.h>
#include <weft/task_group.h>
