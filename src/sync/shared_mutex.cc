// weft::shared_mutex over its core.
#include <weft/shared_mutex.h>

#include "base/fatal.h"
#include "sync/context_node.h"
#include "sync/lock_env.h"
#include "sync/lockcheck.h"
#include "sync/shared_mutex_core.h"

namespace weft {

namespace {

using core = rt::shared_mutex_core<rt::sleeper>;
using rt::lock_mode;
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

// False: the limit came first.
bool get_inside(core& c, const detail::limit& l) {
  if (c.try_lock() || spin_for([&c] { return c.try_lock(); })) {
    return true;
  }
  constexpr auto kReason = wait_reason::shared_mutex_lock;
  const rt::lock_wait measured;
  sleeper n;
  n.w.on = &c;
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

bool lock_for_writing(core& c, const detail::limit& l) {
  const bool locked = get_inside(c, l);
  if (locked) {
    c.note_writer(detail::this_owner());
  }
  return locked;
}

bool lock_for_reading(core& c, const detail::limit& l) {
  if (c.try_lock_shared() || spin_for([&c] { return c.try_lock_shared(); })) {
    return true;
  }
  constexpr auto kReason = wait_reason::shared_mutex_lock_shared;
  const rt::lock_wait measured;
  sleeper n;
  n.w.on = &c;
  if (!c.enlist_shared(n) || rt::sleep_until(n, kReason, rt::limit_of(l))) {
    return true;
  }
  if (c.give_up_shared(n)) {
    return false;
  }
  rt::settle(n, kReason);
  return true;
}

}  // namespace

bool shared_mutex::lock_until(detail::limit l) {
  if (!detail::lock_checks) [[likely]] {
    return lock_for_writing(core_of(this), l);
  }
  const void* const site = rt::lock_site(__builtin_return_address(0));
  const bool for_ever = rt::limit_of(l).none();
  if (for_ever) {
    rt::lockcheck_wants(this, site, lock_mode::exclusive);
    rt::lockcheck_got(this, site, lock_mode::queued);
  }
  const bool locked = lock_for_writing(core_of(this), l);
  if (for_ever) {
    rt::lockcheck_releases(this, lock_mode::queued);
  }
  if (locked) {
    rt::lockcheck_got(this, site, lock_mode::exclusive);
  }
  return locked;
}

bool shared_mutex::lock_shared_until(detail::limit l) {
  if (!detail::lock_checks) [[likely]] {
    return lock_for_reading(core_of(this), l);
  }
  const void* const site = rt::lock_site(__builtin_return_address(0));
  if (rt::limit_of(l).none()) {
    rt::lockcheck_wants(this, site, lock_mode::shared);
  }
  const bool locked = lock_for_reading(core_of(this), l);
  if (locked) {
    rt::lockcheck_got(this, site, lock_mode::shared);
  }
  return locked;
}

bool shared_mutex::try_lock() {
  const bool locked = core_of(this).try_lock();
  if (!locked) {
    return false;
  }
  core_of(this).note_writer(detail::this_owner());
  if (detail::lock_checks) [[unlikely]] {
    rt::lockcheck_got(this, rt::lock_site(__builtin_return_address(0)), lock_mode::exclusive);
  }
  return true;
}

bool shared_mutex::try_lock_shared() {
  const bool locked = core_of(this).try_lock_shared();
  if (locked && detail::lock_checks) [[unlikely]] {
    rt::lockcheck_got(this, rt::lock_site(__builtin_return_address(0)), lock_mode::shared);
  }
  return locked;
}

void shared_mutex::unlock() {
  if (detail::lock_checks) [[unlikely]] {
    rt::lockcheck_releases(this, lock_mode::exclusive);
  }
  const rt::inside here;  // as mutex.cc, unlock_contended()
  const core::outcome out = core_of(this).unlock();
  if (out.misuse) [[unlikely]] {
    rt::fatal("sync: Unlock of unlocked RWMutex", rt::user_fault);
  }
  rouse_all(out.rouse);
}

void shared_mutex::unlock_shared() {
  if (detail::lock_checks) [[unlikely]] {
    rt::lockcheck_releases(this, lock_mode::shared);
  }
  const rt::inside here;  // as mutex.cc, unlock_contended()
  const core::outcome out = core_of(this).unlock_shared();
  if (out.misuse) [[unlikely]] {
    rt::fatal("sync: RUnlock of unlocked RWMutex", rt::user_fault);
  }
  rouse_all(out.rouse);
}

}  // namespace weft
