// weft::task_group over a wait group, a context and, for the limit, a channel with as many places.
#include <string>

#include <weft/detail/rethrow.h>
#include <weft/panic.h>
#include <weft/task_group.h>

#include "base/atomic.h"
#include "fiber/unwind.h"
#include "sync/context_node.h"
#include "sync/count_gate.h"

namespace weft {

namespace {

rt::atomic<unsigned>& shared(unsigned& flag) {
  static_assert(sizeof(rt::atomic<unsigned>) == sizeof(unsigned));
  return *reinterpret_cast<rt::atomic<unsigned>*>(&flag);
}

rt::count_gate& gate_of(wait_group* tasks) { return *reinterpret_cast<rt::count_gate*>(tasks); }

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
  if (const std::int32_t active = gate_of(&tasks_).pending()) {
    throw panic_error("errgroup: modify limit while " + std::to_string(active) +
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

bool task_group::enter(const context& ctx) {
  if (limit_ >= 0 && !places_.send(unit{}, ctx)) {
    return false;
  }
  tasks_.add(1);
  return true;
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
  finish();
}

bool task_group::wait_within(detail::limit l) {
  if (!rt::wait_until(gate_of(&tasks_), rt::wait_reason::wait_group_wait, rt::limit_of(l))) {
    return false;
  }
  finish();
  return true;
}

// All tasks have ended.
void task_group::finish() {
  cancel();
  if (std::exception_ptr e = std::exchange(first_, nullptr)) {
    shared(failed_).store(0, WEFT_ORDER(TG0, relaxed));  // order: relaxed, no task is left
    detail::rethrow_carried(e);
  }
}

}  // namespace weft
