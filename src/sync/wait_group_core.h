// The wait group's protocol: one word and a list.
//
//   state: │ counter, 32 bits │ lock, 1 bit │ waiters, 31 bits │        list: guarded by the lock bit
//
// Problem: the moment the counter is seen as zero, wait() may return and the object may be gone. So
// the party that makes it zero must have taken the waiters out *before*, and must not touch the
// object afterwards. An address-keyed table of sleepers (Go's) would do without, at the price of a
// table with locks that everybody shares.
//
//   add, not to zero, or nobody waits:  one compare-exchange
//   add to zero with waiters:           take the lock bit; one compare-exchange to the counter zero, unless
//                                       somebody has added meanwhile; take the lists; the whole word zero
//   wait:                               park; the commit takes the lock bit, pushes, drops it
//   wait with a limit:                  the same with a list of its own, from which one may leave, and
//                                       whose members are listed before they park (sleeper.h); who
//                                       was taken out does not come back to see (withdrawal.h)
//
// G1: the counter does not become zero while the lock bit is set, except by its holder: adds that
//     would make it zero wait for the bit when the lower half is not zero.
// G2: nothing is to be waited for when the whole word is zero, and not before: while its holder, having
//     made the counter zero, takes the waiters out, others wait for the bit, also to add.
// WG1 orders what was done before done() before what follows wait(): every change of the word is a
//     release, and a read-modify-write, so that later ones continue the sequence; wait() acquires.
// WG2 is the lock bit: acquire when taken, release when dropped. Otherwise two holders see a torn
//     list.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"
#include "sync/made_word.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Waiter, class Sleeper>
class wait_group_core : public made_word {
 public:
  struct outcome {
    bool negative;   // refused: the counter would be below zero; nothing has changed
    Waiter* wake;    // all waiters, newest first; they are the caller's to wake
    Sleeper* rouse;  // those who wait with a limit, oldest first, likewise
  };

  constexpr explicit wait_group_core(std::uint32_t count = 0)
      : state_(std::uint64_t{count} << 32) {}

  outcome add(std::int32_t n) {
    for (;;) {
      // order: relaxed, validated by the compare-exchange
      std::uint64_t s = state_.load(WEFT_ORDER(WG0, relaxed));
      const std::int64_t c = count(s) + n;
      if (c < 0 || c > INT32_MAX) {
        return {true, nullptr, nullptr};
      }
      if (low(s) != 0 && ((c == 0 && !WEFT_MUTANT("zero-without-lock")) || last_moment(s))) {
        const inside here;
        if (try_lock(s)) {
          return add_locked(n);
        }
        continue;
      }
      // order: WG1 release to zero() and push(), and to add_locked(), which passes it on to the waiters.
      // No acquire: as a read-modify-write it continues the sequences of those before it
      if (state_.compare_exchange_strong(s, with_count(s, c), WEFT_ORDER(WG1, release),
                                         WEFT_ORDER(WG0, relaxed))) {
        return {false, nullptr, nullptr};
      }
    }
  }

  // Somebody waits for what add(n) would do now.
  bool ends_waiting(std::int32_t n) const {
    // order: relaxed, a hint
    const std::uint64_t s = state_.load(WEFT_ORDER(WG0, relaxed));
    return low(s) != 0 && count(s) + n == 0;
  }

  // Nothing to wait for.
  bool zero() const { return is_zero(seen()); }
  std::int32_t pending() const { return static_cast<std::int32_t>(count(seen())); }

  // Called once the waiter is off its stack, so that the bit is held for an instant and not across a
  // switch (or the page fault of a new stack). False: the counter is zero, and nobody has seen w.
  // After true the waiter may be gone, and the object with it.
  [[nodiscard]] bool push(Waiter* w) {
    const inside here;
    for (;;) {
      // order: WG1 acquire, in case there is nothing to wait for
      std::uint64_t s = state_.load(WEFT_ORDER(WG1, acquire));
      if (is_zero(s)) {
        return false;
      }
      if (try_lock(s)) {
        w->next = list_.get();
        list_.set(w);
        // order: WG2 release publishes the list to the next holder of the bit
        state_.fetch_add(kWaiter - kLock, WEFT_COMMIT_ORDER(WG2, release));
        return true;
      }
    }
  }

  // The same for one who waits with a limit, on its own stack.
  [[nodiscard]] bool push_timed(Sleeper* n) {
    const inside here;
    for (;;) {
      // order: WG1 acquire, in case there is nothing to wait for
      std::uint64_t s = state_.load(WEFT_ORDER(WG1, acquire));
      if (is_zero(s)) {
        return false;
      }
      if (try_lock(s)) {
        timed_.push_back(n);
        // order: WG2 release publishes the list to the next holder of the bit
        state_.fetch_add(kWaiter - kLock, WEFT_ORDER(WG2, release));
        return true;
      }
    }
  }

  // Its time is over. False: the counter has become zero, and it will be roused; the object may be gone.
  [[nodiscard]] bool give_up(Sleeper* n) {
    const inside here;
    if (!n->leaves.begin()) {
      return false;
    }
    // order: WG0 relaxed, validated by the compare-exchange
    while (!try_lock(state_.load(WEFT_ORDER(WG0, relaxed)))) {
      if (n->leaves.recalled()) {
        return false;
      }
    }
    timed_.remove(n);
    // order: WG2 release publishes the list to the next holder of the bit
    state_.fetch_sub(kLock + kWaiter, WEFT_ORDER(WG2, release));
    return true;
  }

  void* address() { return &state_; }

 private:
  std::uint64_t seen() const {
    return state_.load(WEFT_ORDER(WG1, acquire));  // order: WG1 pairs with add()
  }

  static constexpr std::uint64_t kWaiter = 1;
  static constexpr std::uint64_t kLock = std::uint64_t{1} << 31;

  static constexpr std::int64_t count(std::uint64_t s) {
    return static_cast<std::int32_t>(s >> 32);
  }
  static constexpr std::uint32_t low(std::uint64_t s) { return static_cast<std::uint32_t>(s); }
  static constexpr bool is_zero(std::uint64_t s) {
    return WEFT_MUTANT("zero-before-taken") ? count(s) == 0 : s == 0;
  }
  // The counter is zero, the waiters are being taken out.
  static constexpr bool last_moment(std::uint64_t s) {
    return count(s) == 0 && low(s) != 0 && !WEFT_MUTANT("added-at-the-last-moment");
  }
  static constexpr std::uint64_t with_count(std::uint64_t s, std::int64_t c) {
    return (static_cast<std::uint64_t>(c) << 32) | low(s);
  }

  bool try_lock(std::uint64_t s) {
    check_inside();
    if ((s & kLock) != 0) {
      cpu_pause();
      return false;
    }
    // order: WG2 acquire; pairs with the release of whoever dropped the bit
    return state_.compare_exchange_strong(s, s | kLock, WEFT_ORDER(WG2, acquire),
                                          WEFT_ORDER(WG0, relaxed));
  }

  // Holding the bit; when add() looked, n would have made the counter zero.
  outcome add_locked(std::int32_t n) {
    for (;;) {
      // order: relaxed, validated by the compare-exchange
      std::uint64_t s = state_.load(WEFT_ORDER(WG0, relaxed));
      const std::int64_t c = count(s) + n;
      const std::uint64_t to = c < 0 ? s & ~kLock : c == 0 ? kLock : with_count(s, c) & ~kLock;
      // order: WG3 acq_rel: pairs with WG1 of earlier done()s, which it acquires for those who are woken, and
      // as a release, for the bit, with WG2 of its next holder
      if (state_.compare_exchange_strong(s, to, WEFT_ORDER(WG3, acq_rel),
                                         WEFT_ORDER(WG0, relaxed))) {
        return c == 0 ? take_all() : outcome{c < 0, nullptr, nullptr};
      }
    }
  }

  // Holding the bit, and the counter is zero, so that the word stands still.
  outcome take_all() {
    const outcome all{false, list_.get(), timed_.release_all()};
    list_.set(nullptr);
    for (Sleeper* n = all.rouse; n != nullptr; n = n->next) {
      n->leaves.choose();
    }
    // order: WG1 release to zero() and push(). From here on the object is not ours to touch
    state_.store(0, WEFT_ORDER(WG1, release));
    return all;
  }

  atomic<std::uint64_t> state_{0};
  cell<Waiter*> list_{};
  wait_list<Sleeper> timed_;
};

}  // namespace weft::rt
