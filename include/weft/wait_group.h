// Waiting for a number of things to be done.
#pragma once

#include <cstdint>
#include <utility>

#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/made.h>
#include <weft/go.h>

namespace weft {

/// Go's sync.WaitGroup: add() before starting, done() at the end of each, wait() for all. The counter
/// must not fall below zero. An add() from zero beside a wait() is no misuse, but that wait() may return
/// without having waited for it. It may be destroyed as soon as the last wait() has returned; and reused as
/// soon as the counter is zero, even if not everybody has returned.
///
/// When not to use it: for one goroutine use weft::thread.
class wait_group {
 public:
  [[gnu::always_inline]] constexpr wait_group() noexcept : made_by_(detail::made(this)) {}
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Throws panic_error ("sync: negative WaitGroup counter") if the counter would become negative;
  /// nothing has changed then.
  WEFT_EXPORT void add(int n = 1);
  void done() { add(-1); }

  /// Blocks the goroutine, or the plain thread, until the counter is zero.
  WEFT_EXPORT void wait();

  /// The same, but not for longer than d, or beyond t. False: the counter was not zero by then.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& d) {
    return wait_within(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(t,
                                 [this](std::int64_t deadline) { return wait_within(deadline); });
  }

  /// Until ctx is cancelled; false if that came first.
  bool wait(const context& ctx) { return wait_within(ctx); }

  /// add(1), and a goroutine that runs f and then calls done(), also when it ends by goexit(). If f
  /// throws, that is a panic as ever.
  template <class F>
  [[gnu::always_inline]] void go(F&& f) {
    add(1);
    try {
      weft::go([this, f = std::forward<F>(f)]() mutable {
        struct at_end {
          wait_group* self;
          ~at_end() { self->done(); }
        } const e{this};
        auto g = std::move(f);  // gone before done(): its destructor may use what the waiter owns
        std::move(g)();
      });
    } catch (...) {
      add(-1);
      throw;
    }
  }

 private:
  WEFT_EXPORT bool wait_within(detail::limit l);

  // Storage of rt::wait_group_core (src/sync/wait_group_core.h), which starts as zeros but for who made it.
  [[maybe_unused]] const void* made_by_;
  [[maybe_unused]] std::uint64_t state_ = 0;
  [[maybe_unused]] void* waiters_ = nullptr;
  [[maybe_unused]] void* timed_[2] = {};
};

}  // namespace weft
