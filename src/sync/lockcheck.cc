// See sync/lockcheck.h.
#include "sync/lockcheck.h"

#include <cerrno>
#include <cstddef>

#include <weft/mutex.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "fiber/sanitizer.h"
#include "gmp/g.h"
#include "gmp/inside.h"
#include "sched/sched_api.h"
#include "sync/lock_pairs.h"
#include "sync/made_word.h"

namespace weft::rt {

namespace {

struct held_lock {
  const void* lock = nullptr;
  std::uint64_t owner = 0;
  const void* site = nullptr;
  const G* gp = nullptr;
  lock_mode mode = lock_mode::exclusive;
};

constexpr std::size_t kHeld = 4096;

constinit ranked_lock table_lock{lock_rank::leaf};
constinit held_lock held[kHeld]{};  // guarded by table_lock, as all of these
constinit std::size_t held_count = 0;
constinit std::size_t unheld_readers = 0;  // who found the table full
constinit lock_reports reports;            // constant after boot

// Of one that was not met before whatever is known is about another, which was at its address.
void meet(const void* lock, const void* site) {
  auto& word = *static_cast<made_word*>(const_cast<void*>(lock));
  if (word.met()) return;
  forget_lock_pairs(lock);
  for (std::size_t i = held_count; i-- > 0;) {
    if (held[i].lock == lock) held[i] = held[--held_count];
  }
  word.meet(site);
}

// Remembers the pair; true: there is something to report. `wanted`: what is about to be locked.
bool add_pair(const held_lock& h, const held_lock& wanted, lock_reports::inversion& found) {
  const auto& [lock, who, site, gp, mode] = wanted;
  const bool again = h.lock == lock;
  if (again && (h.mode != lock_mode::shared || mode != lock_mode::shared)) {
    found = {who, who, lock, lock, h.site, site, nullptr, h.mode, mode};
    return true;
  }
  lock_pair back;
  const lock_order order = note_lock_pair({h.lock, lock, who, site}, back);
  if (order == lock_order::known) return false;
  if (order == lock_order::inverted) {
    found = {who, back.who, h.lock, lock, h.site, site, back.site, h.mode, mode};
  }
  return order == lock_order::inverted;
}

// Of several readers, the caller; or else anybody: one may lock and another unlock. But not if it may be one whose
// lock found no room.
void drop_held(const void* lock, lock_mode mode, std::uint64_t who) {
  std::size_t found = held_count;
  for (std::size_t i = held_count; i-- > 0;) {
    if (held[i].lock != lock || held[i].mode != mode) continue;
    found = i;
    if (held[i].owner == who) break;
  }
  if (found == held_count) {
    unheld_readers -= mode == lock_mode::shared && unheld_readers > 0 ? 1 : 0;
    return;
  }
  if (held[found].owner != who && mode == lock_mode::queued) return;
  if (held[found].owner != who && mode == lock_mode::shared && unheld_readers > 0) {
    --unheld_readers;
    return;
  }
  held[found] = held[--held_count];
}

}  // namespace

void set_lock_reports(const lock_reports& wanted) noexcept { reports = wanted; }

// Not instrumented: errno is the thread's, and TSan sees goroutines.
WEFT_NO_TSAN const void* lock_site(const void* near) noexcept {
  if (reports.user_call == nullptr) return near;
  const int saved_errno = errno;  // files are looked into
  const void* const found = reports.user_call(near);
  errno = saved_errno;
  return found;
}

void lockcheck_wants(const void* lock, const void* site, lock_mode mode) noexcept {
  const std::uint64_t who = detail::this_thread_id();
  const held_lock wanted{lock, who, site, nullptr, mode};
  lock_reports::inversion found[4];
  std::size_t count = 0;
  {
    const inside here;
    const scoped_lock guard(table_lock);
    meet(lock, site);
    for (std::size_t i = 0; i < held_count && count < 4; ++i) {
      const held_lock& h = held[i];
      if (h.owner == who && h.mode != lock_mode::queued && add_pair(h, wanted, found[count])) {
        ++count;
      }
    }
  }
  for (std::size_t i = 0; i < count && reports.inverted != nullptr; ++i) reports.inverted(found[i]);
}

void lockcheck_got(const void* lock, const void* site, lock_mode mode) noexcept {
  const std::uint64_t who = detail::this_thread_id();
  const G* gp = current_goroutine();
  const inside here;
  const scoped_lock guard(table_lock);
  meet(lock, site);
  if (held_count < kHeld) {
    held[held_count++] = {lock, who, site, gp, mode};
  } else if (mode == lock_mode::shared) {
    ++unheld_readers;
  }
}

void lockcheck_releases(const void* lock, lock_mode mode) noexcept {
  const std::uint64_t who = detail::this_thread_id();
  const inside here;
  const scoped_lock guard(table_lock);
  drop_held(lock, mode, who);
}

lockcheck_pause::lockcheck_pause(const void* lock, const void* near) noexcept
    : lock_(detail::lock_checks ? lock : nullptr) {
  if (lock_ == nullptr) return;
  site_ = lock_site(near);
  lockcheck_releases(lock_);
}

lockcheck_pause::~lockcheck_pause() {
  if (lock_ == nullptr) return;
  lockcheck_wants(lock_, site_);
  lockcheck_got(lock_, site_);
}

// Not instrumented, and without the lock: its holder may never run again.
WEFT_NO_TSAN lock_owner lockcheck_next_owner(const void* lock, std::size_t& at) noexcept {
  while (at < held_count) {
    const held_lock h = held[at++];
    if (h.lock != lock) continue;
    const bool alive = h.gp != nullptr && h.gp->goid == h.owner && !h.gp->in(g_status::dead);
    return {h.owner, h.site, alive ? h.gp : nullptr, h.mode};
  }
  return {};
}

}  // namespace weft::rt
