// weft::shared_mutex over its core.
#include <weft/shared_mutex.h>

#include "base/fatal.h"
#include "sync/context_node.h"
#include "sync/lock_env.h"
#include "sync/shared_mutex_core.h"

namespace weft {

namespace {

using core = rt::shared_mutex_core<rt::sleeper>;
using rt::sleeper;
using rt::wait_reason;
static_assert(sizeof(core) == sizeof(shared_mutex) && alignof(core) == alignof(shared_mutex));

core& core_of(shared_mutex* self) { return *reinterpret_cast<core*>(self); }

void rouse_all(sleeper* next) {
  while (sleeper* n = next) {
    next = n->next;
    rt::rouse(n);
  }
}

// Looks a few times before it queues: sections are often short, and a park is two switches.
template <class Try>
bool spin_for(Try&& attempt) {
  for (int round = 0; rt::can_spin(round); ++round) {
    rt::spin();
    if (attempt()) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool shared_mutex::try_lock() { return core_of(this).try_lock(); }
bool shared_mutex::try_lock_shared() { return core_of(this).try_lock_shared(); }

bool shared_mutex::lock_until(detail::limit l) {
  core& c = core_of(this);
  if (c.try_lock() || spin_for([&c] { return c.try_lock(); })) {
    return true;
  }
  constexpr auto kReason = wait_reason::shared_mutex_lock;
  const rt::lock_wait measured;
  sleeper n;
  n.w.on = this;
  if (!c.enlist(n) || rt::sleep_until(n, kReason, rt::limit_of(l))) {
    return true;
  }
  bool mine;
  {
    const rt::inside here;
    const core::gave_up out = c.give_up(n);
    rouse_all(out.rouse);
    mine = out.mine;
  }
  if (!mine) {
    rt::settle(n, kReason);
  }
  return !mine;
}

bool shared_mutex::lock_shared_until(detail::limit l) {
  core& c = core_of(this);
  if (c.try_lock_shared() || spin_for([&c] { return c.try_lock_shared(); })) {
    return true;
  }
  constexpr auto kReason = wait_reason::shared_mutex_lock_shared;
  const rt::lock_wait measured;
  sleeper n;
  n.w.on = this;
  if (!c.enlist_shared(n) || rt::sleep_until(n, kReason, rt::limit_of(l))) {
    return true;
  }
  if (c.give_up_shared(n)) {
    return false;
  }
  rt::settle(n, kReason);
  return true;
}

void shared_mutex::unlock() {
  const rt::inside here;  // as mutex.cc, unlock_contended()
  const core::outcome out = core_of(this).unlock();
  if (out.misuse) [[unlikely]] {
    rt::fatal("sync: Unlock of unlocked RWMutex", rt::user_fault);
  }
  rouse_all(out.rouse);
}

void shared_mutex::unlock_shared() {
  const rt::inside here;  // as mutex.cc, unlock_contended()
  const core::outcome out = core_of(this).unlock_shared();
  if (out.misuse) [[unlikely]] {
    rt::fatal("sync: RUnlock of unlocked RWMutex", rt::user_fault);
  }
  rouse_all(out.rouse);
}

}  // namespace weft
