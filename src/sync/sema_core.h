// The semaphore's protocol: a count, and a queue of those for whom it was not enough.
//
//   state: │ count, 32 bits │ waiters, 31 bits │ queue, 1 bit │          list: guarded by the queue bit
//
// What is released while somebody waits is given to the longest waiters directly; only the rest becomes
// count. So nobody who waits is passed by, and a wake-up is never in vain. [SEM-4]
//
// S1: count and waiters are not both positive. Otherwise somebody sleeps beside what it waits for.
// S2: after the step that makes a unit visible, or gives it away, release() does not touch the
//     object: whoever acquires it may destroy it.
//
// SE1: release() → the acquire() that gets the unit. SE2: the queue bit.
// Go: runtime/sema.go, whose waiters compete, and whose table is keyed by address
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"
#include "sync/made_word.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Node>
class sema_core : public made_word {
 public:
  static constexpr std::int64_t kMax = INT32_MAX;

  constexpr explicit sema_core(std::int64_t count)
      : state_(static_cast<std::uint64_t>(count) * kUnit) {}

  bool try_acquire() {
    // order: SE0 relaxed, validated by the compare-exchange
    std::uint64_t s = state_.load(WEFT_ORDER(SE0, relaxed));
    while (s >= kUnit) {
      // order: SE1 acquire pairs with release()
      if (state_.compare_exchange_strong(s, s - kUnit, WEFT_ORDER(SE1, acquire),
                                         WEFT_ORDER(SE0, relaxed))) {
        return true;
      }
    }
    return false;
  }

  // False: there was a unit after all, and it is the caller's.
  [[nodiscard]] bool enlist(Node& n) {
    const inside here;
    lock_queue();
    for (;;) {
      // order: SE0 relaxed, validated by the compare-exchange
      std::uint64_t s = state_.load(WEFT_ORDER(SE0, relaxed));
      const bool free = s >= kUnit && !WEFT_MUTANT("enlist-beside-a-unit");
      if (free && n.linked) {
        list_.remove(&n);
      } else if (!free && !n.linked) {
        list_.push_back(&n);
      }
      const std::uint64_t to = (free ? s - kUnit : s + kWaiter) - kQueue;
      // order: SE3 acquire pairs with SE1 of release(), if it gets a unit; release with SE2
      if (state_.compare_exchange_strong(s, to, WEFT_ORDER(SE3, acq_rel),
                                         WEFT_ORDER(SE0, relaxed))) {
        return !free;
      }
    }
  }

  // False: somebody has given it a unit, and will rouse it.
  [[nodiscard]] bool give_up(Node& n) {
    const inside here;
    lock_queue();
    const bool mine = n.linked;
    if (mine) {
      list_.remove(&n);
    }
    // order: SE2 release publishes the list to the next holder of the bit
    state_.fetch_sub(kQueue + (mine ? kWaiter : 0), WEFT_ORDER(SE2, release));
    return mine;
  }

  // Returns those who got a unit each, to be roused, linked by `next`.
  [[nodiscard]] Node* release(std::uint32_t n) {
    for (;;) {
      // order: SE0 relaxed, validated by the compare-exchange
      std::uint64_t s = state_.load(WEFT_ORDER(SE0, relaxed));
      if (waiters(s) == 0) {
        // order: SE1 release pairs with the acquire of whoever gets the unit
        if (state_.compare_exchange_strong(s, s + n * kUnit, WEFT_ORDER(SE1, release),
                                           WEFT_ORDER(SE0, relaxed))) {
          return nullptr;
        }
        continue;
      }
      const inside here;
      lock_queue();
      return hand_out(n);
    }
  }

 private:
  static constexpr std::uint64_t kQueue = 1;
  static constexpr std::uint64_t kWaiter = 2;
  static constexpr std::uint64_t kUnit = std::uint64_t{1} << 32;

  static constexpr std::uint32_t waiters(std::uint64_t s) {
    return static_cast<std::uint32_t>(s) / static_cast<std::uint32_t>(kWaiter);
  }

  void lock_queue() {
    check_inside();
    // order: SE2 acquire pairs with the release of whoever dropped the bit
    while ((state_.fetch_or(kQueue, WEFT_ORDER(SE2, acquire)) & kQueue) != 0) {
      cpu_pause();
    }
  }

  // Holding the queue bit, which is dropped.
  Node* hand_out(std::uint32_t n) {
    Node* first = nullptr;
    Node* last = nullptr;
    std::uint32_t given = 0;
    while (given < n) {
      Node* next = list_.pop_front();
      if (next == nullptr) {
        break;
      }
      next->next = nullptr;
      if (last == nullptr) {
        first = next;
      } else {
        last->next = next;
      }
      last = next;
      ++given;
    }
    // order: SE1 release pairs with whoever gets a unit; SE2 with the next holder of the bit
    state_.fetch_add((n - given) * kUnit - given * kWaiter - kQueue, WEFT_ORDER(SE1, release));
    return first;
  }

  atomic<std::uint64_t> state_;
  wait_list<Node> list_;
};

}  // namespace weft::rt
