// Results that come later, in std's shape: promise, future, shared_future, packaged_task, async.
#pragma once

#include <cstdint>
#include <utility>

#include <weft/detail/deadline.h>
#include <weft/detail/future_state.h>

namespace weft {

using std::future_category;
using std::future_errc;
using std::future_error;
using std::future_status;
using std::launch;
using std::make_error_code;
using std::make_error_condition;

template <class T>
class future;
template <class T>
class shared_future;

namespace detail {

// What future and shared_future have in common.
template <class T>
class future_handle {
 public:
  bool valid() const noexcept { return static_cast<bool>(state_); }
  void wait() const { state_.checked().wait(); }
  /// Until ctx is cancelled; false if that came first. A deferred function runs here, whatever ctx says.
  bool wait(const context& ctx) const { return state_.checked().wait(ctx); }
  template <class Rep, class Period>
  future_status wait_for(const std::chrono::duration<Rep, Period>& d) const {
    return state_.checked().wait_until(deadline_after(d));
  }
  template <class Clock, class Duration>
  future_status wait_until(const std::chrono::time_point<Clock, Duration>& t) const {
    value_state<T>& s = state_.checked();
    future_status status = future_status::timeout;
    attempt_until(t, [&](std::int64_t deadline) {
      status = s.wait_until(deadline);
      return status != future_status::timeout;
    });
    return status;
  }

 protected:
  future_handle() noexcept = default;
  explicit future_handle(state_ptr<value_state<T>> s) noexcept : state_(std::move(s)) {}
  state_ptr<value_state<T>> state_;
};

struct future_access {
  template <class T>
  static future<T> make(state_ptr<value_state<T>> s) {
    return future<T>(std::move(s));
  }
};

}  // namespace detail

/// std::future. get() and wait() park the goroutine, or block the plain thread.
template <class T>
class future : public detail::future_handle<T> {
 public:
  future() noexcept = default;
  future(future&&) noexcept = default;
  future& operator=(future&&) noexcept = default;
  future(const future&) = delete;
  future& operator=(const future&) = delete;

  /// The result, once; valid() is false afterwards.
  T get() {
    this->state_.checked();
    const auto s = std::move(this->state_);
    s->wait();
    s->check();
    return s->take();
  }
  shared_future<T> share() noexcept { return shared_future<T>(std::move(*this)); }

 private:
  friend detail::future_access;
  friend shared_future<T>;
  explicit future(detail::state_ptr<detail::value_state<T>> s) noexcept
      : detail::future_handle<T>(std::move(s)) {}
};

/// std::shared_future: copies share one result, which each may get() any number of times.
template <class T>
class shared_future : public detail::future_handle<T> {
 public:
  shared_future() noexcept = default;
  shared_future(const shared_future&) noexcept = default;
  shared_future(shared_future&&) noexcept = default;
  shared_future& operator=(const shared_future&) noexcept = default;
  shared_future& operator=(shared_future&&) noexcept = default;
  shared_future(future<T>&& other) noexcept  // NOLINT: implicit, as in std
      : detail::future_handle<T>(std::move(other.state_)) {}

  decltype(auto) get() const {
    auto& s = this->state_.checked();
    s.wait();
    s.check();
    return s.peek();
  }
};

namespace detail {

// promise<T>, promise<T&> and promise<void>, but for set_value.
template <class T>
class promise_base {
 public:
  [[gnu::always_inline]] promise_base() : state_(new value_state<T>) {}
  template <class Allocator>
  [[gnu::always_inline]] promise_base(std::allocator_arg_t, const Allocator&) : promise_base() {}
  promise_base(promise_base&&) noexcept = default;
  promise_base& operator=(promise_base&& other) noexcept {
    promise_base(std::move(other)).swap(*this);
    return *this;
  }
  ~promise_base() {
    if (state_) {
      state_->abandon();
    }
  }

  void swap(promise_base& other) noexcept { std::swap(state_, other.state_); }

  future<T> get_future() {
    state_.checked().retrieve();
    return future_access::make<T>(state_);
  }
  void set_exception(std::exception_ptr e) { store(std::move(e))->publish(); }
  void set_exception_at_thread_exit(std::exception_ptr e) {
    store(std::move(e))->publish_at_exit();
  }

 protected:
  using state = state_ptr<value_state<T>>;

  // The state by a reference of its own: publishing may be the end of the promise.
  template <class... Args>
  state store_value(Args&&... args) {
    state s((state_.checked(), state_));
    s->claim_and_emplace(std::forward<Args>(args)...);
    return s;
  }

 private:
  state store(std::exception_ptr e) {
    state s((state_.checked(), state_));
    s->claim();
    s->store(std::move(e));
    return s;
  }

  state state_;
};

}  // namespace detail

/// std::promise. "At thread exit" is at the end of the goroutine, or of the plain thread.
template <class T>
class promise : public detail::promise_base<T> {
 public:
  [[gnu::always_inline]] promise() = default;
  using detail::promise_base<T>::promise_base;

  void set_value(const T& v) { this->store_value(v)->publish(); }
  void set_value(T&& v) { this->store_value(std::move(v))->publish(); }
  void set_value_at_thread_exit(const T& v) { this->store_value(v)->publish_at_exit(); }
  void set_value_at_thread_exit(T&& v) { this->store_value(std::move(v))->publish_at_exit(); }
};

template <class T>
class promise<T&> : public detail::promise_base<T&> {
 public:
  [[gnu::always_inline]] promise() = default;
  using detail::promise_base<T&>::promise_base;

  void set_value(T& v) { this->store_value(v)->publish(); }
  void set_value_at_thread_exit(T& v) { this->store_value(v)->publish_at_exit(); }
};

template <>
class promise<void> : public detail::promise_base<void> {
 public:
  [[gnu::always_inline]] promise() = default;
  using detail::promise_base<void>::promise_base;

  void set_value() { store_value()->publish(); }
  void set_value_at_thread_exit() { store_value()->publish_at_exit(); }
};

template <class T>
void swap(promise<T>& a, promise<T>& b) noexcept {
  a.swap(b);
}

}  // namespace weft

template <class T, class Allocator>
struct std::uses_allocator<weft::promise<T>, Allocator> : std::true_type {};

#include <weft/detail/async.h>          // IWYU pragma: export
#include <weft/detail/packaged_task.h>  // IWYU pragma: export
