// See sync/lockcheck.h.
#include "sync/lockcheck.h"

#include <cstddef>

#include <weft/mutex.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "fiber/sanitizer.h"
#include "gmp/g.h"
#include "gmp/inside.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

struct held_lock {
  const void* lock;
  std::uint64_t owner;
  const void* site;
  const G* gp;
};
struct lock_pair {
  const void *first, *second;
  std::uint64_t who;
  const void* site;     // where the second was locked
  std::uint32_t round;  // the last search that came here,
  std::uint16_t start;  // … and by which pair it began
  std::uint16_t next;   // the next pair of this bucket, plus 1
};

struct known_lock {
  const void* lock;
  const void* first_site;
};

constexpr std::size_t kHeld = 4096;
constexpr std::size_t kKnown = 16384;
constexpr std::size_t kProbes = 16;
constexpr std::size_t kPairs = 16384;
constexpr std::size_t kBuckets = 4096;

constinit ranked_lock table_lock{lock_rank::leaf};
held_lock held[kHeld];  // guarded by table_lock, as all of these
std::size_t held_count = 0;
known_lock known[kKnown];
lock_pair pairs[kPairs];
std::size_t pair_count = 0;
std::uint16_t buckets[kBuckets];  // by the first lock: a pair's index plus 1
std::uint32_t rounds = 0;
constinit lock_reports reports;  // constant after boot

std::size_t hash_of(const void* lock) {
  return (reinterpret_cast<std::uintptr_t>(lock) * 0x9e3779b97f4a7c15) >> 48;
}
std::uint16_t& bucket_of(const void* first) { return buckets[hash_of(first) % kBuckets]; }

// The entry of a lock, or a free one; null: there is no room.
WEFT_NO_TSAN known_lock* find_known(const void* lock) {
  const std::size_t start = hash_of(lock) % kKnown;
  for (std::size_t i = 0; i < kProbes; ++i) {
    known_lock& k = known[(start + i) % kKnown];
    if (k.lock == lock || k.lock == nullptr) return &k;
  }
  return nullptr;
}

lock_pair* find_pair(const void* first, const void* second) {
  for (std::uint16_t i = bucket_of(first); i != 0; i = pairs[i - 1].next) {
    lock_pair& p = pairs[i - 1];
    if (p.first == first && p.second == second) return &p;
  }
  return nullptr;
}

// Whether a lock was ever taken, in steps, while another was held. Breadth first, each pair once: those who
// lock all parts of a table at once leave a graph with more ways through it than can be walked.
class path_search {
 public:
  // The first step of the shortest way, or null.
  lock_pair* run(const void* from, const void* to) {
    ++rounds;
    visit(from, to, nullptr);
    for (std::size_t i = 0; i < waiting_ && found_ == nullptr; ++i) {
      const lock_pair& here = pairs[queue[i]];
      visit(here.second, to, &pairs[here.start]);
    }
    return found_;
  }

 private:
  void visit(const void* lock, const void* to, lock_pair* start) {
    for (std::uint16_t i = bucket_of(lock); i != 0 && found_ == nullptr; i = pairs[i - 1].next) {
      lock_pair& p = pairs[i - 1];
      if (p.first != lock || p.round == rounds) continue;
      p.round = rounds;
      lock_pair* const begin = start != nullptr ? start : &p;
      p.start = static_cast<std::uint16_t>(begin - pairs);
      queue[waiting_++] = static_cast<std::uint16_t>(i - 1);
      if (p.second == to) found_ = begin;
    }
  }

  static std::uint16_t queue[kPairs];
  std::size_t waiting_ = 0;
  lock_pair* found_ = nullptr;
};
std::uint16_t path_search::queue[kPairs];  // guarded by table_lock

// Remembers the pair; true: there is something to report.
bool add_pair(const held_lock& h, const void* lock, std::uint64_t who, const void* site,
              lock_reports::inversion& found) {
  if (find_pair(h.lock, lock) != nullptr || pair_count == kPairs) return false;
  const lock_pair* back = path_search().run(lock, h.lock);
  std::uint16_t& bucket = bucket_of(h.lock);
  pairs[pair_count++] = {h.lock, lock, who, site, 0, 0, bucket};
  bucket = static_cast<std::uint16_t>(pair_count);
  if (back == nullptr) return false;
  found = {who, back->who, h.lock, lock, h.site, site, back->site};
  return true;
}

}  // namespace

void set_lock_reports(const lock_reports& wanted) noexcept { reports = wanted; }

const void* lock_site(const void* near) noexcept {
  return reports.user_call != nullptr ? reports.user_call(near) : near;
}

void lockcheck_wants(const void* lock, const void* site) noexcept {
  const std::uint64_t who = detail::this_thread_id();
  lock_reports::inversion found[4];
  std::size_t count = 0;
  {
    const inside here;
    const scoped_lock guard(table_lock);
    for (std::size_t i = 0; i < held_count && count < 4; ++i) {
      const held_lock& h = held[i];
      if (h.owner != who) continue;
      if (h.lock == lock) {
        found[count++] = {who, who, lock, lock, h.site, site, nullptr};
      } else if (add_pair(h, lock, who, site, found[count])) {
        ++count;
      }
    }
  }
  for (std::size_t i = 0; i < count && reports.inverted != nullptr; ++i) reports.inverted(found[i]);
}

void lockcheck_got(const void* lock, const void* site) noexcept {
  const std::uint64_t who = detail::this_thread_id();
  const G* gp = current_goroutine();
  const inside here;
  const scoped_lock guard(table_lock);
  if (held_count < kHeld) held[held_count++] = {lock, who, site, gp};
  if (known_lock* entry = find_known(lock); entry != nullptr && entry->lock == nullptr) {
    *entry = {lock, site};
  }
}

void lockcheck_releases(const void* lock) noexcept {
  const inside here;
  const scoped_lock guard(table_lock);
  for (std::size_t i = held_count; i-- > 0;) {
    if (held[i].lock == lock) {
      held[i] = held[--held_count];
      return;
    }
  }
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
WEFT_NO_TSAN lock_owner lockcheck_owner(const void* lock) noexcept {
  for (std::size_t i = 0; i < held_count; ++i) {
    const held_lock h = held[i];
    if (h.lock != lock) continue;
    const bool alive = h.gp != nullptr && h.gp->goid == h.owner && !h.gp->in(g_status::dead);
    return {h.owner, h.site, alive ? h.gp : nullptr};
  }
  return {};
}

WEFT_NO_TSAN const void* lockcheck_first_lock(const void* lock) noexcept {
  const known_lock* k = detail::lock_checks ? find_known(lock) : nullptr;
  return k != nullptr && k->lock == lock ? k->first_site : nullptr;
}

}  // namespace weft::rt
