// The condition variable's protocol: a queue of sleepers behind one word.
//
//   state: │ timed, 32 bits │ waiters, 31 bits │ queue, 1 bit │          list: guarded by the queue bit
//
// wait() lists the caller *before* it unlocks the mutex, so that nobody who changes the condition
// under the mutex can miss it; notify takes sleepers off in the order in which they came. [CO-1]
// What is done with those taken off is the caller's business: waiters of a weft::mutex move on to its
// queue without waking (mutex_core::adopt()), others are roused.
//
// C1: notify touches the object no more once those it took off are free to go, and they do not touch it
//     either: it may be destroyed as soon as everybody has been notified, as std allows. Only one who
//     waits with a limit must look at the list when his time is over, so those are counted (`timed`)
//     until they have looked for the last time, and the destructor waits for them.
//
// CV1 is the queue bit, acquired when taken and released when dropped. Whether anybody waits is asked
//     relaxed: who changed the condition under the mutex has acquired the unlock of whoever waits.
// Go: runtime/sema.go notifyList (tickets; a list needs none)
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Node>
class cond_core {
 public:
  constexpr cond_core() = default;

  // Before the mutex is unlocked. After it, n may be roused, or moved, at any time.
  void push(Node* n, bool timed) {
    lock_queue();
    n->round = round_.get();
    list_.push_back(n);
    // order: CV1 release publishes the list to the next holder of the bit
    state_.fetch_add((kWaiter - kQueue) + (timed ? kTimed : 0), WEFT_ORDER(CV1, release));
  }

  // The one who waits longest, or null.
  [[nodiscard]] Node* take_one() {
    if (!anybody()) {
      return nullptr;
    }
    lock_queue();
    Node* n = list_.pop_front();
    if (n != nullptr) {
      n->round = kGone;
    }
    // order: CV1 release as in push()
    state_.fetch_sub(kQueue + (n != nullptr ? kWaiter : 0), WEFT_ORDER(CV1, release));
    return n;
  }

  struct taken {
    wait_list<Node> list;
    std::uint32_t count;
  };

  // Everybody, in constant time.
  [[nodiscard]] taken take_all() { return anybody() ? take_all_surely() : taken{}; }

  // The same for one who has not held the mutex (a stop request): its step in the word's history is
  // before or after the push of whoever waits, so that one of the two sees the other.
  [[nodiscard]] taken take_all_surely() {
    lock_queue();
    // order: CV0 relaxed: under the queue bit the count stands still
    const std::uint32_t n = waiters(state_.load(WEFT_ORDER(CV0, relaxed)));
    taken all{list_.take_all(), n};
    round_.set(round_.get() + 1);
    // order: CV1 release as in push()
    state_.fetch_sub(kQueue + n * kWaiter, WEFT_ORDER(CV1, release));
    return all;
  }

  // Its time is over, or it need not wait after all. False: it has been notified already.
  [[nodiscard]] bool give_up(Node* n) {
    lock_queue();
    const bool mine = n->round == round_.get();
    if (mine) {
      list_.remove(n);
    }
    // order: CV1 release as in push()
    state_.fetch_sub(kQueue + (mine ? kWaiter : 0), WEFT_ORDER(CV1, release));
    return mine;
  }

  // A timed waiter will not touch the object any more.
  void leave() {
    // order: release pairs with quiet(): this very step precedes the end of the object. Without a label,
    // since models do not see the end of an atomic
    state_.fetch_sub(kTimed, std::memory_order_release);
  }

  // Nobody will touch the object any more, as far as those are concerned who have been notified.
  bool quiet() const {
    // order: CV1 acquire pairs with the last release of everybody who has been here
    return state_.load(WEFT_ORDER(CV1, acquire)) == 0;
  }

 private:
  static constexpr std::uint64_t kQueue = 1;
  static constexpr std::uint64_t kWaiter = 2;
  static constexpr std::uint64_t kTimed = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kGone = ~std::uint64_t{0};

  static constexpr std::uint32_t waiters(std::uint64_t s) {
    return static_cast<std::uint32_t>(s) / static_cast<std::uint32_t>(kWaiter);
  }

  bool anybody() const {
    // order: CV0 relaxed: see CV1 above
    return waiters(state_.load(WEFT_ORDER(CV0, relaxed))) != 0;
  }

  void lock_queue() {
    // order: CV1 acquire pairs with the release of whoever dropped the bit
    while ((state_.fetch_or(kQueue, WEFT_ORDER(CV1, acquire)) & kQueue) != 0) {
      cpu_pause();
    }
  }

  atomic<std::uint64_t> state_{0};
  wait_list<Node> list_;
  cell<std::uint64_t> round_{};  // of notify_all: nodes of earlier ones are gone
};

}  // namespace weft::rt
