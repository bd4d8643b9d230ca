// The reader/writer lock's protocol, with Go's preference: a waiting writer keeps new readers out, and
// a writer that leaves lets in all readers that have come meanwhile, before the next writer. [RW-2]
//
//   state: │ readers inside, 28 bits │ readers wait │ writers wait │ writer inside │ queue │
//   two lists and the number of waiting readers, guarded by the queue bit
//
// Go's composition (a mutex for writers, a biased counter, two semaphores) lets the last reader
// destroy the lock while the writer that let it in is still unlocking. Here every hand-over is one
// step: who leaves takes the queue bit while still inside, chooses its successors, and gives the lock
// to them and the bit back at once. Nobody who wakes has to compete.
//
// RW1: after the step by which one is outside, one does not touch the object.
// RW2: readers or writers wait only while somebody is inside. Otherwise they sleep for ever.
// RW3: readers wait only while a writer is inside or waits.
//
// RX1: unlock → later lock; unlock_shared → later lock. Steps in between are read-modify-writes and
//      continue the sequence. RX2: the queue bit.
// For reports it keeps which writer is inside, as mutex_core.h does.
// Go: sync/rwmutex.go
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"
#include "sync/made_word.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Node>
class shared_mutex_core : public made_word {
 public:
  constexpr shared_mutex_core() = default;

  struct outcome {
    bool misuse;
    Node* rouse;  // those who are inside now, linked by `next`
  };

  bool try_lock() {
    // order: RX0 relaxed, validated by the compare-exchange
    std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));
    while (is_free(s)) {
      // order: RX1 acquire pairs with every unlock
      if (state_.compare_exchange_strong(s, s | kWriter, WEFT_ORDER(RX1, acquire),
                                         WEFT_ORDER(RX0, relaxed))) {
        return true;
      }
    }
    return false;
  }

  bool try_lock_shared() {
    // order: RX0 relaxed, validated by the compare-exchange
    std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));
    while (admits_readers(s)) {
      // order: RX1 acquire pairs with every unlock
      if (state_.compare_exchange_strong(s, s + kReader, WEFT_ORDER(RX1, acquire),
                                         WEFT_ORDER(RX0, relaxed))) {
        return true;
      }
    }
    return false;
  }

  // False: it is inside already.
  [[nodiscard]] bool enlist(Node& n) {
    return enlist_as(n, writers_, is_free, kWriter, kWritersWait);
  }
  [[nodiscard]] bool enlist_shared(Node& n) {
    return enlist_as(n, readers_, admits_readers, kReader, kReadersWait);
  }

  [[nodiscard]] outcome unlock() {
    // order: RX0 relaxed, validated by the compare-exchange
    std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));
    for (;;) {
      if ((s & kWriter) == 0) {
        return {true, nullptr};
      }
      if ((s & (kReadersWait | kWritersWait)) != 0) {
        return {false, leave()};
      }
      // order: RX1 release pairs with the acquire of the next lock
      if (state_.compare_exchange_strong(s, s & ~kWriter, WEFT_ORDER(RX1, release),
                                         WEFT_ORDER(RX0, relaxed))) {
        return {false, nullptr};
      }
    }
  }

  [[nodiscard]] outcome unlock_shared() {
    // order: RX0 relaxed, validated by the compare-exchange
    std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));
    for (;;) {
      if (s < kReader) {
        return {true, nullptr};
      }
      if (s < 2 * kReader && (s & kWritersWait) != 0) {
        return {false, leave_shared()};
      }
      // order: RX1 release pairs with the acquire of the next lock
      if (state_.compare_exchange_strong(s, s - kReader, WEFT_ORDER(RX1, release),
                                         WEFT_ORDER(RX0, relaxed))) {
        return {false, nullptr};
      }
    }
  }

  struct gave_up {
    bool mine;    // false: it has been let in, and will be roused
    Node* rouse;  // readers who waited only because of this writer
  };
  [[nodiscard]] gave_up give_up(Node& n) {
    const inside here;
    lock_queue();
    if (!n.linked) {
      drop_queue();
      return {false, nullptr};
    }
    writers_.remove(&n);
    const bool last = writers_.empty();
    // order: RX0 relaxed: the queue bit keeps a writer inside from leaving, as somebody waits
    const bool admits = last && (state_.load(WEFT_ORDER(RX0, relaxed)) & kWriter) == 0;
    std::uint32_t delta = last ? 0 - kQueue - kWritersWait : 0 - kQueue;
    Node* readers = admits && !WEFT_MUTANT("readers-left-behind") ? admit_readers(delta) : nullptr;
    // order: RX2 release pairs with the next holder; those who are let in see what the last writer did
    // through the acquire that took the bit
    state_.fetch_add(delta, WEFT_ORDER(RX2, release));
    return {true, readers};
  }
  // False: it has been let in, and will be roused.
  [[nodiscard]] bool give_up_shared(Node& n) {
    const inside here;
    lock_queue();
    const bool mine = n.linked;
    if (mine) {
      readers_.remove(&n);
      readers_waiting_.set(readers_waiting_.get() - 1);
    }
    const bool last = mine && readers_.empty();
    // order: RX2 release publishes the list to the next holder of the bit
    state_.fetch_sub(kQueue + (last ? kReadersWait : 0), WEFT_ORDER(RX2, release));
    return mine;
  }

  // By the writer who has just locked it: detail::this_owner().
  void note_writer(std::uint32_t who) {
    writer_.store(who, WEFT_ORDER(RX0, relaxed));  // order: RX0 relaxed, for reports
  }
  struct holders {
    bool written;
    std::uint32_t writer;  // if so
    std::uint32_t readers;
  };
  holders inside_now() const {
    const std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));  // order: RX0 relaxed, hints
    // order: RX0 relaxed, likewise
    return {(s & kWriter) != 0, writer_.load(WEFT_ORDER(RX0, relaxed)), s / kReader};
  }

 private:
  static constexpr std::uint32_t kQueue = 1;
  static constexpr std::uint32_t kWriter = 2;
  static constexpr std::uint32_t kWritersWait = 4;
  static constexpr std::uint32_t kReadersWait = 8;
  static constexpr std::uint32_t kReader = 16;

  static constexpr bool is_free(std::uint32_t s) { return (s & ~kQueue) == 0; }
  static constexpr bool admits_readers(std::uint32_t s) {
    return (s & (kWriter | kWritersWait)) == 0;
  }

  void lock_queue() {
    check_inside();
    // order: RX2 acquire pairs with the release of whoever dropped the bit
    while ((state_.fetch_or(kQueue, WEFT_ORDER(RX2, acquire)) & kQueue) != 0) {
      cpu_pause();
    }
  }
  void drop_queue() {
    // order: RX0 relaxed: nothing has changed
    state_.fetch_sub(kQueue, WEFT_ORDER(RX0, relaxed));
  }

  bool enlist_as(Node& n, wait_list<Node>& list, bool (*admitted)(std::uint32_t),
                 std::uint32_t enters, std::uint32_t waits) {
    const inside here;
    lock_queue();
    const bool reader = enters == kReader;
    for (;;) {
      // order: RX0 relaxed, validated by the compare-exchange
      std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));
      const bool in = admitted(s) && !WEFT_MUTANT("enlist-without-look");
      if (in == n.linked) {
        in ? list.remove(&n) : list.push_back(&n);
        readers_waiting_.set(readers_waiting_.get() + (!reader ? 0 : in ? -1 : 1));
      }
      const std::uint32_t to = (in ? s + enters : s | waits) & ~kQueue;
      // order: RX3 acquire pairs with RX1 of unlock, if it gets in; release with RX2
      if (state_.compare_exchange_strong(s, to, WEFT_ORDER(RX3, acq_rel),
                                         WEFT_ORDER(RX0, relaxed))) {
        return !in;
      }
    }
  }

  // Takes all waiting readers off, and adds to delta what that means for the word. Null: none waits.
  Node* admit_readers(std::uint32_t& delta) {
    const std::uint32_t n = readers_waiting_.get();
    if (n == 0) {
      return nullptr;
    }
    readers_waiting_.set(0);
    delta += n * kReader - kReadersWait;
    return readers_.release_all();
  }

  // A writer leaves, and somebody waits. While it holds the queue bit, too, nobody changes the word.
  Node* leave() {
    const inside here;
    lock_queue();
    std::uint32_t delta = 0 - kQueue - kWriter;
    Node* chosen = admit_readers(delta);
    if (chosen == nullptr) {
      chosen = next_writer(delta);
    }
    // order: RX1 release pairs with the acquire of the next lock, and with RX2 of the next holder
    state_.fetch_add(delta, WEFT_ORDER(RX1, release));
    return chosen;
  }

  // The last reader leaves, and a writer waits: or so it looked before the bit was taken.
  Node* leave_shared() {
    const inside here;
    lock_queue();
    for (;;) {
      // order: RX0 relaxed, validated by the compare-exchange
      std::uint32_t s = state_.load(WEFT_ORDER(RX0, relaxed));
      std::uint32_t delta = 0 - kQueue - kReader;
      const bool last = s < 2 * kReader && (s & kWritersWait) != 0;
      Node* chosen = last ? next_writer(delta) : nullptr;
      // order: RX4 release pairs with RX1 of the next lock and RX2 of the next holder; acquire: the
      // writer that is let in sees what all earlier readers did
      if (state_.compare_exchange_strong(s, s + delta, WEFT_ORDER(RX4, acq_rel),
                                         WEFT_ORDER(RX0, relaxed))) {
        return chosen;
      }
      if (chosen != nullptr) {
        writers_.push_front(chosen);
      }
    }
  }

  // Takes the first writer off and lets it in. Null: none waits.
  Node* next_writer(std::uint32_t& delta) {
    Node* writer = writers_.pop_front();
    if (writer == nullptr) {
      return nullptr;
    }
    writer->next = nullptr;
    if (!WEFT_MUTANT("let-in-in-secret")) note_writer(writer->who);
    delta += kWriter;
    delta -= writers_.empty() ? kWritersWait : 0;
    return writer;
  }

  atomic<std::uint32_t> state_{0};
  cell<std::uint32_t> readers_waiting_{};
  wait_list<Node> writers_;
  wait_list<Node> readers_;
  atomic<std::uint32_t> writer_{0};
};

}  // namespace weft::rt
