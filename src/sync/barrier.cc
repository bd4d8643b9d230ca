// weft::barrier over its core.
#include <weft/barrier.h>

#include "sched/park.h"
#include "sync/barrier_core.h"

namespace weft::detail {

namespace {

using core = rt::barrier_core<rt::waiter>;
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
  rt::waiter* list = nullptr;
  for (rt::waiter* next = core_of(this).begin_next(); rt::waiter* w = next;) {
    next = w->next;
    w->next = list;
    list = w;
  }
  while (rt::waiter* w = list) {
    list = w->next;
    rt::wake(w);
  }
}

void barrier::wait(std::uint32_t phase) const {
  core& c = core_of(this);
  ticket my{&c, phase};
  if (!c.passed(phase)) {
    rt::waiter w;
    rt::block(w, commit, &my, c.address(), rt::wait_reason::barrier_wait);
  }
}

}  // namespace weft::detail
