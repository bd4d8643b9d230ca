// weft::barrier over its core.
#include <weft/barrier.h>

#include "sync/barrier_core.h"
#include "sync/context_node.h"
#include "sync/count_gate.h"

namespace weft::detail {

namespace {

using core = rt::barrier_core<rt::waiter, rt::sleeper>;
static_assert(sizeof(core) == sizeof(barrier) && alignof(core) == alignof(barrier));

core& core_of(const barrier* self) { return *reinterpret_cast<core*>(const_cast<barrier*>(self)); }

struct ticket {
  core* c;
  std::uint32_t phase;
};

bool commit(rt::waiter* w, void* t) {
  const auto* my = static_cast<ticket*>(t);
  return my->c->push(w, my->phase);
}

}  // namespace

barrier::arrival barrier::arrive(std::ptrdiff_t n, bool drop) {
  const core::arrival a = core_of(this).arrive(static_cast<std::uint32_t>(n), drop ? 1 : 0);
  return {a.phase, a.completes};
}

void barrier::begin_next() {
  const rt::inside here;  // as mutex.cc, unlock_contended()
  const core::waiting all = core_of(this).begin_next();
  rt::wake_all(all.wake, all.rouse);
}

void barrier::wait(std::uint32_t phase) const {
  core& c = core_of(this);
  ticket my{&c, phase};
  if (!c.passed(phase)) {
    rt::waiter w;
    w.on = this;
    rt::block(w, commit, &my, c.address(), rt::wait_reason::barrier_wait);
  }
}

bool barrier::wait(std::uint32_t phase, limit until) const {
  const rt::wait_limit l = rt::limit_of(until);
  if (l.none()) {
    wait(phase);
    return true;
  }
  constexpr auto kReason = rt::wait_reason::barrier_wait;
  core& c = core_of(this);
  rt::sleeper n;
  n.w.on = this;
  if (c.passed(phase) || !c.push_limited(&n, phase) || rt::sleep_until(n, kReason, l)) {
    return true;
  }
  if (c.give_up(&n)) {
    return false;
  }
  rt::settle(n, kReason);
  return true;
}

}  // namespace weft::detail
