// weft::packaged_task: part of <weft/future.h>.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <weft/future.h>

namespace weft {

namespace detail {

// A callable of any type, behind one virtual call.
template <class R, class... Args>
class task_callable {
 public:
  virtual ~task_callable() = default;
  virtual void call(value_state<R>& into, Args... args) = 0;
};

template <class F, class R, class... Args>
class task_callable_of final : public task_callable<R, Args...> {
 public:
  template <class G>
  explicit task_callable_of(G&& g) : f_(std::forward<G>(g)) {}
  void call(value_state<R>& into, Args... args) override {
    into.emplace_result(f_, std::forward<Args>(args)...);
  }

 private:
  F f_;
};

// What a call operator takes and returns, for deduction. Only declared.
template <class Signature>
struct signature {
  using type = Signature;
};
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...));
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) const);
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) volatile);
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) const volatile);
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) &);
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) const&);
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) volatile&);
template <class R, class F, class... Args>
signature<R(Args...)> signature_of(R (F::*)(Args...) const volatile&);

}  // namespace detail

template <class Signature>
class packaged_task;

/// std::packaged_task.
template <class R, class... Args>
class packaged_task<R(Args...)> {
 public:
  packaged_task() noexcept = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, packaged_task>)
      [[gnu::always_inline]] explicit packaged_task(F&& f)
      : callable_(new detail::task_callable_of<std::decay_t<F>, R, Args...>(std::forward<F>(f))),
        state_(new detail::value_state<R>) {}
  template <class F, class Allocator>
  [[gnu::always_inline]] packaged_task(std::allocator_arg_t, const Allocator&, F&& f)
      : packaged_task(std::forward<F>(f)) {}
  packaged_task(packaged_task&&) noexcept = default;
  packaged_task& operator=(packaged_task&& other) noexcept {
    packaged_task(std::move(other)).swap(*this);
    return *this;
  }
  ~packaged_task() {
    if (state_) {
      state_->abandon();
    }
  }

  void swap(packaged_task& other) noexcept {
    std::swap(callable_, other.callable_);
    std::swap(state_, other.state_);
  }

  bool valid() const noexcept { return static_cast<bool>(state_); }
  future<R> get_future() {
    state_.checked().retrieve();
    return detail::future_access::make<R>(state_);
  }
  void operator()(Args... args) { run(std::forward<Args>(args)...)->publish(); }
  void make_ready_at_thread_exit(Args... args) {
    run(std::forward<Args>(args)...)->publish_at_exit();
  }
  void reset() {
    state_.checked();
    packaged_task fresh;
    fresh.callable_ = std::move(callable_);
    fresh.state_ = state(new detail::value_state<R>);
    fresh.swap(*this);
  }

 private:
  using state = detail::state_ptr<detail::value_state<R>>;

  state run(Args... args) {
    state s((state_.checked(), state_));
    s->claim();
    detail::abandon_guard guard(*s);
    callable_->call(*s, std::forward<Args>(args)...);
    guard.dismiss();
    return s;
  }

  std::unique_ptr<detail::task_callable<R, Args...>> callable_;
  state state_;
};

template <class R, class... Args>
void swap(packaged_task<R(Args...)>& a, packaged_task<R(Args...)>& b) noexcept {
  a.swap(b);
}

template <class R, class... Args>
packaged_task(R (*)(Args...)) -> packaged_task<R(Args...)>;
template <class F>
packaged_task(F) -> packaged_task<typename decltype(detail::signature_of(&F::operator()))::type>;

}  // namespace weft

template <class R, class... Args, class Allocator>
struct std::uses_allocator<weft::packaged_task<R(Args...)>, Allocator> : std::true_type {};
