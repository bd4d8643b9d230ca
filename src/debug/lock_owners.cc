// See debug/lock_owners.h.
#include "debug/lock_owners.h"

#include "base/debug_vars.h"
#include "base/readable.h"
#include "debug/frame.h"
#include "debug/traceback.h"
#include "fiber/sanitizer.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "gmp/sched.h"
#include "sync/lock_env.h"
#include "sync/lockcheck.h"
#include "sync/shared_mutex_core.h"

namespace weft::rt {

namespace {

using shared_words = shared_mutex_core<sleeper>;

WEFT_NO_TSAN bool waits_to_read(const G& gp) {
  return gp.reason == wait_reason::shared_mutex_lock_shared;
}

// What the lock itself says.
struct lock_note {
  bool held = false;        // by one, who
  std::uint32_t owner = 0;  // … is this goroutine; 0: a plain thread
  std::uint32_t readers = 0;
};

bool is_there(const void* object, std::size_t size) {
  return object != nullptr && readable(reinterpret_cast<std::uintptr_t>(object), size);
}

// Of a mutex that may be gone by now: its waiter may have been woken meanwhile.
WEFT_NO_TSAN lock_note note_of(const G& gp) {
  const void* const lock = gp.awaited();
  if (gp.reason == wait_reason::mutex_lock) {
    if (!is_there(lock, sizeof(mutex_words))) return {};
    const auto& m = *static_cast<const mutex_words*>(lock);
    return {m.locked(), m.owner(), 0};
  }
  if (!is_there(lock, sizeof(shared_words))) return {};
  const shared_words::holders now = static_cast<const shared_words*>(lock)->inside_now();
  return {now.written, now.writer, now.readers};
}

// The owners that are wanted, by id.
class owner_table {
 public:
  void clear() {
    count_ = 0;
    for (entry& e : entries_) e = {};
  }
  bool empty() const { return count_ == 0; }
  void want(std::uint32_t id) {
    entry& e = entries_[place_of(id)];
    if (e.id == 0 && count_ < kMost) {
      e.id = id;
      ++count_;
    }
  }
  void offer(const G& gp) {
    entry& e = entries_[place_of(static_cast<std::uint32_t>(gp.goid))];
    if (e.id != 0) e.gp = &gp;
  }
  bool is_wanted(std::uint32_t id) const { return entries_[place_of(id)].id != 0; }
  // Null: it has ended, or was not wanted.
  const G* get(std::uint32_t id) const { return entries_[place_of(id)].gp; }

 private:
  static constexpr std::size_t kEntries = 8192;
  static constexpr std::size_t kMost = kEntries / 2;  // so that there is always an end to a search

  struct entry {
    std::uint32_t id = 0;
    const G* gp = nullptr;
  };

  // Its own, or a free one.
  std::size_t place_of(std::uint32_t id) const {
    std::size_t at = (id * std::uint32_t{0x9e3779b9}) % kEntries;
    while (entries_[at].id != 0 && entries_[at].id != id) at = (at + 1) % kEntries;
    return at;
  }

  entry entries_[kEntries];
  std::size_t count_ = 0;
};
constinit owner_table owners;

void want_owner(G& gp, void*) {
  if (!gp.in(g_status::waiting) || !waits_for_lock(gp)) return;
  const lock_note said = note_of(gp);
  if (said.held && said.owner != 0) owners.want(said.owner);
}

WEFT_NO_TSAN void offer_owner(G& gp, void*) {
  if (!gp.in(g_status::dead) && !gp.in(g_status::idle)) owners.offer(gp);
}

// The whole id of one who has ended, from its lower half: the last one that there was.
std::uint64_t whole_id(std::uint32_t low) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 32;
  const std::uint64_t next = sched.goid_next.load(WEFT_ORDER(GI0, relaxed));  // order: GI0 a hint
  const std::uint64_t id = (next & ~(kHalf - 1)) | low;
  return id >= next && id >= kHalf ? id - kHalf : id;
}

bool is_written(const void* lock) {
  std::size_t at = 0;
  lock_owner o = lockcheck_next_owner(lock, at);
  while (o.owner != 0 && o.mode != lock_mode::exclusive) o = lockcheck_next_owner(lock, at);
  return o.owner != 0;
}

// A reader waits for the writer who is inside, or else for those who wait to be, and keep it out. (Once the one
// inside has left, readers come first.)
WEFT_NO_TSAN bool is_in_the_way(const G& gp, const lock_owner& o) {
  switch (o.mode) {
    case lock_mode::exclusive: return true;
    case lock_mode::shared: return !waits_to_read(gp);
    case lock_mode::queued: return waits_to_read(gp) && !is_written(gp.awaited());
  }
  return false;
}

void print_noted_owner(printer& out, const G& gp) {
  const lock_note said = note_of(gp);
  if (said.held && said.owner == 0) {
    out.str(", held by a plain thread");
  } else if (said.held) {
    const G* owner = owners.get(said.owner);
    out.str(", held by goroutine ").udec(owner != nullptr ? owner->goid : whole_id(said.owner));
    if (owner == nullptr && owners.is_wanted(said.owner)) out.str(", which has ended");
  } else if (said.readers != 0) {
    out.str(", read by ").udec(said.readers).str(" (WEFTDEBUG=lockcheck=1 would say by whom)");
  }
}

WEFT_NO_TSAN void print_checked_owners(printer& out, const G& gp) {
  constexpr int kOwnersShown = 4;
  int count = 0;
  std::size_t at = 0;
  for (;;) {
    const lock_owner o = lockcheck_next_owner(gp.awaited(), at);
    if (o.owner == 0) break;
    const bool readers_beside = o.mode == lock_mode::shared;  // of one who waits behind a writer
    if ((!readers_beside && !is_in_the_way(gp, o)) || ++count > kOwnersShown) continue;
    out.str(o.mode == lock_mode::exclusive ? ", held by "
            : o.mode == lock_mode::shared  ? ", read by "
                                           : ", which is to be written by ");
    print_owner(out, o.owner);
    out.str(" since ");
    print_place(out, o.site);
  }
  if (count > kOwnersShown) out.str(", and by ").dec(count - kOwnersShown).str(" more");
}

}  // namespace

WEFT_NO_TSAN bool waits_for_lock(const G& gp) noexcept {
  return gp.reason == wait_reason::mutex_lock || gp.reason == wait_reason::shared_mutex_lock ||
         waits_to_read(gp);
}

void find_lock_owners() noexcept {
  owners.clear();
  if (debug_vars.lockcheck != 0) return;
  for_each_g(want_owner, nullptr);
  if (!owners.empty()) for_each_g(offer_owner, nullptr);
}

WEFT_NO_TSAN const G* next_awaited(const G& gp, std::size_t& at) noexcept {
  if (!gp.in(g_status::waiting)) return nullptr;
  if (gp.wait_is_limited()) return nullptr;  // it gives up one day
  if (gp.reason == wait_reason::thread_join) {
    return at++ == 0 ? static_cast<const G*>(gp.awaited()) : nullptr;
  }
  if (!waits_for_lock(gp)) return nullptr;
  if (debug_vars.lockcheck == 0) {
    const lock_note said = at++ == 0 ? note_of(gp) : lock_note{};
    return said.held ? owners.get(said.owner) : nullptr;
  }
  for (;;) {
    const lock_owner o = lockcheck_next_owner(gp.awaited(), at);
    if (o.owner == 0) return nullptr;
    if (o.gp != nullptr && is_in_the_way(gp, o)) return o.gp;
  }
}

void print_owners(printer& out, const G& gp) noexcept {
  debug_vars.lockcheck == 0 ? print_noted_owner(out, gp) : print_checked_owners(out, gp);
}

void print_owner(printer& out, std::uint64_t owner) noexcept {
  constexpr std::uint64_t kPlain = std::uint64_t{1} << 63;
  if ((owner & kPlain) != 0) {
    out.str("thread ").udec(owner & ~kPlain);
  } else {
    out.str("goroutine ").udec(owner);
  }
}

}  // namespace weft::rt
