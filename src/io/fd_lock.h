// Who may use a descriptor, and who closes it.
//
// Problem. A number is all that the kernel gives; once closed it may name something else. So nobody may
// make a system call with it after close(2), yet a close must be possible while others are blocked in an
// operation, and must end those. And one reader and one writer at a time: a poll descriptor has room for
// one waiter in each direction, and reads of several goroutines should not be interleaved.
//
//   state: │ writers waiting, 20 │ readers waiting, 20 │ references, 20 │ writer │ reader │ closed │
//
// Every operation holds a reference; reads and writes hold their direction, too, taken in the same step.
// Who waits for a direction has its reference already. close() sets the bit, sends away those who wait, and
// gives up its own reference; whoever gives up the last one closes the descriptor.
//
// Who waits with a limit, which comes, decides by the count. It is at least one: he takes one off, and has given up. It
// counts, and does not say whom: he leaves his place at the gate afterwards, and if somebody let him through it meanwhile,
// that was meant for another one, to whom the gate hands it on. It is zero: everybody who waits has been taken off, by
// unlock() or close(), and is about to be let through, which he awaits; so nobody opens a gate for one who has left.
//
// FL-a: after the descriptor is closed nobody has a reference, and nobody gets one.
// FL-b: at most one holds a direction, and sees what the last holder left (FL1).
// FL-c: who gives up the last reference sees what all others did (FL2).
// FL-d: nobody waits for a direction that is free, or of a closed one; but for one who is about to be let through, and will
//       look, so that he unlocks it later, or waits behind somebody who will.
// FL-e: without a reference nobody touches this any more, so that it may be destroyed when the last one is gone.
//       Who has been let through the gate still has its own. unlock() opens the gate after it has given up
//       its reference, but for somebody who cannot give up another before that: as many are at the
//       gate as are counted there, and have been taken off to be let through.
//
// Go: internal/poll/fd_mutex.go [FD-1]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"
#include "poll/poll_core.h"

namespace weft::rt {

// Gate: acquire() blocks until somebody has called release() for it; one each, in order. acquire(limit, leave) until
// then, or until the limit comes and leave() says true: false. What it has been given then goes to the next one.
template <class Gate>
class fd_lock {
 public:
  enum class outcome : std::uint8_t {
    held,
    closed,
    sent_away,  // closed while it waited: the caller has a reference, to give up by leave()
    gave_up,    // its limit came while it waited: likewise
    too_many,
  };

  // A reference, for operations that need no direction.
  [[nodiscard]] outcome enter() {
    std::uint64_t s = load();
    for (;;) {
      if ((s & kClosed) != 0) {
        return outcome::closed;
      }
      if ((s & kRefs) >= kMostRefs) {
        return outcome::too_many;
      }
      // order: FL0 relaxed; a reference orders nothing by itself
      if (state_.compare_exchange_weak(s, s + kRef, WEFT_ORDER(FL0, relaxed),
                                       WEFT_ORDER(FL0, relaxed))) {
        return outcome::held;
      }
    }
  }

  // True: it was the last one, of a closed descriptor: close it.
  [[nodiscard]] bool leave() {
    // order: FL2 acq_rel: the last one sees what all others did; pairs with itself and unlock()
    const std::uint64_t s = state_.fetch_sub(kRef, WEFT_ORDER(FL2, acq_rel));
    if ((s & kRefs) == 0) [[unlikely]] {
      fatal("inconsistent poll.fdMutex");
    }
    return (s & (kClosed | kRefs)) == (kClosed | kRef);
  }

  // True: it is closed now, and the caller has a reference, to give up. False: it was closed already.
  [[nodiscard]] bool close() {
    std::uint64_t s = load();
    for (;;) {
      if ((s & kClosed) != 0) {
        return false;
      }
      const std::uint64_t to = ((s | kClosed) + kRef) & ~(kWaiting[0] | kWaiting[1]);
      // order: FL0 relaxed; those who are sent away look again
      if (state_.compare_exchange_weak(s, to, WEFT_ORDER(FL0, relaxed), WEFT_ORDER(FL0, relaxed))) {
        break;
      }
    }
    for (int d = 0; d < 2; ++d) {
      for (std::uint64_t n = (s & kWaiting[d]) / kWaiter[d]; n > 0; --n) {
        gates_[d].release();
      }
    }
    return true;
  }

  // The direction and a reference. Blocks: G.
  [[nodiscard]] outcome lock(direction what) {
    return lock_by(what, [](Gate& gate) {
      gate.acquire();
      return true;
    });
  }
  template <class Limit>
  [[nodiscard]] outcome lock(direction what, const Limit& limit) {
    return lock_by(what, [this, what, &limit](Gate& gate) {
      return gate.acquire(limit, [this, what] { return withdraw(what); });
    });
  }

  // As leave(). keep: the direction only; the reference stays the caller's, and this is never the last.
  [[nodiscard]] bool unlock(direction what, bool keep = false) {
    const auto d = static_cast<unsigned>(what);
    const std::uint64_t mine = keep && !WEFT_MUTANT("keeps-no-reference") ? 0 : kRef;
    std::uint64_t s = load();
    for (;;) {
      if ((s & kHeld[d]) == 0 || (s & kRefs) == 0) {
        fatal("inconsistent poll.fdMutex");
      }
      const bool awaited = (s & kWaiting[d]) != 0;
      const std::uint64_t to = (s & ~kHeld[d]) - mine - (awaited ? kWaiter[d] : 0);
      // order: FL1 release, for the next holder; FL2, for whoever closes, both ways
      if (!state_.compare_exchange_weak(s, to, WEFT_ORDER(FL2, acq_rel),
                                        WEFT_ORDER(FL0, relaxed))) {
        continue;
      }
      if (awaited && !WEFT_MUTANT("unlock-sends-nobody")) {
        gates_[d].release();
      }
      return (to & (kClosed | kRefs)) == kClosed;
    }
  }

  bool closed() const { return (load() & kClosed) != 0; }
  int references() const { return static_cast<int>((load() & kRefs) / kRef); }

 private:
  static constexpr std::uint64_t kClosed = 1;
  static constexpr std::uint64_t kHeld[2] = {2, 4};
  static constexpr std::uint64_t kRef = 8;
  static constexpr std::uint64_t kMany = (std::uint64_t{1} << 20) - 1;
  static constexpr std::uint64_t kRefs = kMany * kRef;
  static constexpr std::uint64_t kMostRefs = kRefs - kRef;  // the last one is for close()
  static constexpr std::uint64_t kWaiter[2] = {std::uint64_t{1} << 23, std::uint64_t{1} << 43};
  static constexpr std::uint64_t kWaiting[2] = {kMany * kWaiter[0], kMany* kWaiter[1]};

  // wait(gate): until it is let through; false: not before its limit.
  template <class Wait>
  outcome lock_by(direction what, Wait&& wait) {
    const auto d = static_cast<unsigned>(what);
    std::uint64_t mine = kRef;  // to be taken; 0: it has one
    std::uint64_t s = load();
    for (;;) {
      if ((s & kClosed) != 0) {
        return mine == 0 ? outcome::sent_away : outcome::closed;
      }
      if (mine != 0 && (s & kRefs) >= kMostRefs) {
        return outcome::too_many;
      }
      const bool busy = (s & kHeld[d]) != 0;
      const std::uint64_t ref = busy && WEFT_MUTANT("waits-without-reference") ? 0 : mine;
      const std::uint64_t to = (busy ? s + kWaiter[d] : s | kHeld[d]) + ref;
      // order: FL1 acquire pairs with the release in unlock(); nothing is read if it failed
      if (!state_.compare_exchange_weak(s, to, WEFT_ORDER(FL1, acquire),
                                        WEFT_ORDER(FL0, relaxed))) {
        continue;
      }
      if (!busy) {
        return outcome::held;
      }
      mine -= ref;
      if (!wait(gates_[d])) {
        return outcome::gave_up;
      }
      s = load();
    }
  }

  // By one who is counted at the gate, and whose limit has come. False: everybody has been taken off.
  bool withdraw(direction what) {
    const auto d = static_cast<unsigned>(what);
    std::uint64_t s = load();
    for (;;) {
      if ((s & kWaiting[d]) == 0) {
        return WEFT_MUTANT("leaves-though-sent-for");
      }
      const std::uint64_t to = s - (WEFT_MUTANT("stays-counted") ? 0 : kWaiter[d]);
      // order: FL0 relaxed; it leaves nothing to anybody
      if (state_.compare_exchange_weak(s, to, WEFT_ORDER(FL0, relaxed), WEFT_ORDER(FL0, relaxed))) {
        return true;
      }
    }
  }

  std::uint64_t load() const {
    return state_.load(WEFT_ORDER(FL0, relaxed));  // order: FL0 relaxed, validated by an exchange
  }

  atomic<std::uint64_t> state_{0};
  Gate gates_[2];
};

}  // namespace weft::rt
