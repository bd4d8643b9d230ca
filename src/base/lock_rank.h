// The order in which locks of the runtime may be nested, as data.
//
// Every lock has a rank. kLockOrder lists the pairs {before, after}: a lock of rank `before` may be
// held while one of rank `after` is acquired. The transitive closure is computed by the compiler
// and a cycle does not compile, so the table cannot rot into a deadlock. Builds with
// WEFT_LOCK_RANK keep the set of held ranks in one word per thread and make a wrong order fatal,
// naming both locks, the first time it happens and not only when two threads meet in it.
//
// Invariant LR1: two locks of one rank are never held together, unless the rank is in kNestable,
// and then only in address order (channels in a select). Otherwise two threads that take them the
// other way round deadlock.
// Rejected: numbers instead of a graph (unrelated locks would be ordered by accident, and inserting
// one means renumbering), and a generator with a generated file (goes stale).
#pragma once

#include <array>
#include <cstdint>

namespace weft::rt {

enum class lock_rank : std::uint8_t {
  sysmon,      // sysmon asleep or awake; held while it looks at the scheduler
  world,       // one stop-the-world at a time
  poll_desc,   // a pollable descriptor
  chan,        // a channel; several in address order
  sema_root,   // sleepers by address
  timers,      // a P's wheel
  timer,       // one timer
  sched,       // the scheduler: global queue, idle lists, counters
  all_p,       // table of Ps
  all_g,       // table of goroutines
  stack_pool,  // stacks in reserve
  gfree,       // dead goroutines in reserve
  helper,      // requests to the thread that creates threads
  trace_buf,   // trace buffers
  trace,       // trace generation
  print,       // one report at a time on descriptor 2
  leaf,        // held alone, or innermost; for tests and one-off tables
  count_,
};

inline constexpr int kLockRanks = static_cast<int>(lock_rank::count_);
static_assert(kLockRanks <= 64, "the held set is one word");

inline constexpr std::array<const char*, kLockRanks> kLockRankNames = {
    "sysmon", "world",      "poll_desc", "chan",   "sema_root", "timers", "timer", "sched", "all_p",
    "all_g",  "stack_pool", "gfree",     "helper", "trace_buf", "trace",  "print", "leaf"};

constexpr const char* lock_rank_name(lock_rank rank) {
  return kLockRankNames[static_cast<std::size_t>(rank)];
}

namespace lock_rank_detail {

struct edge {
  lock_rank before, after;
};
using enum lock_rank;

inline constexpr edge kLockOrder[] = {
    // What can ready a goroutine sits above the scheduler.
    {sysmon, world},
    {world, sched},
    {poll_desc, timers},
    {chan, timers},
    {sema_root, sched},
    {timers, timer},
    {timer, sched},
    // The scheduler may look at its tables and hand memory back.
    {sched, all_p},
    {all_p, all_g},
    {all_g, gfree},
    {gfree, stack_pool},
    {sched, helper},
    {sched, trace_buf},
    {trace_buf, trace},
    // A report may be made from anywhere.
    {stack_pool, print},
    {helper, print},
    {trace, print},
    {print, leaf},
};

// Ranks of which several may be held together, in address order.
inline constexpr std::uint64_t kNestable = 1ull << static_cast<int>(chan);

using closure = std::array<std::uint64_t, kLockRanks>;

// Bit b of may_hold[a]: rank b may be held when rank a is acquired.
constexpr closure close_order() {
  closure held{};
  for (const edge& e : kLockOrder) {
    held[static_cast<std::size_t>(e.after)] |= 1ull << static_cast<int>(e.before);
  }
  for (std::size_t k = 0; k < kLockRanks; ++k) {
    for (std::size_t i = 0; i < kLockRanks; ++i) {
      if (held[i] >> k & 1) held[i] |= held[k];
    }
  }
  return held;
}

inline constexpr closure kMayHold = close_order();

constexpr bool acyclic(const closure& held) {
  for (std::size_t i = 0; i < kLockRanks; ++i) {
    if (held[i] >> i & 1) return false;
  }
  return true;
}
static_assert(acyclic(kMayHold), "the lock order has a cycle");

}  // namespace lock_rank_detail

constexpr std::uint64_t lock_rank_bit(lock_rank rank) { return 1ull << static_cast<int>(rank); }

// Whether a lock of this rank may be acquired by a thread that holds the set `held`.
constexpr bool may_acquire(std::uint64_t held, lock_rank rank) {
  const std::uint64_t allowed = lock_rank_detail::kMayHold[static_cast<std::size_t>(rank)] |
                                (lock_rank_detail::kNestable & lock_rank_bit(rank));
  return (held & ~allowed) == 0;
}

static_assert(may_acquire(0, lock_rank::sched));
static_assert(may_acquire(lock_rank_bit(lock_rank::chan), lock_rank::sched));
static_assert(!may_acquire(lock_rank_bit(lock_rank::sched), lock_rank::chan));
static_assert(!may_acquire(lock_rank_bit(lock_rank::sched), lock_rank::sched));

// Checked builds only (WEFT_LOCK_RANK): the bookkeeping behind ranked_lock, in lock_rank.cc.
// Nestable ranks are counted, so that releasing one of two keeps the other in the set.
// Ensures: legal order, else fatal with both names. A try_lock does not wait: any order is legal.
void note_lock_acquired(lock_rank rank, bool waits = true);
void note_lock_released(lock_rank rank);  // Ensures: it was held, else fatal
bool lock_rank_held(lock_rank rank);      // by the calling thread
std::uint64_t held_lock_ranks();          // of the calling thread; 0 = none

// A word that others spin or sleep for has been taken: fatal on a thread that could be frozen with it, as
// the hook says (gmp/inside.h). Locks call it themselves.
void note_word_taken();
void set_frozen_check(bool (*may_be_frozen)());

}  // namespace weft::rt
