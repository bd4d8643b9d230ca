// Who takes the next step, and the fibers that take it. See engine.h.
#undef _FORTIFY_SOURCE  // its longjmp takes a jump between stacks for an attack
#include <cstdlib>
#include <ucontext.h>
#include <utility>

#include "model/engine.h"

namespace weft::model {
namespace {

constexpr std::size_t kStack = 128 << 10;
using run_state = modelled_thread::run_state;

}  // namespace

bool engine::runnable(const modelled_thread& t) const {
  return t.state == run_state::ready ||
         (t.state == run_state::blocked && t.is_ready != nullptr && t.is_ready(t.waits_for));
}

// Who may take the next step. The thread that took the last one comes first, so that the first
// execution runs each thread as far as it goes.
int engine::candidates(candidate* out, bool& last_goes_on) {
  int n = 0;
  last_goes_on = last_ >= 0 && runnable(threads_[static_cast<std::size_t>(last_)]);
  if (last_goes_on) out[n++] = {last_, wake_reason::ready};
  if (last_goes_on && preemptions_ >= bounds_.preemptions) return n;
  for (int t = 0; t < thread_count_; ++t) {
    if (t != last_ && runnable(threads_[static_cast<std::size_t>(t)])) {
      out[n++] = {t, wake_reason::ready};
    }
  }
  if (n == 0) {  // everybody who could run has yielded to the others
    for (int t = 0; t < thread_count_; ++t) {
      if (threads_[static_cast<std::size_t>(t)].state == run_state::yielded) {
        out[n++] = {t, wake_reason::ready};
      }
    }
  }
  const bool others = n > 0;
  for (int t = 0; t < thread_count_; ++t) {
    const auto& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state != run_state::blocked || runnable(thread)) continue;
    const bool must_end = !others && !thread.service;
    if (thread.timed && (must_end || timeouts_ < bounds_.timeouts)) {
      out[n++] = {t, wake_reason::timeout};
    } else if (thread.wakes_spuriously && others && spurious_ < bounds_.spurious) {
      out[n++] = {t, wake_reason::spurious};
    }
  }
  return n;
}

int engine::pick_next() {
  candidate options[2 * kThreads];
  bool last_goes_on = false;
  const int n = candidates(options, last_goes_on);
  if (n == 0) return -1;
  const candidate chosen = options[choose(n)];
  if (last_goes_on && chosen.thread != last_) ++preemptions_;
  if (chosen.reason == wake_reason::timeout) ++timeouts_;
  if (chosen.reason == wake_reason::spurious) ++spurious_;
  for (int t = 0; t < thread_count_; ++t) {
    auto& thread = threads_[static_cast<std::size_t>(t)];
    thread.yields_to &= static_cast<std::uint8_t>(~(1 << chosen.thread));
    if (thread.state == run_state::yielded && thread.yields_to == 0) {
      thread.state = run_state::ready;
    }
  }
  auto& next = threads_[static_cast<std::size_t>(chosen.thread)];
  next.state = run_state::ready;
  next.reason = chosen.reason;
  last_ = chosen.thread;
  return chosen.thread;
}

void engine::point() {
  if (!in_thread()) return;
  if (++steps_ > bounds_.max_steps) fail("livelock: the execution does not end");
  const int next = pick_next();
  if (next != current_) resume(next);
}

void engine::point(usage& u, bool writes) {
  if (!in_thread()) return;
  if (interrupt != nullptr) interrupt();
  const auto self = static_cast<std::uint8_t>(1 << current_);
  u.users |= self;
  if (writes) u.writers |= self;
  if (!u.contended && u.writers != 0 && (u.users & (u.users - 1)) != 0) {
    u.contended = again_ = true;
    current_ = kMain;
    longjmp(main_context_, 1);
  }
  if (u.contended) return point();
  if (++steps_ > bounds_.max_steps) fail("livelock: the execution does not end");
}

void engine::yield() {
  if (!in_thread()) return;
  auto& t = me();
  t.yields_to = 0;
  for (int other = 0; other < thread_count_; ++other) {
    if (other != current_ && runnable(threads_[static_cast<std::size_t>(other)])) {
      t.yields_to |= static_cast<std::uint8_t>(1 << other);
    }
  }
  t.state = run_state::yielded;
  point();
}

wake_reason engine::block(bool (*is_ready)(const void*), const void* arg, const char* where,
                          bool timed, bool spurious) {
  if (!in_thread()) {
    check(is_ready(arg), "the set-up or the final check would block");
    return wake_reason::ready;
  }
  auto& t = me();
  t.state = run_state::blocked;
  t.is_ready = is_ready;
  t.waits_for = arg;
  t.waits_in = where;
  t.timed = timed;
  t.wakes_spuriously = spurious;
  point();
  return t.reason;
}

void engine::fail(std::string why) {
  if (!failed_) {
    failed_ = true;
    failure_ = std::move(why);
  }
  current_ = kMain;
  longjmp(main_context_, 1);  // the failing stack is abandoned
}

// --- fibers ----------------------------------------------------------------------------------

void engine::resume(int next) {
  const int self = current_;
  if (next < 0) {  // nobody can go on; main finds out whether that is the end or a deadlock
    current_ = kMain;
    longjmp(main_context_, 1);
  }
  auto& to = threads_[static_cast<std::size_t>(next)];
  current_ = next;
  if (self != kMain && setjmp(threads_[static_cast<std::size_t>(self)].context) != 0) return;
  if (to.started) longjmp(to.context, 1);
  to.started = true;
  ucontext_t fresh;
  getcontext(&fresh);
  if (to.stack == nullptr) to.stack = std::make_unique<char[]>(kStack);
  fresh.uc_stack.ss_sp = to.stack.get();
  fresh.uc_stack.ss_size = kStack;
  fresh.uc_link = nullptr;
  makecontext(&fresh, &engine::fiber_main, 0);
  setcontext(&fresh);
  std::abort();
}

void engine::fiber_main() { get().fiber_loop(); }

// A fiber outlives an execution: when its body has ended it waits to be given the next one.
void engine::fiber_loop() {
  for (;;) {
    auto& t = me();
    t.body();
    t.state = run_state::done;
    if (tracing_) trace("ends");
    const int next = pick_next();
    if (setjmp(t.context) == 0) {
      if (next < 0) {
        current_ = kMain;
        longjmp(main_context_, 1);
      }
      current_ = kMain;  // this fiber's context is saved already; resume must not save it again
      resume(next);
    }
  }
}

// After a failure fibers stand in the middle of their bodies: start them afresh next time.
void engine::reset_fibers() {
  for (auto& t : threads_) t.started = false;
}

}  // namespace weft::model
