// See sync/lock_pairs.h.
#include "sync/lock_pairs.h"

#include <utility>

namespace weft::rt {

namespace {

struct kept_pair : lock_pair {
  std::uint32_t round = 0;  // the last search that came here,
  std::uint16_t start = 0;  // … and by which pair it began
  std::uint16_t next = 0;   // the next pair of this bucket, or that is free, plus 1
  std::uint16_t next_by_second = 0;
};

constexpr std::size_t kPairs = 16384;
constexpr std::size_t kBuckets = 4096;

constinit kept_pair pairs[kPairs]{};            // guarded by lockcheck's lock, as all of these
constinit std::size_t pair_count = 0;           // ever used
constinit std::uint16_t free_pairs = 0;         // of these: an index plus 1
constinit std::uint16_t by_first[kBuckets]{};   // a pair's index plus 1
constinit std::uint16_t by_second[kBuckets]{};  // likewise
constinit std::uint32_t rounds = 0;
constinit std::uint16_t to_visit[kPairs]{};  // by the search

std::uint16_t& bucket_by_first(const void* lock) { return by_first[lock_hash(lock) % kBuckets]; }
std::uint16_t& bucket_by_second(const void* lock) { return by_second[lock_hash(lock) % kBuckets]; }

bool is_kept(const lock_pair& seen) {
  for (std::uint16_t i = bucket_by_first(seen.first); i != 0; i = pairs[i - 1].next) {
    const kept_pair& p = pairs[i - 1];
    if (p.first == seen.first && p.second == seen.second) return true;
  }
  return false;
}

// Whether a lock was ever taken, in steps, while another was held. Breadth first, each pair once: those who
// lock all parts of a table at once leave a graph with more ways through it than can be walked.
class path_search {
 public:
  // The first step of the shortest way, or null.
  const kept_pair* run(const void* from, const void* to) {
    ++rounds;
    visit(from, to, nullptr);
    for (std::size_t i = 0; i < waiting_ && found_ == nullptr; ++i) {
      const kept_pair& here = pairs[to_visit[i]];
      visit(here.second, to, &pairs[here.start]);
    }
    return found_;
  }

 private:
  void visit(const void* lock, const void* to, const kept_pair* start) {
    for (std::uint16_t i = bucket_by_first(lock); i != 0 && found_ == nullptr;
         i = pairs[i - 1].next) {
      kept_pair& p = pairs[i - 1];
      if (p.first != lock || p.round == rounds) continue;
      p.round = rounds;
      const kept_pair* const begin = start != nullptr ? start : &p;
      p.start = static_cast<std::uint16_t>(begin - pairs);
      to_visit[waiting_++] = static_cast<std::uint16_t>(i - 1);
      if (p.second == to) found_ = begin;
    }
  }

  std::size_t waiting_ = 0;
  const kept_pair* found_ = nullptr;
};

// Null: there is no room.
kept_pair* new_pair() {
  if (free_pairs != 0) {
    kept_pair& p = pairs[free_pairs - 1];
    free_pairs = p.next;
    return &p;
  }
  return pair_count < kPairs ? &pairs[pair_count++] : nullptr;
}

void link_pair(kept_pair& p) {
  const auto index = static_cast<std::uint16_t>(&p - pairs + 1);
  p.next = std::exchange(bucket_by_first(p.first), index);
  p.next_by_second = std::exchange(bucket_by_second(p.second), index);
}

void take_off(std::uint16_t* link, std::uint16_t kept_pair::*next, const kept_pair& p) {
  while (&pairs[*link - 1] != &p) link = &(pairs[*link - 1].*next);
  *link = p.*next;
}

void drop_pair(kept_pair& p) {
  take_off(&bucket_by_first(p.first), &kept_pair::next, p);
  take_off(&bucket_by_second(p.second), &kept_pair::next_by_second, p);
  p = {};
  p.next = std::exchange(free_pairs, static_cast<std::uint16_t>(&p - pairs + 1));
}

}  // namespace

lock_order note_lock_pair(const lock_pair& seen, lock_pair& back) noexcept {
  kept_pair* const fresh = is_kept(seen) ? nullptr : new_pair();
  if (fresh == nullptr) return lock_order::known;
  *fresh = {};
  static_cast<lock_pair&>(*fresh) = seen;
  const kept_pair* const way =
      seen.first == seen.second ? fresh : path_search().run(seen.second, seen.first);
  if (way != nullptr) back = *way;
  link_pair(*fresh);
  return way != nullptr ? lock_order::inverted : lock_order::new_pair;
}

void forget_lock_pairs(const void* lock) noexcept {
  for (std::uint16_t i = bucket_by_first(lock); i != 0;) {
    kept_pair& p = pairs[i - 1];
    i = p.next;
    if (p.first == lock) drop_pair(p);
  }
  for (std::uint16_t i = bucket_by_second(lock); i != 0;) {
    kept_pair& p = pairs[i - 1];
    i = p.next_by_second;
    if (p.second == lock) drop_pair(p);
  }
}

}  // namespace weft::rt
