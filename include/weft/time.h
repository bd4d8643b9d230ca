// Time: a clock, timers whose time comes through a channel or as a goroutine of its own, tickers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <weft/chan.h>
#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/spawn.h>

namespace weft {

/// The clock of timers, of deadlines and of sleeps: steady_clock's times.
struct clock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  WEFT_EXPORT static time_point now() noexcept;
};

namespace detail {

// What a timer is, in one word: nothing; a time, as long as nobody has asked for its channel; a channel;
// a callable (src/time). Functions that take it by reference may be called concurrently.
using timer_word = std::uintptr_t;

WEFT_EXPORT timer_word timer_make(std::int64_t ns) noexcept;
WEFT_EXPORT void timer_drop(timer_word) noexcept;
WEFT_EXPORT channel* timer_channel(timer_word&);  // retained; null if it has none
WEFT_EXPORT bool timer_stop(timer_word&);
WEFT_EXPORT bool timer_reset(timer_word&, std::int64_t ns);
WEFT_EXPORT timer_word ticker_make(std::int64_t ns);
WEFT_EXPORT void ticker_stop(timer_word&);
WEFT_EXPORT void ticker_reset(timer_word&, std::int64_t ns);

struct after_func_slot {
  void* timer;   // opaque
  void* memory;  // for the callable
};
WEFT_EXPORT after_func_slot after_func_begin(std::size_t size, std::size_t align);
WEFT_EXPORT timer_word after_func_commit(after_func_slot, void (*call)(void*),
                                         void (*destroy)(void*) noexcept, std::int64_t ns) noexcept;
WEFT_EXPORT void after_func_abort(after_func_slot) noexcept;

using time_chan = recv_chan<clock::time_point>;

// Owns a timer_word.
class timer_base {
 public:
  timer_base(timer_base&& other) noexcept : word_(std::exchange(other.word_, 0)) {}
  timer_base& operator=(timer_base&& other) noexcept {
    std::swap(word_, other.word_);
    return *this;
  }
  ~timer_base() {
    if (word_ % 2 == 0 && word_ != 0) {
      timer_drop(word_);
    }
  }

 protected:
  constexpr timer_base() noexcept = default;
  constexpr explicit timer_base(timer_word w) noexcept : word_(w) {}
  time_chan channel() const { return channel_access::adopt<time_chan>(timer_channel(word_)); }
  timer_word& word() const noexcept { return word_; }

 private:
  mutable timer_word word_ = 0;
};

}  // namespace detail

/// One moment in the future. Unless made by after_func(), c() is a channel on which the time is sent when
/// it has come; nobody has to listen.
///
/// As in Go 1.23: once stop() or reset() has returned, no value from before can be received, so there is
/// nothing to drain; and a timer that nobody waits for costs nothing but its memory. All members may
/// be called concurrently.
///
///     weft::timer patience(5s);
///     weft::select(recv(answers, [&](auto a) { ... }), recv(patience.c(), [](auto) { give_up(); }));
class timer : public detail::timer_base {
 public:
  /// Not a timer: stop() and reset() throw panic_error, c() is nil.
  constexpr timer() noexcept = default;
  template <class Rep, class Period>
  explicit timer(const std::chrono::duration<Rep, Period>& d)
      : timer_base(detail::timer_make(detail::nanoseconds_of(d))) {}

  /// Nil for a timer of after_func().
  detail::time_chan c() const { return channel(); }

  /// True: it was pending (or its value had not been received), and now never comes. A callable
  /// that has already been started is not waited for.
  bool stop() { return detail::timer_stop(word()); }

  /// Pending again, d from now. Returns what stop() would have.
  template <class Rep, class Period>
  bool reset(const std::chrono::duration<Rep, Period>& d) {
    return detail::timer_reset(word(), detail::nanoseconds_of(d));
  }

 private:
  using timer_base::timer_base;
  template <class Rep, class Period, class F>
  friend timer after_func(const std::chrono::duration<Rep, Period>& d, F&& f);
};

/// A channel on which the time is sent once, d from now. Needs no stop().
template <class Rep, class Period>
detail::time_chan after(const std::chrono::duration<Rep, Period>& d) {
  return timer(d).c();
}

/// Calls f in a goroutine of its own, d from now, and once more for each reset() of the timer. Dropping
/// the timer does not stop it.
template <class Rep, class Period, class F>
timer after_func(const std::chrono::duration<Rep, Period>& d, F&& f) {
  using callable = std::decay_t<F>;
  static_assert(std::is_invocable_v<callable&>, "weft: the callable takes arguments");
  if (detail::is_empty_callable(f)) {
    detail::go_of_nil_func();
  }
  const detail::after_func_slot slot =
      detail::after_func_begin(sizeof(callable), alignof(callable));
  try {
    ::new (slot.memory) callable(std::forward<F>(f));
  } catch (...) {
    detail::after_func_abort(slot);
    throw;
  }
  return timer(detail::after_func_commit(
      slot, [](void* memory) { static_cast<void>((*static_cast<callable*>(memory))()); },
      [](void* memory) noexcept { static_cast<callable*>(memory)->~callable(); },
      detail::nanoseconds_of(d)));
}

/// Sends the time every d, on a channel with room for one: whoever is slow misses ticks, but the phase is
/// kept. Throws panic_error unless d is positive. stop() does not close the channel.
class ticker : public detail::timer_base {
 public:
  constexpr ticker() noexcept = default;
  template <class Rep, class Period>
  explicit ticker(const std::chrono::duration<Rep, Period>& d)
      : timer_base(detail::ticker_make(detail::nanoseconds_of(d))) {}

  detail::time_chan c() const { return channel(); }
  void stop() { detail::ticker_stop(word()); }
  /// Another period, which begins now.
  template <class Rep, class Period>
  void reset(const std::chrono::duration<Rep, Period>& d) {
    detail::ticker_reset(word(), detail::nanoseconds_of(d));
  }
};

/// The channel of a ticker that is never stopped; nil if d is not positive.
template <class Rep, class Period>
detail::time_chan tick(const std::chrono::duration<Rep, Period>& d) {
  return d > d.zero() ? ticker(d).c() : detail::time_chan(nullptr);
}

}  // namespace weft
