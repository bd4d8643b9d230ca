// What must happen once, however many ask for it: std's call_once, and Go's OnceFunc family.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weft/detail/export.h>
#include <weft/detail/once_core.h>
#include <weft/detail/rethrow.h>
#include <weft/mutex.h>

namespace weft {

/// std::once_flag. It goes when all calls have returned: also that of whoever called f.
class once_flag {
 public:
  constexpr once_flag() noexcept = default;
  once_flag(const once_flag&) = delete;
  once_flag& operator=(const once_flag&) = delete;

 private:
  template <class F, class... Args>
  requires std::is_invocable_v<F, Args...>
  friend void call_once(once_flag& flag, F&& f, Args&&... args);
  template <class F, class... Args>
  friend bool call_once(once_flag& flag, const context& ctx, F&& f, Args&&... args);

  detail::once_core<mutex> core_;
};

/// std::call_once: calls f unless an earlier call has returned; waits for one that runs. If f throws
/// (or ends its goroutine), the next one tries. A call from within f waits for itself, for ever.
template <class F, class... Args>
requires std::is_invocable_v<F, Args...>
void call_once(once_flag& flag, F&& f, Args&&... args) {
  if (flag.core_.done()) {
    return;
  }
  const std::lock_guard<mutex> held(flag.core_.mutex());
  flag.core_.call_locked(
      [&] { std::apply(std::forward<F>(f), std::forward_as_tuple(std::forward<Args>(args)...)); });
}

/// The same, but waits for a call that runs only until ctx is cancelled; false then. A call of its own is
/// made in any case, and takes as long as it takes.
template <class F, class... Args>
bool call_once(once_flag& flag, const context& ctx, F&& f, Args&&... args) {
  if (flag.core_.done()) {
    return true;
  }
  if (!flag.core_.mutex().lock(ctx)) {
    return false;
  }
  const std::lock_guard<mutex> held(flag.core_.mutex(), std::adopt_lock);
  flag.core_.call_locked(
      [&] { std::apply(std::forward<F>(f), std::forward_as_tuple(std::forward<Args>(args)...)); });
  return true;
}

namespace detail {

[[noreturn]] WEFT_EXPORT void throw_once_has_no_value();

struct nothing {};

// A function that is called once, and how it ended: shared by the copies of a once_func.
template <class F, class R>
class once_result {
  using stored = std::conditional_t<std::is_void_v<R>, nothing, R>;

 public:
  explicit once_result(F&& f) : f_(std::move(f)) {}
  explicit once_result(const F& f) : f_(f) {}

  const stored& get() {
    call_once(flag_, [this] {
      if (!begun_) {
        run();
      }
    });
    if (thrown_ != nullptr) {
      detail::rethrow_carried(thrown_);
    }
    if (!value_) {
      throw_once_has_no_value();  // it has ended its goroutine
    }
    return *value_;
  }

 private:
  void run() {
    begun_ = true;
    struct release {
      std::optional<F>& f;
      ~release() { f.reset(); }
    } const at_end{f_};
    std::exception_ptr thrown;
    try {
      if constexpr (std::is_void_v<R>) {
        std::move (*f_)();
        value_.emplace();
      } else {
        value_.emplace(std::move(*f_)());
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    thrown_ = std::move(thrown);  // a goexit() does not come here
  }

  once_flag flag_;
  bool begun_ = false;
  std::optional<F> f_;
  std::optional<stored> value_;
  std::exception_ptr thrown_;
};

// A reference to one of these, copied by counting (<memory> would double the cost of this header).
template <class F, class R>
class once_handle {
 public:
  template <class G>
  once_handle(std::in_place_t, G&& g) : shared_(new shared(std::forward<G>(g))) {}
  once_handle(const once_handle& other) noexcept : shared_(other.shared_) {
    __atomic_fetch_add(&shared_->refs, 1, __ATOMIC_RELAXED);  // order: relaxed, we have one already
  }
  once_handle(once_handle&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  once_handle& operator=(once_handle other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~once_handle() {
    // order: acq_rel: what others did with it precedes its end
    if (shared_ != nullptr && __atomic_sub_fetch(&shared_->refs, 1, __ATOMIC_ACQ_REL) == 0) {
      delete shared_;
    }
  }
  once_result<F, R>* operator->() const { return &shared_->result; }

 private:
  struct shared {
    template <class G>
    explicit shared(G&& g) : result(std::forward<G>(g)) {}
    std::uint32_t refs = 1;
    once_result<F, R> result;
  };
  shared* shared_;
};

template <class F>
using result_of = std::invoke_result_t<std::decay_t<F>&&>;

}  // namespace detail

/// Go's sync.OnceFunc: a function that calls f the first time, and does nothing later. If f throws, every
/// call throws the same. f is destroyed once it has been called. Copies share the one call.
template <class F>
auto once_func(F&& f) {
  using handle = detail::once_handle<std::decay_t<F>, void>;
  return [s = handle(std::in_place, std::forward<F>(f))] { s->get(); };
}

/// Go's sync.OnceValue: the same with a result, of which each call returns a copy.
template <class F>
auto once_value(F&& f) {
  using result = detail::result_of<F>;
  using handle = detail::once_handle<std::decay_t<F>, result>;
  return [s = handle(std::in_place, std::forward<F>(f))]() -> result { return s->get(); };
}

/// Go's sync.OnceValues: the same for a function that returns a pair or a tuple.
template <class F>
auto once_values(F&& f) {
  return once_value(std::forward<F>(f));
}

}  // namespace weft
