// weft::counting_semaphore over its core.
#include <weft/semaphore.h>

#include "sync/context_node.h"
#include "sync/sema_core.h"
#include "sync/sleeper.h"

namespace weft::detail {

namespace {

using core = rt::sema_core<rt::sleeper>;
using rt::sleeper;
static_assert(sizeof(core) == sizeof(semaphore) && alignof(core) == alignof(semaphore));

core& core_of(semaphore* self) { return *reinterpret_cast<core*>(self); }

}  // namespace

bool semaphore::try_acquire() noexcept { return core_of(this).try_acquire(); }

bool semaphore::acquire_until(limit l) {
  core& c = core_of(this);
  sleeper n;
  n.w.on = this;
  if (c.try_acquire() || !c.enlist(n)) {
    return true;
  }
  constexpr auto kReason = rt::wait_reason::semacquire;
  if (rt::sleep_until(n, kReason, rt::limit_of(l))) {
    return true;
  }
  if (c.give_up(n)) {
    return false;
  }
  rt::settle(n, kReason);
  return true;
}

void semaphore::release(std::ptrdiff_t n) {
  const rt::inside here;  // as mutex.cc, unlock_contended()
  sleeper* next = core_of(this).release(static_cast<std::uint32_t>(n));
  while (sleeper* w = next) {
    next = w->next;
    rt::rouse(w);
  }
}

}  // namespace weft::detail
