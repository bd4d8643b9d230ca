// Stacks of goroutines: virtual memory, committed page by page, reused hot.
//
// Problem. C++ frames cannot be moved, so a stack must be large enough from the start; yet a million
// of them must cost a page each, must be guarded, and must not use up vm.max_map_count. Starting a
// goroutine must not call the kernel, as a rule.
//
// Protocol. A standard stack is a slot of stack_stride() bytes in a large mapping (a chunk):
//
//     slot: │ a page │ guard (16 KiB) │ lo …   usable   … hi │
//           │    both of them fault   │
//
// The odd page keeps the tops of stacks from lying a power of two apart. They would all meet in a few
// sets of the processor's table of translations: over a thousand goroutines every switch would miss it
// (28 against 22 ns), and a million would begin a fifth slower.
//
// Slots are carved from the newest chunk in address order and guarded in batches that double (2, 2, 4 …
// 512), so that a program with three goroutines installs four guards and not 256. Chunks double, too, up to
// 4096 slots: mapping one waits until nobody installs guards, and everybody who wants to waits behind it. With
// 512 slots a chunk, a second processor that starts goroutines brought nothing. Stacks given back
// are reused last in, first out: the hottest first, and all of them before a slot is carved.
// The pool is for everybody and has a lock; Ps keep a few stacks of their own and come in batches.
//
// Invariants
//   S1 An untouched stack has no page: nothing is stored in stacks, the list of idle ones is an array
//      on the side. Otherwise taking from it would cost a page fault, and trimming would be useless.
//   S2 The array has room for every stack that exists, so that give() cannot fail.
//   S3 Entries [0, clean_) of the array have no pages; those above may have. trim() moves the border.
//   S4 A stack on the pool's list belongs to nobody; taking and giving happen under the lock, so that
//      the next user sees the memory after the last one's writes (TSan too).
//
// Rejected: a mapping per stack (max_map_count); a link inside idle stacks (S1); a size class for each
// size asked for (one standard size, and mappings of their own for the rest); mmap(MAP_GROWSDOWN);
// huge pages (a stack would cost 2 MiB); first pages in bulk, by process_madvise(MADV_POPULATE_WRITE): a page
// costs more than by a fault (1.6 against 1.4 µs on Linux 6.18), and the call holds the lock of the address
// space, which faults do without.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotations.h"
#include "base/lock.h"
#include "fiber/guard.h"
#include "os/memory.h"

namespace weft::rt {

/// A stack: [lo, hi) is usable, the guard lies directly below lo.
struct stack {
  std::byte* lo = nullptr;
  std::byte* hi = nullptr;
  guard_method guard = guard_method::none;

  explicit operator bool() const noexcept { return hi != nullptr; }
  std::size_t size() const noexcept { return static_cast<std::size_t>(hi - lo); }
};

inline constexpr std::size_t kStackReserve = 256 * 1024;  ///< a standard stack and its guard

/// What faults below every stack: the guard, and the odd page.
inline std::size_t stack_guard_bytes() noexcept {
  return round_to_pages(kGuardBytes) + page_size();
}

/// From one standard stack to the next.
inline std::size_t stack_stride() noexcept { return kStackReserve + page_size(); }

/// Where a goroutine's first frame goes: hi, less 1 … 16 cache lines by a hash of the address.
/// Stacks lie pages apart; without this the tops of all of them would meet in one set of the cache.
/// Stays in the top page, so that a small goroutine still costs one.
/// At least one, for perf, which does not believe in the last word of what it has copied of a stack: that would be the
/// address at which the first frame returns, and the entry would be missing in its stacks.
inline void* coloured_top(const stack& s) noexcept {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: spreads neighbours
  const auto page = reinterpret_cast<std::uintptr_t>(s.hi) / 4096;
  const std::uint64_t colour = 1 + ((page * kGolden) >> 60);
  return s.hi - colour * 64;
}

/// An unguarded stack carries a canary below lo from take() until give(). False: it has overflowed.
bool canary_intact(const stack& s) noexcept;

/// Ends the process with a report if it has.
[[noreturn]] void report_overflow(const stack& s) noexcept;
inline void check_overflow(const stack& s) noexcept {
  if (s.guard == guard_method::none && !canary_intact(s)) [[unlikely]]
    report_overflow(s);
}

struct stack_stats {
  std::size_t live = 0;       ///< standard stacks in somebody's hands (Ps' caches included)
  std::size_t idle = 0;       ///< standard stacks in the pool
  std::size_t clean = 0;      ///< of these, without pages
  std::size_t sized = 0;      ///< stacks of other sizes alive
  std::size_t chunks = 0;     ///< mappings that standard stacks come from
  std::size_t installed = 0;  ///< carved so far, by the way they are guarded
  std::size_t protected_ = 0;
  std::size_t unguarded = 0;
};

/// Fewer warm stacks are not worth a scavenger's round. More than a round leaves behind: otherwise it never ends.
inline constexpr std::size_t kWorthTrimming = WEFT_TSAN ? 512 : 64;

class stack_pool {
 public:
  constexpr stack_pool() noexcept = default;
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// Takes 1 … n standard stacks, or 0 with errno when the kernel has no more memory for us.
  /// Runs on: any. Blocks: M. Locks: acquires stack_pool.
  [[nodiscard]] std::size_t take(stack* out, std::size_t n) noexcept WEFT_EXCLUDES(lock_);

  /// Gives standard stacks back; the last of them is the first to be taken again. Fatal if the
  /// canary of an unguarded one is dead.
  void give(const stack* stacks, std::size_t n) noexcept WEFT_EXCLUDES(lock_);

  /// A stack of at least `usable` bytes, in a mapping of its own. Empty, with errno, on failure.
  [[nodiscard]] stack take_sized(std::size_t usable) noexcept WEFT_EXCLUDES(lock_);
  void give_sized(const stack& s) noexcept WEFT_EXCLUDES(lock_);

  /// Gives the pages of idle stacks back to the OS, the coldest first, all but the hottest `keep`.
  void trim(std::size_t keep = 0) noexcept WEFT_EXCLUDES(lock_);
  /// Some of them, for those who must not hold a lock for long. False: there are no more.
  bool trim_some() noexcept WEFT_EXCLUDES(lock_);

  /// For a scavenger. age() ends a period: those that lay idle throughout are cold. True: so many of them
  /// have pages that trim_some_cold(), which gives some of these back, is worth while. warm(): how many have pages
  /// that it could give back once they are cold.
  [[nodiscard]] bool age() noexcept WEFT_EXCLUDES(lock_);
  bool trim_some_cold() noexcept WEFT_EXCLUDES(lock_);
  std::size_t warm() noexcept WEFT_EXCLUDES(lock_);

  stack_stats stats() noexcept WEFT_EXCLUDES(lock_);

 private:
  struct carving {
    std::byte* first = nullptr;
    std::size_t count = 0;
  };

  std::size_t take_idle_locked(stack* out, std::size_t n) noexcept WEFT_REQUIRES(lock_);
  std::size_t take_fresh(stack* out, std::size_t n) noexcept WEFT_EXCLUDES(lock_);
  carving carve_locked() noexcept WEFT_REQUIRES(lock_);
  bool map_chunk_locked() noexcept WEFT_REQUIRES(lock_);
  bool make_room_locked(std::size_t stacks) noexcept WEFT_REQUIRES(lock_);
  void put_idle_locked(const stack& s) noexcept WEFT_REQUIRES(lock_);
  std::size_t trim_some_locked(std::size_t border) noexcept WEFT_REQUIRES(lock_);

  ranked_lock lock_{lock_rank::stack_pool};
  guard_installer guards_;  // synchronises itself

  // guarded by lock_: the chunk that is being carved
  std::byte* next_ WEFT_GUARDED_BY(lock_) = nullptr;
  std::byte* end_ WEFT_GUARDED_BY(lock_) = nullptr;

  // guarded by lock_: idle stacks, the hottest last. An entry is hi + guard_method.
  std::uintptr_t* idle_ WEFT_GUARDED_BY(lock_) = nullptr;
  std::size_t idle_count_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t idle_room_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t clean_ WEFT_GUARDED_BY(lock_) = 0;
  // The list is a stack, so that those below its lowest level of a period were not used in it.
  std::size_t lowest_ WEFT_GUARDED_BY(lock_) = 0;  // since the last age()
  std::size_t cold_ WEFT_GUARDED_BY(lock_) = 0;    // [0, cold_) are
  bool refused_ WEFT_GUARDED_BY(lock_) = false;    // the system does not take pages back

  // guarded by lock_: counts
  std::size_t carved_ WEFT_GUARDED_BY(lock_) = 0;
  stack_stats stats_ WEFT_GUARDED_BY(lock_);
};

/// The pool of this process. Never destroyed.
extern stack_pool the_stacks;

}  // namespace weft::rt
