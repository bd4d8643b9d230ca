// weft::task_group over a wait group, a context and, for the limit, a channel with as many places.
#include <string>

#include <weft/detail/rethrow.h>
#include <weft/panic.h>
#include <weft/task_group.h>

#include "base/atomic.h"
#include "fiber/unwind.h"

namespace weft {

namespace {

rt::atomic<unsigned>& shared(unsigned& flag) {
  static_assert(sizeof(rt::atomic<unsigned>) == sizeof(unsigned));
  return *reinterpret_cast<rt::atomic<unsigned>*>(&flag);
}

}  // namespace

task_group::task_group(context parent)
    : context_(), cancel_(context_), unwinding_(std::uncaught_exceptions()) {
  auto [inner, cancel] = with_cancel_cause(parent);
  context_ = inner;
  cancel_ = cancel;
}

task_group::~task_group() {
  if (std::uncaught_exceptions() > unwinding_) {
    cancel();
    tasks_.wait();
    return;
  }
  wait();  // what it throws here is nobody's: a panic
}

void task_group::set_limit(int n) {
  if (places_ && places_.size() != 0) {
    throw panic_error("errgroup: modify limit while " + std::to_string(places_.size()) +
                      " goroutines in the group are still active");
  }
  limit_ = n;
  places_ = n < 0 ? chan<unit>(nullptr) : chan<unit>(static_cast<std::size_t>(n));
}

void task_group::enter() {
  if (limit_ >= 0) {
    places_.send(unit{});
  }
  tasks_.add(1);
}

bool task_group::try_enter() {
  if (limit_ >= 0 && !places_.try_send(unit{})) {
    return false;
  }
  tasks_.add(1);
  return true;
}

void task_group::leave() noexcept {
  if (limit_ >= 0) {
    places_.try_recv();
  }
  tasks_.done();
}

void task_group::fail() noexcept {
  if (rt::handling_goexit()) {
    return;
  }
  // order: relaxed, the flag alone decides; first_ is handed over by the wait group
  if (shared(failed_).exchange(1, WEFT_ORDER(TG0, relaxed)) == 0) {
    first_ = std::current_exception();
    cancel_(first_);
  }
}

void task_group::wait() {
  tasks_.wait();
  cancel();
  if (std::exception_ptr e = std::exchange(first_, nullptr)) {
    shared(failed_).store(0, WEFT_ORDER(TG0, relaxed));  // order: relaxed, no task is left
    detail::rethrow_carried(e);
  }
}

}  // namespace weft
