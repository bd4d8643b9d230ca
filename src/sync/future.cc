// The untyped part of futures: who may store a result, and waiting for it.
//
// Who may do what is decided in sync/future_core.h; the result is published by a gate that counts to one
// (sync/wait_group_core.h).
#include <weft/detail/future_state.h>

#include "sched/at_exit.h"
#include "sync/context_node.h"
#include "sync/count_gate.h"
#include "sync/future_core.h"

namespace weft::detail {

namespace {

using rt::count_gate;

template <class Storage>
rt::future_core& core_of(Storage* storage) {
  static_assert(sizeof(rt::future_core) == sizeof(Storage));
  return *reinterpret_cast<rt::future_core*>(storage);
}

template <class Storage>
count_gate& gate_of(Storage* storage) {
  static_assert(sizeof(count_gate) == sizeof(Storage));
  return *reinterpret_cast<count_gate*>(storage);
}

[[noreturn]] void fail(std::future_errc e) { throw std::future_error(e); }

struct publish_later : rt::exit_hook {
  future_state* state;
};

void publish_now(rt::exit_hook* h) {
  auto* p = static_cast<publish_later*>(h);
  p->state->publish();
  p->state->release();
  delete p;
}

}  // namespace

void future_state::release() noexcept {
  if (!core_of(&core_).release()) {
    return;
  }
  if (joins_) {
    rt::wait(gate_of(&gate_), rt::wait_reason::future_wait);
  }
  methods_->destroy(this);
}

void future_state::claim() {
  if (!core_of(&core_).claim()) {
    fail(std::future_errc::promise_already_satisfied);
  }
}

void future_state::unclaim() noexcept { core_of(&core_).unclaim(); }

void future_state::publish() noexcept { static_cast<void>(rt::add(gate_of(&gate_), -1)); }

void future_state::publish_at_exit() {
  auto* later = new publish_later;
  later->state = this;
  later->run = publish_now;
  retain();
  rt::at_exit(*later);
}

void future_state::abandon() noexcept {
  if (!core_of(&core_).claim()) {
    return;
  }
  store(std::make_exception_ptr(std::future_error(std::future_errc::broken_promise)));
  publish();
}

void future_state::retrieve() {
  if (!core_of(&core_).retrieve()) {
    fail(std::future_errc::future_already_retrieved);
  }
}

// The first one runs it, the others wait for that.
void future_state::run_deferred() {
  if (deferred_ && core_of(&core_).retrieve()) {
    methods_->run_deferred(this);
  }
}

void future_state::wait() {
  run_deferred();
  rt::wait(gate_of(&gate_), rt::wait_reason::future_wait);
}

bool future_state::wait(const context& ctx) {
  run_deferred();
  return rt::wait_until(gate_of(&gate_), rt::wait_reason::future_wait, rt::limit_of(ctx));
}

std::future_status future_state::wait_until(std::int64_t deadline) {
  if (deferred_ && !ready()) {
    return std::future_status::deferred;
  }
  return rt::wait_until(gate_of(&gate_), rt::wait_reason::future_wait, {deadline, nullptr})
             ? std::future_status::ready
             : std::future_status::timeout;
}

bool future_state::ready() const noexcept { return gate_of(const_cast<gate*>(&gate_)).zero(); }

}  // namespace weft::detail
