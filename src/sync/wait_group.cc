// weft::wait_group over its core. [WG-1]
#include <weft/panic.h>
#include <weft/wait_group.h>

#include "fiber/sanitizer.h"
#include "sched/park.h"
#include "sync/wait_group_core.h"

namespace weft {

namespace {

using core = rt::wait_group_core<rt::waiter>;
static_assert(sizeof(core) == sizeof(wait_group) && alignof(core) == alignof(wait_group));

core& core_of(wait_group* self) { return *reinterpret_cast<core*>(self); }

// In the order in which they came.
void wake_all(rt::waiter* newest_first) {
  rt::waiter* list = nullptr;
  while (rt::waiter* w = newest_first) {
    newest_first = w->next;
    w->next = list;
    list = w;
  }
  while (rt::waiter* w = list) {
    list = w->next;
    rt::wake(w);
  }
}

bool commit(rt::waiter* w, void* c) { return static_cast<core*>(c)->push(w); }

}  // namespace

void wait_group::add(int n) {
  const core::outcome done = core_of(this).add(n);
  if (done.negative) [[unlikely]] {
    throw panic_error("sync: negative WaitGroup counter");
  }
  if (done.wake != nullptr) [[unlikely]] {
    wake_all(done.wake);
  }
}

void wait_group::wait() {
  core& c = core_of(this);
  if (c.zero()) {
    return;
  }
  rt::waiter w;
  rt::block(w, commit, &c, c.address(), rt::wait_reason::wait_group_wait);
}

}  // namespace weft
