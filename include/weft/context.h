// Contexts: deadlines, cancellation and values that travel with a request.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include <weft/chan.h>
#include <weft/detail/export.h>
#include <weft/detail/spawn.h>
#include <weft/time.h>

namespace weft {

/// Nothing: what is sent where only the event counts.
struct unit {};

namespace detail {

struct context_node;  // opaque; null is the background

WEFT_EXPORT void context_retain(context_node*) noexcept;
WEFT_EXPORT void context_release(context_node*) noexcept;
// Owned by the caller. The deadline is in nanoseconds of the steady clock.
WEFT_EXPORT context_node* context_with_cancel(context_node* parent);
WEFT_EXPORT context_node* context_with_deadline(context_node* parent, std::int64_t deadline,
                                                std::exception_ptr cause);
WEFT_EXPORT context_node* context_without_cancel(context_node* parent);
// Takes the value over, also when it throws.
WEFT_EXPORT context_node* context_with_value(context_node* parent, const void* key, void* value,
                                             void (*destroy)(void*) noexcept);
WEFT_EXPORT void context_cancel(context_node*, std::exception_ptr cause) noexcept;
// The same without running a user's destructor, and so without parking: a goroutine does that.
WEFT_EXPORT void context_cancel_briefly(context_node*) noexcept;
WEFT_EXPORT channel* context_done(context_node*);  // retained; null: never cancelled
WEFT_EXPORT std::error_code context_error(context_node*);
WEFT_EXPORT std::exception_ptr context_cause(context_node*);
WEFT_EXPORT std::int64_t context_deadline(const context_node*) noexcept;
WEFT_EXPORT const void* context_value(const context_node*, const void* key) noexcept;

// Until the deadline or the cancellation.
WEFT_EXPORT std::error_code context_sleep(context_node*, std::int64_t deadline);

// False: it is never cancelled.
WEFT_EXPORT bool context_ends(context_node*) noexcept;

// What all users of a context that can be cancelled share, besides what is here; goes with it.
struct WEFT_EXPORT context_attachment {
  context_attachment() = default;
  context_attachment(const context_attachment&) = delete;
  context_attachment& operator=(const context_attachment&) = delete;
  virtual ~context_attachment();
};
WEFT_EXPORT context_attachment* context_attached(context_node*) noexcept;  // null: not yet
// Takes it over. Returns the one that is there: if somebody was faster, another one.
WEFT_EXPORT context_attachment* context_attach(context_node*, context_attachment*) noexcept;

struct context_callback;  // opaque
// Takes the closure over, also when it throws.
WEFT_EXPORT context_callback* context_after(context_node*, void* closure, void (*call)(void*),
                                            void (*destroy)(void*) noexcept);
WEFT_EXPORT bool context_after_stop(context_callback*) noexcept;
WEFT_EXPORT void callback_retain(context_callback*) noexcept;
WEFT_EXPORT void callback_release(context_callback*) noexcept;

// A counted reference to one of the two.
template <class T, void (*Retain)(T*) noexcept, void (*Release)(T*) noexcept>
class counted_ref {
 public:
  constexpr counted_ref() noexcept = default;
  constexpr explicit counted_ref(T* owned) noexcept : p_(owned) {}
  counted_ref(const counted_ref& other) noexcept : p_(other.p_) {
    if (p_ != nullptr) Retain(p_);
  }
  counted_ref(counted_ref&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  counted_ref& operator=(counted_ref other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~counted_ref() {
    if (p_ != nullptr) Release(p_);
  }
  T* get() const noexcept { return p_; }

 private:
  T* p_ = nullptr;
};
using context_ref = counted_ref<context_node, context_retain, context_release>;
using callback_ref = counted_ref<context_callback, callback_retain, callback_release>;

template <class K>
inline constexpr char context_key = 0;  // its address is the key

}  // namespace detail

/// Go's context.Context: says whether the work that it was passed to is still wanted. A context is a
/// handle; copies are cheap and share one state. The default one is the background: never cancelled,
/// without deadline and values.
///
///     auto [ctx, cancel] = weft::with_timeout(parent, 2s);
///     weft::select(recv(answers, use), recv(ctx.done(), [&](auto) { give_up(ctx.err()); }));
///     cancel();  // also when the work is done: lets go of the timer and of the parent
///
/// A context whose done() was asked for, or that has an after_func(), stays until it, or one of its
/// ancestors, is cancelled, as in Go: call cancel.
///
/// All members may be called concurrently, from goroutines and plain threads.
class context {
 public:
  context() noexcept = default;
  static context background() noexcept { return {}; }

  /// Closed when the context is cancelled; nil if that cannot happen. The same channel each time.
  recv_chan<unit> done() const {
    return detail::channel_access::adopt<recv_chan<unit>>(detail::context_done(node()));
  }
  /// Nothing, as long as it is not cancelled; then equal to std::errc::operation_canceled ("context
  /// canceled") or std::errc::timed_out ("context deadline exceeded"), and done() is closed.
  std::error_code err() const { return detail::context_error(node()); }
  /// Why: what was given to the cancel function or to with_deadline_cause, otherwise a std::system_error
  /// with err(). Null as long as it is not cancelled.
  std::exception_ptr cause() const { return detail::context_cause(node()); }
  std::optional<clock::time_point> deadline() const {
    const std::int64_t ns = detail::context_deadline(node());
    if (ns == detail::kNoDeadline) {
      return std::nullopt;
    }
    return clock::time_point(clock::duration(ns));
  }
  /// The value of the nearest with_value<K>, or null. It lives as long as this context.
  template <class K>
  const typename K::type* value() const noexcept {
    return static_cast<const typename K::type*>(
        detail::context_value(node(), &detail::context_key<K>));
  }

  bool operator==(const context& other) const noexcept { return node() == other.node(); }

 private:
  friend struct context_access;
  explicit context(detail::context_node* owned) noexcept : ref_(owned) {}
  detail::context_node* node() const noexcept { return ref_.get(); }

  detail::context_ref ref_;
};

/// For weft itself.
struct context_access {
  static context make(detail::context_node* owned) noexcept { return context(owned); }
  static detail::context_node* node(const context& c) noexcept { return c.node(); }
};

/// Cancels a context and all that descend from it. The first call counts; it waits for nobody.
class cancel_func {
 public:
  explicit cancel_func(const context& c) noexcept : context_(c) {}
  void operator()() const noexcept {
    detail::context_cancel(context_access::node(context_), nullptr);
  }

 private:
  context context_;
};

/// The same with a reason, for cause().
class cancel_cause_func {
 public:
  explicit cancel_cause_func(const context& c) noexcept : context_(c) {}
  void operator()(std::exception_ptr cause = nullptr) const noexcept {
    detail::context_cancel(context_access::node(context_), std::move(cause));
  }

 private:
  context context_;
};

template <class Cancel>
struct cancellable {
  weft::context ctx;
  Cancel cancel;
};

[[nodiscard]] inline cancellable<cancel_func> with_cancel(const context& parent) {
  const context c = context_access::make(detail::context_with_cancel(context_access::node(parent)));
  return {c, cancel_func(c)};
}

[[nodiscard]] inline cancellable<cancel_cause_func> with_cancel_cause(const context& parent) {
  const context c = context_access::make(detail::context_with_cancel(context_access::node(parent)));
  return {c, cancel_cause_func(c)};
}

/// Cancelled at t at the latest; the cause is then the one given here.
template <class Clock, class Duration>
[[nodiscard]] cancellable<cancel_func> with_deadline_cause(
    const context& parent, const std::chrono::time_point<Clock, Duration>& t,
    std::exception_ptr cause) {
  const context c = context_access::make(detail::context_with_deadline(
      context_access::node(parent), detail::deadline_at(t), std::move(cause)));
  return {c, cancel_func(c)};
}
template <class Clock, class Duration>
[[nodiscard]] cancellable<cancel_func> with_deadline(
    const context& parent, const std::chrono::time_point<Clock, Duration>& t) {
  return with_deadline_cause(parent, t, nullptr);
}

template <class Rep, class Period>
[[nodiscard]] cancellable<cancel_func> with_timeout_cause(
    const context& parent, const std::chrono::duration<Rep, Period>& d, std::exception_ptr cause) {
  const context c = context_access::make(detail::context_with_deadline(
      context_access::node(parent), detail::deadline_after(d), std::move(cause)));
  return {c, cancel_func(c)};
}
template <class Rep, class Period>
[[nodiscard]] cancellable<cancel_func> with_timeout(const context& parent,
                                                    const std::chrono::duration<Rep, Period>& d) {
  return with_timeout_cause(parent, d, nullptr);
}

/// Carries a value, found by the type K: struct user { using type = std::string; };
template <class K, class V>
[[nodiscard]] context with_value(const context& parent, V&& value) {
  using type = typename K::type;
  auto* copy = new type(std::forward<V>(value));
  return context_access::make(
      detail::context_with_value(context_access::node(parent), &detail::context_key<K>, copy,
                                 [](void* memory) noexcept { delete static_cast<type*>(memory); }));
}

/// Has parent's values, but is never cancelled.
[[nodiscard]] inline context without_cancel(const context& parent) {
  return context_access::make(detail::context_without_cancel(context_access::node(parent)));
}

/// Sleeps for d, or until ctx is cancelled; its error then. At once, if it is cancelled already.
template <class Rep, class Period>
std::error_code sleep_for(const context& ctx, const std::chrono::duration<Rep, Period>& d) {
  return detail::context_sleep(context_access::node(ctx), detail::deadline_after(d));
}
template <class Clock, class Duration>
std::error_code sleep_until(const context& ctx, const std::chrono::time_point<Clock, Duration>& t) {
  for (;;) {
    const std::error_code cancelled =
        detail::context_sleep(context_access::node(ctx), detail::deadline_at(t, /*again=*/true));
    // As attempt_until(): a clock other than the steady one may be set back.
    if (std::is_same_v<Clock, std::chrono::steady_clock> || cancelled ||
        detail::nanoseconds_until(t) == 0) {
      return cancelled;
    }
  }
}

/// Calls off what after_func() arranged. True: it will not run. Does not wait for one that runs.
class stop_func {
 public:
  explicit stop_func(detail::callback_ref c) noexcept : callback_(std::move(c)) {}
  bool operator()() const noexcept {
    return callback_.get() != nullptr && detail::context_after_stop(callback_.get());
  }

 private:
  detail::callback_ref callback_;
};

/// Calls f in a goroutine of its own once ctx is cancelled; at once if it is already.
template <class F>
stop_func after_func(const context& ctx, F&& f) {
  using callable = std::decay_t<F>;
  static_assert(std::is_invocable_v<callable&>, "weft: the callable takes arguments");
  if (detail::is_empty_callable(f)) {
    detail::go_of_nil_func();
  }
  return stop_func(detail::callback_ref(detail::context_after(
      context_access::node(ctx), new callable(std::forward<F>(f)),
      [](void* memory) { static_cast<void>((*static_cast<callable*>(memory))()); },
      [](void* memory) noexcept { delete static_cast<callable*>(memory); })));
}

}  // namespace weft
