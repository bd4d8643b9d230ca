// The lock inside a channel: one word.
//
// It is taken two or three times per value, almost always without contention, so it costs one
// compare-exchange and one store. Who finds it held spins with growing pauses (an owner that is left
// alone for a microsecond handles a hundred values meanwhile, where a fair lock would pay a cache
// miss for each), and then lets others run. So it may be held where no runtime lock may be: across a
// switch, until the successor unlocks it in the commit, and while a value is moved by the user's code,
// even if that should block.
//
// There are two ways to let others run. lock() is for operations that may block: the goroutine yields,
// and may come back on another thread. lock_staying() is for those that may not change their thread (D2:
// try_*, close, what a timer or a cancellation does): it gives up the processor, but not the thread.
//
// CL-a: at most one holder. CL-b: what was written under the lock is visible to the next holder.
// CL-c: unlocking is the holder's last touch. The channel may be gone right after: a woken partner
//       may have dropped the last handle.
// CL-d: under the lock runs nothing but this folder's code, save for moves of values. A holder that was
//       stopped in such a move (it parked, or was frozen in user code), or in lockcheck's search when it is
//       about to park (debug/held_mutex.cc), needs a processor to go on: all who wait give theirs up. g0
//       cannot, so it only tries, and leaves the rest to a goroutine (time/chan_timer.cc). Otherwise g0 might
//       wait for whom it should let run.
//
// TSan does not see this lock: it would order everything that ever happened on a channel, and hide
// the users' races. What a channel does order is said explicitly (channel.h). Hence
// WEFT_COMMIT_ORDER.
//
// Rejected: base/lock.h (unlocking is an exchange, it sleeps in the kernel, and it may not be held
// across a switch); a lock bit per queue (select would have to take twice as many).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#ifdef WEFT_LOCK_RANK
#include "base/lock_rank.h"
#endif

namespace weft::rt {

class chan_lock {
 public:
  constexpr chan_lock() noexcept = default;
  chan_lock(const chan_lock&) = delete;
  chan_lock& operator=(const chan_lock&) = delete;

  void lock() {
    if (!take()) [[unlikely]] {
      lock_slow();
    }
    entered();
  }

  // The caller comes back on the thread on which it called.
  void lock_staying() {
    if (!take()) [[unlikely]] {
      lock_slow_staying();
    }
    entered();
  }

  // Spins, but does not yield: for those who hold other channels.
  bool try_lock_spinning() {
    if (!take() && !spin()) [[unlikely]] {
      return false;
    }
    entered();
    return true;
  }

  void unlock() {
    if (WEFT_MUTANT("unlock-forgotten")) return;
    // order: CL1 release publishes the channel to the next holder; pairs with take()
    word_.store(kFree, WEFT_COMMIT_ORDER(CL1, release));
  }

  bool held() const {
    return word_.load(WEFT_ORDER(CL0, relaxed)) != kFree;  // order: relaxed, for assertions
  }

 private:
  enum : std::uint32_t { kFree = 0, kHeld = 1 };

  bool take() {
    std::uint32_t free = kFree;
    // order: CL1 acquire: sees what the last holder wrote; pairs with unlock(). Relaxed on failure:
    // nothing is read under a lock that was not taken
    return word_.compare_exchange_strong(free, kHeld, WEFT_COMMIT_ORDER(CL1, acquire),
                                         WEFT_ORDER(CL0, relaxed));
  }

  static void entered() {
#ifdef WEFT_LOCK_RANK
    note_lock_acquired(lock_rank::chan);  // which other locks are held? It is not counted itself:
    note_lock_released(lock_rank::chan);  // it belongs to the goroutine, which may change threads
#endif
  }

#ifdef WEFT_MODEL
  bool spin() {
    cpu_pause();
    return take();
  }
  void lock_slow() {
    while (!spin()) {
    }
  }
  void lock_slow_staying() { lock_slow(); }
#else
  bool spin();  // for a few microseconds
  void lock_slow();
  void lock_slow_staying();
#endif

  atomic<std::uint32_t> word_{kFree};
};

}  // namespace weft::rt
