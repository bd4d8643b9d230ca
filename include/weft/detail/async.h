// weft::async: part of <weft/future.h>.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/detail/packaged_task.h>
#include <weft/future.h>
#include <weft/go.h>

namespace weft {

namespace detail {

template <class F, class... Args>
using async_result = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;

// A state that knows how to get its result: in a goroutine, or on whoever waits first.
template <class R, class F, class... Args>
class task_state final : public value_state<R> {
 public:
  template <class G, class... As>
  [[gnu::always_inline]] explicit task_state(G&& g, As&&... as)
      : value_state<R>(kMethods),
        task_(std::in_place, std::forward<G>(g), std::forward<As>(as)...) {
    this->claim();
  }

  void run() {
    abandon_guard guard(*this);
    std::apply(
        [this](F&& f, Args&&... args) { this->emplace_result(std::move(f), std::move(args)...); },
        std::move(*task_));
    task_.reset();  // what the callable owns is gone when the result is there
    guard.dismiss();
    this->publish();
  }

 private:
  static void destroy(future_state* s) noexcept { delete static_cast<task_state*>(s); }
  static void run_deferred(future_state* s) { static_cast<task_state*>(s)->run(); }
  static constexpr future_state::methods kMethods{&destroy, &run_deferred};

  std::optional<std::tuple<F, Args...>> task_;
};

}  // namespace detail

/// std::async. launch::async (also the default) is a goroutine of its own; launch::deferred runs on
/// whoever waits first. As in std, the last future of an asynchronous call waits for its end when it
/// is destroyed.
template <class F, class... Args>
[[nodiscard, gnu::always_inline]] inline future<detail::async_result<F, Args...>> async(
    launch policy, F&& f, Args&&... args) {
  using result = detail::async_result<F, Args...>;
  using state = detail::task_state<result, std::decay_t<F>, std::decay_t<Args>...>;
  auto* s = new state(std::forward<F>(f), std::forward<Args>(args)...);
  detail::state_ptr<detail::value_state<result>> handle(s);
  if ((policy & launch::async) == launch::async) {
    weft::go([s] { s->run(); });  // the handle, in the end, waits for it
    s->mark_joins();
  } else {
    s->mark_deferred();
  }
  return detail::future_access::make<result>(std::move(handle));
}

template <class F, class... Args>
requires(!std::is_same_v<std::decay_t<F>, launch>)
    [[nodiscard,
      gnu::always_inline]] inline future<detail::async_result<F, Args...>> async(F&& f,
                                                                                 Args&&... args) {
  return weft::async(launch::async | launch::deferred, std::forward<F>(f),
                     std::forward<Args>(args)...);
}

}  // namespace weft
