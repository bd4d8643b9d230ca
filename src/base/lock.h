// The runtime's own mutual exclusion: short critical sections, never across a switch or user code.
//
// Problem: a goroutine mutex parks goroutines and so needs the scheduler; the scheduler itself
// needs something below. It is one word:
//
//   0  free         1  held, nobody sleeps         2  held, somebody may sleep
//
// lock: 0 -> 1 in one step if free; else spin briefly; else announce a sleeper by exchanging 2 in
// and sleep until the exchange finds 0. Whoever slept holds the lock in state 2, because others may
// still sleep. unlock: exchange 0 in; if it was 2, wake one.
//
// Invariants. LK-a: at most one thread is between lock and unlock. LK-b: a sleeper exists only
// while the word is 2, or while a woken thread is on its way to exchange 2 in; otherwise it sleeps
// forever. LK-c: what was written under the lock is visible to the next holder.
// Not fair, by intent: sections are tens of nanoseconds and a queue would force a switch into each.
// Rejected: std::mutex (40 bytes, no rank, not constant-initialised in a portable way, and its
// futex is invisible to the explorer); a ticket lock (a descheduled next-in-line stalls everybody).
// Go: runtime/lock_futex.go lock2, unlock2
#pragma once

#include <cstdint>

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/counters.h"
#include "base/fatal.h"
#include "base/futex.h"
#include "base/lock_rank.h"

namespace weft::rt {

// The algorithm alone. Everything but its model uses ranked_lock.
class futex_lock {
 public:
  constexpr futex_lock() noexcept = default;

  bool try_lock() {
    std::uint32_t free = kFree;
    // order: LK1 acquire: sees what the last holder wrote; pairs with the release in unlock().
    // Failure is relaxed: nothing is read under a lock that was not taken.
    return word_.compare_exchange_strong(free, kHeld, WEFT_ORDER(LK1, acquire),
                                         WEFT_ORDER(LK4, relaxed));
  }

  void lock() {
    if (try_lock()) [[likely]]
      return;
    lock_slow();
  }

  void unlock() {
    // order: LK2 release: publishes the critical section; pairs with LK1 and LK3
    const std::uint32_t old = word_.exchange(kFree, WEFT_ORDER(LK2, release));
    if (old == kContended) [[unlikely]] {
      if (WEFT_MUTANT("unlock-without-wake")) return;
      futex_wake(word_, 1);
    }
    if (old == kFree) fatal("unlock of unlocked runtime lock");
  }

  bool held() const {
    // order: LK5 relaxed: a debug aid; the holder reads its own or a sleeper's value
    return word_.load(WEFT_ORDER(LK5, relaxed)) != kFree;
  }

 private:
  enum : std::uint32_t { kFree = 0, kHeld = 1, kContended = 2 };
#ifdef WEFT_MODEL
  static constexpr int kSpins = 1, kPauses = 1;
#else
  static constexpr int kSpins = 4, kPauses = 30;
#endif

  [[gnu::noinline, gnu::cold]] void lock_slow() {
    for (int spin = 0; spin < kSpins; ++spin) {
      for (int i = 0; i < kPauses; ++i) cpu_pause();
      // order: LK6 relaxed: only saves a failing compare-exchange on a shared line
      if (word_.load(WEFT_ORDER(LK6, relaxed)) == kFree && try_lock()) return;
    }
    // After a sleep others may still sleep, hence kContended even if we are the last. keeps LK-b
    const std::uint32_t mark = WEFT_MUTANT("lock-forgets-sleepers") ? kHeld : kContended;
    // order: LK3 acquire: sees what the last holder wrote; pairs with the release in unlock()
    while (word_.exchange(mark, WEFT_ORDER(LK3, acquire)) != kFree) {
      futex_wait(word_, mark);
    }
  }

  atomic<std::uint32_t> word_{kFree};
};

// A lock with its place in the order of locks. Constant-initialised, trivially destroyed.
class WEFT_CAPABILITY("lock") ranked_lock {
 public:
#ifdef WEFT_LOCK_RANK
  constexpr explicit ranked_lock(lock_rank rank) noexcept : rank_(rank) {}
#else
  constexpr explicit ranked_lock(lock_rank) noexcept {}
#endif
  ranked_lock(const ranked_lock&) = delete;
  ranked_lock& operator=(const ranked_lock&) = delete;

  // Blocks: M.
  void lock() WEFT_ACQUIRE() {
    entered(true);  // before waiting: a wrong order is reported, not deadlocked in
    impl_.lock();
  }

  bool try_lock() WEFT_TRY_ACQUIRE(true) {
    if (!impl_.try_lock()) return false;
    entered(false);  // what does not wait may be taken in any order
    return true;
  }

  void unlock() WEFT_RELEASE() {
#ifdef WEFT_LOCK_RANK
    note_lock_released(rank_);
#endif
    impl_.unlock();
  }

  // Fatal if certainly not held by the caller; exact under WEFT_LOCK_RANK.
  void assert_held() const WEFT_ASSERT_CAPABILITY(this) {
#ifdef WEFT_LOCK_RANK
    if (!lock_rank_held(rank_)) fatal("runtime lock not held");
#endif
    if (!impl_.held()) fatal("runtime lock not held");
  }

 private:
  void entered([[maybe_unused]] bool waits) {
#ifdef WEFT_LOCK_RANK
    note_lock_acquired(rank_, waits);
#endif
    count_lock();
  }

#ifdef WEFT_MODEL
  model::mutex impl_;  // one step a call; tests/model/lock_model.cc shows that futex_lock is one
#else
  futex_lock impl_;
#endif
#ifdef WEFT_LOCK_RANK
  lock_rank rank_;
#endif
};

// Holds a lock for a scope.
template <class Lock>
class WEFT_SCOPED_CAPABILITY scoped_lock {
 public:
  explicit scoped_lock(Lock& l) WEFT_ACQUIRE(l) : lock_(l) { lock_.lock(); }
  ~scoped_lock() WEFT_RELEASE() { lock_.unlock(); }
  scoped_lock(const scoped_lock&) = delete;
  scoped_lock& operator=(const scoped_lock&) = delete;

 private:
  Lock& lock_;
};

}  // namespace weft::rt
