// weft::task_group over a wait group, a context and, for the limit, a channel with as many places.
//
// The first exception is guarded by a mutex, not handed over by the wait group: several may wait, of whom one
// takes it, and those who have returned may have started tasks that fail meanwhile.
#include <string>

#include <weft/detail/rethrow.h>
#include <weft/panic.h>
#include <weft/task_group.h>

#include "fiber/unwind.h"
#include "sync/context_node.h"
#include "sync/count_gate.h"

namespace weft {

namespace {

rt::count_gate& gate_of(wait_group* tasks) { return *reinterpret_cast<rt::count_gate*>(tasks); }

}  // namespace

void task_group::begin(const context& parent) {
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
  const std::exception_ptr mine = std::current_exception();
  {
    const std::lock_guard<mutex> held(mutex_);
    if (first_ != nullptr) {
      return;
    }
    first_ = mine;
  }
  cancel_(mine);
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
  std::exception_ptr e;
  {
    const std::lock_guard<mutex> held(mutex_);
    e.swap(first_);
  }
  if (e != nullptr) {
    detail::rethrow_carried(e);
  }
}

}  // namespace weft
