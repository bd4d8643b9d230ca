// See sync/lockcheck.h.
#include "sync/lockcheck.h"

#include <cstddef>

#include <weft/detail/made.h>
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
  lock_mode mode;
};
struct lock_pair {
  const void *first, *second;
  std::uint64_t who;
  const void* site;     // where the second was locked
  std::uint32_t round;  // the last search that came here,
  std::uint16_t start;  // … and by which pair it began
  std::uint16_t next;   // the next pair of this bucket, plus 1
};

struct known_object {
  const void* object;
  object_origin origin;
  bool paired;  // there are pairs with it
};

constexpr std::size_t kHeld = 4096;
constexpr std::size_t kKnown = 16384;
constexpr std::size_t kProbes = 16;
constexpr std::size_t kPairs = 16384;
constexpr std::size_t kBuckets = 4096;

constinit ranked_lock table_lock{lock_rank::leaf};
constinit held_lock held[kHeld]{};  // guarded by table_lock, as all of these
constinit std::size_t held_count = 0;
constinit known_object known[kKnown]{};
constinit std::size_t evictions = 0;
constinit lock_pair pairs[kPairs]{};
constinit std::size_t pair_count = 0;
constinit std::uint16_t buckets[kBuckets]{};  // by the first lock: a pair's index plus 1
constinit std::uint32_t rounds = 0;
constinit lock_reports reports;  // constant after boot

std::size_t hash_of(const void* lock) {
  return (reinterpret_cast<std::uintptr_t>(lock) * 0x9e3779b97f4a7c15) >> 48;
}
std::uint16_t& bucket_of(const void* first) { return buckets[hash_of(first) % kBuckets]; }

// The entry of an object, or a free one; null: there is no room.
WEFT_NO_TSAN known_object* find_known(const void* object) {
  const std::size_t start = hash_of(object) % kKnown;
  for (std::size_t i = 0; i < kProbes; ++i) {
    known_object& k = known[(start + i) % kKnown];
    if (k.object == object || k.object == nullptr) return &k;
  }
  return nullptr;
}

// The same, with room: nobody says when an object is gone, so that of a full row one has to go.
known_object& know(const void* object) {
  known_object* k = find_known(object);
  if (k == nullptr) {
    k = &known[(hash_of(object) + evictions++ % kProbes) % kKnown];
    *k = {};
  }
  k->object = object;
  return *k;
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

void link_pair(std::size_t index) {
  std::uint16_t& bucket = bucket_of(pairs[index].first);
  pairs[index].next = bucket;
  bucket = static_cast<std::uint16_t>(index + 1);
}

// Remembers the pair; true: there is something to report. `wanted`: what is about to be locked.
bool add_pair(const held_lock& h, const held_lock& wanted, lock_reports::inversion& found) {
  const auto& [lock, who, site, gp, mode] = wanted;
  const bool again = h.lock == lock;
  if (again && (h.mode != lock_mode::shared || mode != lock_mode::shared)) {
    found = {who, who, lock, lock, h.site, site, nullptr, h.mode, mode};
    return true;
  }
  if (find_pair(h.lock, lock) != nullptr || pair_count == kPairs) return false;
  const lock_pair here = {h.lock, lock, who, site, 0, 0, 0};
  const lock_pair* back = again ? &here : path_search().run(lock, h.lock);
  if (back != nullptr) {
    found = {who, back->who, h.lock, lock, h.site, site, back->site, h.mode, mode};
  }
  pairs[pair_count] = here;
  link_pair(pair_count++);
  know(h.lock).paired = true;
  know(lock).paired = true;
  return back != nullptr;
}

// It is gone, and what was at its address says nothing about the next one.
void forget(const void* lock) {
  std::size_t kept = 0;
  for (std::uint16_t& bucket : buckets) bucket = 0;
  for (std::size_t i = 0; i < pair_count; ++i) {
    if (pairs[i].first == lock || pairs[i].second == lock) continue;
    pairs[kept] = pairs[i];
    link_pair(kept++);
  }
  pair_count = kept;
}

// Of several readers, the caller; or else anybody: one may lock and another unlock.
void drop_held(const void* lock, lock_mode mode, std::uint64_t who) {
  std::size_t found = held_count;
  for (std::size_t i = held_count; i-- > 0;) {
    if (held[i].lock != lock || held[i].mode != mode) continue;
    found = i;
    if (held[i].owner == who) break;
  }
  if (found < held_count) held[found] = held[--held_count];
}

void release_all(const void* lock) {
  for (std::size_t i = held_count; i-- > 0;) {
    if (held[i].lock == lock) held[i] = held[--held_count];
  }
}

bool lies_on(const G* gp, const void* object) {
  const auto* at = static_cast<const std::byte*>(object);
  return gp != nullptr && at >= gp->stk.lo && at < gp->stk.hi;
}

}  // namespace

void set_lock_reports(const lock_reports& wanted) noexcept { reports = wanted; }

const void* lock_site(const void* near) noexcept {
  return reports.user_call != nullptr ? reports.user_call(near) : near;
}

void lockcheck_wants(const void* lock, const void* site, lock_mode mode) noexcept {
  const std::uint64_t who = detail::this_thread_id();
  const held_lock wanted{lock, who, site, nullptr, mode};
  lock_reports::inversion found[4];
  std::size_t count = 0;
  {
    const inside here;
    const scoped_lock guard(table_lock);
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
  if (held_count < kHeld) held[held_count++] = {lock, who, site, gp, mode};
  if (known_object& k = know(lock); k.origin.first_lock == nullptr) k.origin.first_lock = site;
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

WEFT_NO_TSAN object_origin lockcheck_origin(const void* object) noexcept {
  const known_object* k = detail::lock_checks ? find_known(object) : nullptr;
  return k != nullptr && k->object == object ? k->origin : object_origin{};
}

}  // namespace weft::rt

namespace weft::detail {

// Of what lies on the maker's stack reports say whose that is; only what was known of its address has to go.
void note_made(const void* object) noexcept {
  using namespace rt;  // NOLINT: its tables
  const G* gp = current_goroutine();
  const void* const site = lies_on(gp, object) ? nullptr : lock_site(__builtin_return_address(0));
  const inside here;
  const rt::scoped_lock guard(table_lock);
  known_object* k = find_known(object);
  if (k == nullptr || k->object == nullptr) {
    if (site == nullptr) return;
    k = &know(object);
  }
  if (k->paired) forget(object);
  if (k->origin.first_lock != nullptr) release_all(object);
  *k = {object, {site, nullptr}, false};
}

}  // namespace weft::detail
