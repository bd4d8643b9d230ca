// Structured concurrency: goroutines that end before their group does.
#pragma once

#include <exception>
#include <type_traits>
#include <utility>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/detail/export.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/wait_group.h>

namespace weft {

/// A group of goroutines that are waited for together (Go's errgroup). The first exception that leaves
/// one of them cancels the context of the group and comes out of wait().
///
///     weft::task_group g(ctx);
///     for (auto& url : urls) g.run([&, c = g.ctx()] { fetch(c, url); });
///     g.wait();
///
/// The destructor waits, too. An exception that nobody has taken by wait() then is a panic, unless
/// another one is on its way already; in that case the tasks are cancelled first.
///
/// Tasks may call run(), but not wait(): it would wait for itself.
class task_group {
 public:
  [[gnu::always_inline]] explicit task_group(context parent = context::background())
      : cancel_(context_), unwinding_(std::uncaught_exceptions()) {
    begin(parent);
  }
  WEFT_EXPORT ~task_group();
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Cancelled when a task fails, and when wait() has returned.
  context ctx() const { return context_; }

  /// Starts f as a goroutine; waits for a place first, if there is a limit.
  template <class F>
  void run(F&& f) {
    enter();
    start(std::forward<F>(f));
  }
  /// Unless ctx is cancelled before there is a place; false then.
  template <class F>
  bool run(const context& ctx, F&& f) {
    if (!enter(ctx)) {
      return false;
    }
    start(std::forward<F>(f));
    return true;
  }
  /// Only if a place is free.
  template <class F>
  bool try_run(F&& f) {
    if (!try_enter()) {
      return false;
    }
    start(std::forward<F>(f));
    return true;
  }

  /// At most n tasks at a time; negative: any number. Throws panic_error while tasks run.
  WEFT_EXPORT void set_limit(int n);

  /// Until all tasks have ended. Rethrows the first exception, once: if several wait, one of them gets it. The
  /// group can be used again, but its context stays cancelled.
  WEFT_EXPORT void wait();
  /// The same with a limit; false if that came first. The tasks go on then, and the destructor waits.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& d) {
    return wait_within(detail::deadline_after(d));
  }
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& t) {
    return detail::attempt_until(t,
                                 [this](std::int64_t deadline) { return wait_within(deadline); });
  }
  bool wait(const context& until) { return wait_within(until); }

  /// Asks the tasks to end.
  void cancel() const noexcept { cancel_(nullptr); }

 private:
  WEFT_EXPORT void begin(const context& parent);
  WEFT_EXPORT void enter();
  WEFT_EXPORT bool enter(const context& ctx);
  WEFT_EXPORT bool wait_within(detail::limit l);
  void finish();
  WEFT_EXPORT bool try_enter();
  WEFT_EXPORT void leave() noexcept;
  WEFT_EXPORT void fail() noexcept;  // by the exception that is being handled

  template <class F>
  void start(F&& f) {
    struct place {  // also if the task calls goexit()
      task_group* group;
      explicit place(task_group* g) noexcept : group(g) {}
      place(place&& other) noexcept : group(std::exchange(other.group, nullptr)) {}
      ~place() {
        if (group != nullptr) group->leave();
      }
    };
    go([p = place(this), f = std::decay_t<F>(std::forward<F>(f))]() mutable {
      const place last = std::move(p);
      auto task = std::move(f);  // gone before its place is
      try {
        std::move(task)();
      } catch (...) {
        last.group->fail();  // goexit() is no failure, and goes on
      }
    });
  }

  context context_;
  cancel_cause_func cancel_;
  wait_group tasks_;
  chan<unit> places_{nullptr};  // nil: no limit
  int limit_ = -1;
  int unwinding_;  // exceptions on their way when it was made
  mutex mutex_;
  std::exception_ptr first_;  // guarded by it; until a wait() takes it
};

}  // namespace weft
