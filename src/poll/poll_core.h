// The state by which one who waits for a descriptor, the poller, a deadline and a close agree.
//
// Problem. A goroutine tries a system call, is told "not now" and parks; the poller learns of readiness
// at any time before, between or after, on another thread; a deadline or a close may end the wait at any
// time, too. None may be lost, and the descriptor may be closed and its number used again while news of
// it is under way.
//
// Each direction has a word, a semaphore for one waiter (the lock of io/fd_lock.h sees to it that there
// is one at most):
//
//   nil      nothing has happened, nobody waits
//   ready    there was an event: the next wait ends at once
//   wait     somebody is about to park, and is still on its stack
//   a waiter somebody is parked
//
//   waiter                                  poller                    deadline, close
//   1. reset(): ready → nil                                           1. bit in info
//   2. the system call: "not now"           1. info: hung up          2. full fence           PD1
//   3. begin_wait(): ready → nil: again        (if it did)            3. unblock(): wait or
//      nil → wait                           2. unblock(): nil or         a waiter → nil
//   4. full fence                    PD1       wait → ready; a
//   5. info has a reason not to: finish        waiter → ready, and it
//   6. park; commit: wait → a waiter           is the poller's to wake
//      (PD2); refused if it is not `wait`
//   7. finish(): whatever → nil; was it `ready`?
//
// PD-a: between a deadline or a close and a waiter one sees the other (PD1): 5 sees the bit, or 3 on the
//       right finds `wait` or the waiter. Otherwise a wait never ends.
// PD-b: an event after 1 is not lost: it leaves `ready`, or finds the waiter. One before 1 is in vain, but
//       then 2 sees what it was about.
// PD-c: who takes a waiter out of the word owns it, once, and sees the whole node (PD2).
// PD-d: a hang-up (the end of the stream, an error, urgent data) is never forgotten: reset() that drops a
//       `ready` sees the bit that came with it (PD3). A reader who trusts that a short read has drained
//       the socket (io/fd.cc) asks for that bit: what has already happened makes no more events.
//       For this the poller writes the word even if it is `ready` already.
// PD-e: news of an earlier use of this record is dropped: `info` carries the number of the use, and bits
//       are added only if it fits. That an old event makes a new user `ready` in vain is harmless.
//
// Deadlines are times, and the timer that fires compares the deadline with the clock: so one that fires
// late, after it was moved or after the record was used again, changes nothing. (Go numbers them.)
//
// Rejected: one word with all states (the poller would contend with the other direction); a lock (the
// poller would wait for whoever holds it).
//
// Go: runtime/netpoll.go pollDesc, netpollblock, netpollunblock [NP-3] … [NP-6]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"

namespace weft::rt {

enum class direction : std::uint8_t { read = 0, write = 1 };

enum class poll_fault : std::uint8_t { none, closing, timed_out };

template <class Waiter>
class poll_core {
 public:
  constexpr poll_core() noexcept = default;
  poll_core(const poll_core&) = delete;
  poll_core& operator=(const poll_core&) = delete;

  // -- by the owner of the direction

  // Why an operation must not go on.
  poll_fault fault(direction d) const {
    // order: PD0 relaxed; where it races with a wait PD1's fences order it
    const std::uint64_t bits = info_.load(WEFT_ORDER(PD0, relaxed));
    return (bits & kClosing) != 0     ? poll_fault::closing
           : (bits & expired(d)) != 0 ? poll_fault::timed_out
                                      : poll_fault::none;
  }

  // Before an attempt: what has happened until now is of no interest.
  void reset(direction d) {
    atomic<std::uintptr_t>& word = words_[index(d)];
    if (word.load(WEFT_ORDER(PD0, relaxed)) == kReady) {  // order: relaxed, the owner's own look
      // order: PD3 acquire: sees that it hung up; pairs with unblock(). keeps PD-d
      word.exchange(kNil, WEFT_ORDER(PD3, acquire));
    }
  }

  // True: it is ready, try again. False: fault() again, commit() perhaps, and then finish().
  [[nodiscard]] bool begin_wait(direction d) {
    atomic<std::uintptr_t>& word = words_[index(d)];
    for (;;) {
      std::uintptr_t seen = kReady;
      // order: PD3 acquire, as in reset(); relaxed on failure, nothing was there
      if (word.compare_exchange_strong(seen, kNil, WEFT_ORDER(PD3, acquire),
                                       WEFT_ORDER(PD0, relaxed))) {
        return true;
      }
      if (seen != kNil) {
        fatal("runtime: double wait");
      }
      // order: PD0 relaxed, the fence orders it; failure: it has become ready
      if (word.compare_exchange_strong(seen, kWait, WEFT_ORDER(PD0, relaxed),
                                       WEFT_ORDER(PD0, relaxed))) {
        break;
      }
    }
    fence(WEFT_ORDER(PD1, seq_cst));  // order: PD1 Dekker with the fence in raise(). keeps PD-a
    return false;
  }

  // In the commit of the park. False: it has ended already, do not park.
  [[nodiscard]] bool commit(direction d, Waiter* w) {
    std::uintptr_t seen = kWait;
    // order: PD2 release publishes the node to unblock(); relaxed on failure: finish() looks
    return words_[index(d)].compare_exchange_strong(seen, reinterpret_cast<std::uintptr_t>(w),
                                                    WEFT_COMMIT_ORDER(PD2, release),
                                                    WEFT_ORDER(PD0, relaxed));
  }

  // After the wait, parked or not. True: it is ready. False: fault() says why, or it is to be tried again.
  [[nodiscard]] bool finish(direction d) {
    // order: PD3 acquire: sees that it hung up; pairs with unblock()
    const std::uintptr_t old = words_[index(d)].exchange(kNil, WEFT_ORDER(PD3, acquire));
    if (old > kWait) {
      fatal("runtime: corrupted polldesc");
    }
    return old == kReady;
  }

  // Something has happened that makes no more events: the next system call must look.
  bool hung_up() const {
    // order: PD0 relaxed; reset() and finish() have acquired what there is to know
    return (info_.load(WEFT_ORDER(PD0, relaxed)) & kHungUp) != 0;
  }

  // -- by the poller

  // True: the event is about the present use of the record.
  bool is_current(std::uint32_t use) const {
    // order: PD0 relaxed; an old event that is believed only makes somebody look
    return info_.load(WEFT_ORDER(PD0, relaxed)) >> kUseShift == use;
  }
  void hang_up(std::uint32_t use) {
    std::uint64_t bits = info_.load(WEFT_ORDER(PD0, relaxed));  // order: validated by the exchange
    while ((bits >> kUseShift == use || WEFT_MUTANT("old-news-believed")) &&
           (bits & kHungUp) == 0) {
      // order: PD0 relaxed; unblock() publishes it (PD3)
      if (info_.compare_exchange_strong(bits, bits | kHungUp, WEFT_ORDER(PD0, relaxed),
                                        WEFT_ORDER(PD0, relaxed))) {
        return;
      }
    }
  }
  // A waiter that is now the caller's to wake, or null. `loud`: after hang_up().
  [[nodiscard]] Waiter* ready(direction d, bool loud) { return unblock(d, kReady, loud); }

  // -- under the record's lock

  // A reason to end waits. Returns whom to wake because of it; several directions one after the other.
  void raise(std::uint64_t bits) {
    info_.fetch_or(bits, WEFT_ORDER(PD0, relaxed));  // order: PD0 relaxed, the fence orders it
    if (!WEFT_MUTANT("raised-without-fence")) {
      fence(WEFT_ORDER(PD1, seq_cst));  // order: PD1 Dekker with the fence in begin_wait()
    }
  }
  void lower(std::uint64_t bits) {
    info_.fetch_and(~bits, WEFT_ORDER(PD0, relaxed));  // order: PD0 relaxed, a limit that is gone
  }
  [[nodiscard]] Waiter* interrupt(direction d) { return unblock(d, kNil, false); }

  // -- by anybody

  // A limit of one wait alone is over: mark() leaves a mark that its waiter looks at where it looks for faults, and
  // which PD1 orders as those. Returns whom to wake, perhaps another one, who then waits again. Nothing of the
  // waiter's is touched after mark().
  template <class F>
  [[nodiscard]] Waiter* end_wait(direction d, F&& mark) {
    if (WEFT_MUTANT("marked-after-the-fence")) {
      raise(0);
      mark();
    } else {
      mark();
      raise(0);
    }
    return interrupt(d);
  }

  // -- under the record's lock, or where nobody can change it

  bool closing() const {
    // order: PD0 relaxed, changed under the lock
    return (info_.load(WEFT_ORDER(PD0, relaxed)) & kClosing) != 0;
  }
  std::uint32_t use() const {
    // order: PD0 relaxed, changed when nobody uses the record
    return static_cast<std::uint32_t>(info_.load(WEFT_ORDER(PD0, relaxed)) >> kUseShift);
  }

  // The record is used anew. Requires: nobody waits, nobody has its number.
  void renew() {
    const std::uint64_t next = static_cast<std::uint64_t>(use()) + 1;
    info_.store((next << kUseShift), WEFT_ORDER(PD0, relaxed));  // order: its lock publishes it
    for (auto& word : words_) {
      word.store(kNil, WEFT_ORDER(PD0, relaxed));  // order: as above
    }
  }

  static constexpr std::uint64_t kClosing = 1;
  static constexpr std::uint64_t expired(direction d) { return std::uint64_t{2} << index(d); }

  // What to release for TSan before parking.
  void* address(direction d) { return &words_[index(d)]; }

 private:
  static constexpr std::uintptr_t kNil = 0, kReady = 1, kWait = 2;
  static constexpr std::uint64_t kHungUp = 8;
  static constexpr unsigned kUseShift = 32;
  static constexpr unsigned index(direction d) { return static_cast<unsigned>(d); }

  Waiter* unblock(direction d, std::uintptr_t to, bool loud) {
    atomic<std::uintptr_t>& word = words_[index(d)];
    std::uintptr_t old = word.load(WEFT_ORDER(PD0, relaxed));  // order: validated by the exchange
    for (;;) {
      const bool quiet = !loud || WEFT_MUTANT("hang-up-unwritten");
      if ((old == kReady && (quiet || to != kReady)) || (old == kNil && to == kNil)) {
        return nullptr;
      }
      // order: PD3 release: that it hung up; PD2 acquire: the node; pairs with the release in commit()
      if (word.compare_exchange_strong(old, to,
                                       both(WEFT_ORDER(PD3, release), WEFT_ORDER(PD2, acquire)),
                                       WEFT_ORDER(PD0, relaxed))) {
        return old > kWait ? reinterpret_cast<Waiter*>(old) : nullptr;
      }
    }
  }

  atomic<std::uintptr_t> words_[2];
  atomic<std::uint64_t> info_{0};
};

}  // namespace weft::rt
