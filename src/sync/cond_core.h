// The condition variable's protocol: a queue of sleepers behind one word.
//
//   state: │ limited, 32 bits │ waiters, 31 bits │ queue, 1 bit │        list: guarded by the queue bit
//
// wait() lists the caller *before* it unlocks the mutex, so that nobody who changes the condition
// under the mutex can miss it; notify takes sleepers off in the order in which they came. [CO-1]
// What is done with those taken off is the caller's business: waiters of a weft::mutex move on to its
// queue without waking (mutex_core::adopt()), others are roused.
//
// One who waits with a limit may leave by himself. Who ends his wait is decided in his own node, by the
// claim (gmp/wait_claim.h): the notifier takes it under the queue bit, before it takes him off; the
// limit takes it without asking anybody. One whose limit was first stays listed, and counted, until
// he has taken himself off: notify passes him by.
//
// C1: notify touches the object no more once those it took off are free to go, and they do not touch it
//     either: it may be destroyed as soon as everybody has been notified, as std allows, also by
//     somebody who holds the mutex that they want next. Only those whose limit was first come back
//     to the list. They are still counted, so the destructor waits until the word is zero; they want
//     nothing but the queue bit.
//
// CV1 is the queue bit, acquired when taken and released when dropped. Whether anybody waits is asked
//     relaxed: who changed the condition under the mutex has acquired the unlock of whoever waits.
// Rejected: a number by which a waiter sees in the object whether it is still listed (it looks there
// after it was notified: C1), and a list of their own for those with limits (then notify_one must
// compare ages; notify_all walks the list only while somebody with a limit is on it).
// Go: runtime/sema.go notifyList (tickets; a list needs none)
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"
#include "sync/made_word.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Node>
class cond_core : public made_word {
 public:
  constexpr cond_core() = default;

  // Before the mutex is unlocked. After it, n may be roused, or moved, at any time; if it is limited,
  // once somebody has taken its claim.
  void push(Node* n, bool limited) {
    const inside here;
    const std::uint64_t s = lock_queue();
    n->limited = limited;
    list_.push_back(n);
    unlock_queue(s + weight(limited));
  }

  // The one who waits longest, or null.
  [[nodiscard]] Node* take_one() {
    if (!anybody()) {
      return nullptr;
    }
    const inside here;
    const std::uint64_t s = lock_queue();
    Node* n = list_.front();
    while (n != nullptr && !claims(n)) {
      n = n->next;
    }
    if (n != nullptr) {
      list_.remove(n);
    }
    unlock_queue(n != nullptr ? s - weight(n->limited) : s);
    return n;
  }

  struct taken {
    wait_list<Node> list;
    std::uint32_t count;
  };

  // Everybody; in constant time, if nobody has a limit.
  [[nodiscard]] taken take_all() { return anybody() ? take_all_surely() : taken{}; }

  // The same for one who has not held the mutex (a stop request): its step in the word's history is
  // before or after the push of whoever waits, so that one of the two sees the other.
  [[nodiscard]] taken take_all_surely() {
    const inside here;
    std::uint64_t s = lock_queue();
    taken all = s < kLimited ? taken{list_.take_all(), waiters(s)} : claim_all(s);
    unlock_queue(s < kLimited ? 0 : s);
    return all;
  }

  // Its limit was first, or it need not wait after all: the caller has n's claim. The caller does not
  // touch the object afterwards, which may be gone.
  void leave(Node* n) {
    const inside here;
    const std::uint64_t s = lock_queue();
    list_.remove(n);
    unlock_queue(s - weight(true));
  }

  // Nobody will touch the object any more, if everybody has been notified.
  bool quiet() const {
    // order: CV1 acquire pairs with the last release of everybody who has been here
    return state_.load(WEFT_ORDER(CV1, acquire)) == 0;
  }

 private:
  static constexpr std::uint64_t kQueue = 1;
  static constexpr std::uint64_t kWaiter = 2;
  static constexpr std::uint64_t kLimited = std::uint64_t{1} << 32;

  static constexpr std::uint64_t weight(bool limited) { return kWaiter + (limited ? kLimited : 0); }

  static constexpr std::uint32_t waiters(std::uint64_t s) {
    return static_cast<std::uint32_t>(s) / static_cast<std::uint32_t>(kWaiter);
  }

  bool anybody() const {
    // order: CV0 relaxed: see CV1 above
    return waiters(state_.load(WEFT_ORDER(CV0, relaxed))) != 0;
  }

  // Holding the bit. False: its limit was first, and it will take itself off.
  static bool claims(Node* n) {
    return !n->limited || n->take() || WEFT_MUTANT("notified-though-it-leaves");
  }

  // Holding the bit: all but those who leave, who are all that is left of the word then.
  taken claim_all(std::uint64_t& s) {
    taken all{};
    wait_list<Node> leaving;
    while (Node* n = list_.pop_front()) {
      if (claims(n)) {
        all.list.push_back(n);
        ++all.count;
        s -= weight(n->limited && !WEFT_MUTANT("counted-until-it-leaves"));
      } else {
        leaving.push_back(n);
      }
    }
    list_.append(leaving);
    return all;
  }

  // Returns the counts, which stand still until the bit is dropped.
  std::uint64_t lock_queue() {
    check_inside();
    for (;;) {
      // order: CV1 acquire pairs with the release of whoever dropped the bit
      const std::uint64_t s = state_.fetch_or(kQueue, WEFT_ORDER(CV1, acquire));
      if ((s & kQueue) == 0) {
        return s;
      }
      cpu_pause();
    }
  }

  // A plain store: those who want the bit meanwhile set what is set already, and look again.
  void unlock_queue(std::uint64_t counts) {
    // order: CV1 release publishes the list to the next holder of the bit, and to quiet()
    state_.store(counts, WEFT_ORDER(CV1, release));
  }

  atomic<std::uint64_t> state_{0};
  wait_list<Node> list_;
};

}  // namespace weft::rt
