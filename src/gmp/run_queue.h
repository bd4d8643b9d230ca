// The run queue of a P: a ring of runnable goroutines and one slot in front of it, runnext.
//
// Problem: the owner of a P queues and takes a goroutine at every switch and may pay a few
// nanoseconds for it; any other P may come at any time and take half of what is there.
//
// Protocol. head and tail run freely and wrap; ring[i % Capacity] holds element i, head <= i <
// tail. Only the owner moves tail, by one release store after the slots are filled. Anybody moves
// head, by a compare-exchange after having read the slots: it succeeds only if nobody else took
// them, and only then do the values count. Only the owner puts something into runnext; anybody may
// take it out. Positions never come back (short of 2^32 steps in the middle of one steal), so a
// successful compare-exchange of head proves that the slots it covers were not overwritten before
// it.
//
// The owner may also take back the newest element (take(): a joiner runs its child in place). Then a
// position does come back, and a thief that has read the old tail might claim it. So head carries a
// version beside the position, which take() raises, after it has lowered tail: a thief that read head
// before fails, one that reads it afterwards sees the lower tail.
//
// Invariants
//  RQ-a  tail - head <= Capacity as seen by the owner. Otherwise a push overwrites a queued G.
//  RQ-b  the owner overwrites a slot only after acquiring a head beyond it. Otherwise a thief that
//        is still reading the slot takes a G of the next lap.
//  RQ-c  runnext changes to a G by its owner only. Otherwise put_next could evict a G it never saw.
//  RQ-d  empty() never says true of a queue that its owner keeps non-empty throughout, although a G
//        may meanwhile move from runnext to the ring and a newer one out of runnext.
//
// Labels (a site may share its partner's label; models weaken each site separately)
//  RQ1 tail: owner's release -> thief's acquire: slots and what the G points to
//  RQ2 head: thief's release (its slots are read) -> owner's acquire before it overwrites them
//  RQ3 head: owner's release when it takes an element -> acquire in empty()
//  RQ6 head: owner's release when it takes the newest -> thief's acquire: it sees the lower tail
//  RQ7 tail: owner's release when it lowers it -> acquire in empty(): it sees the runnext put before
//  NX1 runnext: owner's release of a G -> acquire of whoever steals it
//  NX2 runnext: owner's release when it takes the G out -> acquire in empty(), which then sees the
//      tail of the G that was evicted before
//
// A lone P (the only one) has no thieves: compare-exchanges of 6-12 ns become loads and stores of
// the orders that empty(), called by sysmon or a foreign thread, still needs.
// Rejected: a Chase-Lev deque (LIFO for the owner: starves the oldest; Go's fairness is FIFO), a
// lock (a full fence twice a switch), and separate cache lines for head and tail (a thief reads
// both and would pay two misses; the owner's line is its own nearly always).
// Go: runtime/proc.go runqput, runqget, runqgrab, runqsteal, runqempty, runqputslow, runqdrain
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/fatal.h"

namespace weft::rt {

template <class T, std::uint32_t Capacity = 256>
class run_queue {
  static_assert(Capacity >= 2 && (Capacity & (Capacity - 1)) == 0, "a power of two");

 public:
  static constexpr std::uint32_t kCapacity = Capacity;
  static constexpr std::uint32_t kHalf = Capacity / 2;

  // The counters begin at start: models and tests choose one from which they soon wrap.
  constexpr explicit run_queue(std::uint32_t start = 0) noexcept : head_(start), tail_(start) {}
  run_queue(const run_queue&) = delete;
  run_queue& operator=(const run_queue&) = delete;

  // --- owner ---------------------------------------------------------------------------------

  // Appends to the ring; false if it is full (see take_half).
  bool push(T* item) {
    const std::uint32_t h = acquire_head();
    const std::uint32_t t = own_tail();
    if (t - h >= Capacity) [[unlikely]]
      return false;
    ring_[t % Capacity].set(item);
    publish_tail(t + 1);
    return true;
  }

  // Appends as many of the n as fit, in order, by one publication; returns how many.
  std::uint32_t push_batch(T* const* items, std::uint32_t n) {
    const std::uint32_t h = acquire_head();
    const std::uint32_t t = own_tail();
    const std::uint32_t room = Capacity - (t - h);
    if (n > room) n = room;
    for (std::uint32_t i = 0; i < n; ++i) ring_[(t + i) % Capacity].set(items[i]);
    if (n != 0) publish_tail(t + n);
    return n;
  }

  // Puts item into runnext; returns the one it displaces, or null. The caller pushes that one.
  [[nodiscard]] T* put_next(T* item) {
    if (lone_) {
      // order: NX3 relaxed: only the owner changes it while it is lone
      T* old = next_.load(WEFT_ORDER(NX3, relaxed));
      // order: NX3 relaxed: nobody steals from a lone P, and empty() looks at no G
      next_.store(item, WEFT_ORDER(NX3, relaxed));
      return old;
    }
    // order: NX1 release publishes the G to steal_next(); what comes out was ours, so no acquire
    return next_.exchange(item, WEFT_ORDER(NX1, release));
  }

  // Takes runnext; null if there is none or a thief was faster.
  [[nodiscard]] T* pop_next() {
    // order: NX3 relaxed: our own store, or null from a thief, which only gives up early
    T* item = next_.load(WEFT_ORDER(NX3, relaxed));
    if (item == nullptr) return nullptr;
    if (lone_) {
      next_.store(nullptr, WEFT_ORDER(NX2, release));  // order: NX2 see below
      return item;
    }
    // order: NX2 release: who sees the slot empty sees our tail; pairs with empty()
    return next_.exchange(nullptr, WEFT_ORDER(NX2, release));
  }

  // Takes the oldest of the ring; null if it is empty.
  [[nodiscard]] T* pop() {
    // order: RQ4 relaxed: a stale head makes the compare-exchange fail, never the ring look empty
    std::uint64_t h = head_.load(WEFT_ORDER(RQ4, relaxed));
    for (;;) {
      if (position(h) == own_tail()) return nullptr;
      T* item = ring_[position(h) % Capacity].get();
      if (lone_) {
        head_.store(advanced(h, 1), WEFT_ORDER(RQ3, release));  // order: RQ3 as below
        return item;
      }
      // order: RQ3 release: who sees this head sees the runnext we put before; pairs with empty().
      // Relaxed on failure: h is validated again by the next round.
      if (head_.compare_exchange_strong(h, advanced(h, 1), WEFT_ORDER(RQ3, release),
                                        WEFT_ORDER(RQ4, relaxed))) [[likely]] {
        return item;
      }
    }
  }

  // Overflow: moves the oldest half of a full ring to out[0 .. kHalf); returns kHalf, or 0 if the
  // ring is not full (any more), and then there is room to push.
  [[nodiscard]] std::uint32_t take_half(T** out) {
    // order: RQ4 relaxed: validated by the compare-exchange
    std::uint64_t h = head_.load(WEFT_ORDER(RQ4, relaxed));
    if (own_tail() - position(h) != Capacity) return 0;
    for (std::uint32_t i = 0; i < kHalf; ++i) out[i] = ring_[(position(h) + i) % Capacity].get();
    // order: RQ3 release as in pop(); a failure means a thief came, and the caller pushes again
    return head_.compare_exchange_strong(h, advanced(h, kHalf), WEFT_ORDER(RQ3, release),
                                         WEFT_ORDER(RQ4, relaxed))
               ? kHalf
               : 0;
  }

  // Takes this very item, if it is in runnext or the newest of the ring. False: it is elsewhere, or a
  // thief has it.
  [[nodiscard]] bool take(T* item) {
    // order: NX3 relaxed: our own store, or null from a thief, which only gives up early
    if (next_.load(WEFT_ORDER(NX3, relaxed)) == item) {
      return pop_next() == item;
    }
    const std::uint32_t t = own_tail() - 1;
    // order: RQ4 relaxed: validated by the compare-exchange
    std::uint64_t h = head_.load(WEFT_ORDER(RQ4, relaxed));
    if (t + 1 == position(h) || ring_[t % Capacity].get() != item) {
      return false;
    }
    // order: RQ7 release: who sees it sees our runnext, too; pairs with empty(); and with RQ1
    tail_.store(t, WEFT_ORDER(RQ7, release));
    if (lone_ || WEFT_MUTANT("take-without-version")) return true;
    // order: RQ6 release: who reads this head sees the lower tail; pairs with take_from()
    while (!head_.compare_exchange_strong(h, h + kVersion, WEFT_ORDER(RQ6, release),
                                          WEFT_ORDER(RQ4, relaxed))) {
      if (position(h) == t + 1) {  // a thief was faster
        // order: RQ5 relaxed: nothing is published, the ring is empty
        tail_.store(t + 1, WEFT_ORDER(RQ5, relaxed));
        return false;
      }
    }
    return true;
  }

  // Empties runnext, then the ring from its oldest, into out; at most max. Returns how many.
  std::uint32_t drain(T** out, std::uint32_t max) {
    std::uint32_t n = 0;
    if (n < max) {
      if (T* item = pop_next()) out[n++] = item;
    }
    while (n < max) {
      T* item = pop();
      if (item == nullptr) break;
      out[n++] = item;
    }
    return n;
  }

  // The two oldest of the ring, or null: hints (a thief may have them already), for prefetching.
  struct pair_of_hints {
    T *first, *second;
  };
  pair_of_hints peek_two() const {
    // order: RQ4 relaxed: a hint
    const std::uint32_t h = position(head_.load(WEFT_ORDER(RQ4, relaxed)));
    const std::uint32_t n = own_tail() - h;
    if (n == 0) return {nullptr, nullptr};
    return {ring_[h % Capacity].get(), n == 1 ? nullptr : ring_[(h + 1) % Capacity].get()};
  }

  // Requires: the world is stopped. lone: no other P exists, so nobody steals.
  void set_lone(bool lone) { lone_ = lone; }

  // --- thieves -------------------------------------------------------------------------------

  // Takes the older half (rounded up) into out[0 .. kHalf); returns how many.
  [[nodiscard]] std::uint32_t grab(T** out) {
    return take_from(*this, [out](std::uint32_t i, T* item) { out[i] = item; });
  }

  // Steals half of this queue for the owner of `thief`: the last of them is returned to be run, the
  // others are in thief's ring. Null if there was nothing.
  // Requires: the caller owns `thief`, whose ring is empty.
  [[nodiscard]] T* steal_into(run_queue& thief) {
    // order: RQ2 acquire: other thieves have read the slots that we are about to overwrite
    const std::uint32_t h = position(thief.head_.load(WEFT_ORDER(RQ2, acquire)));
    const std::uint32_t t = thief.own_tail();
    if (t != h) fatal("run queue: steal into a queue that is not empty");
    T* last = nullptr;
    const std::uint32_t n = take_from(*this, [&thief, &last, t](std::uint32_t i, T* item) {
      thief.ring_[(t + i) % Capacity].set(item);
      last = item;
    });
    if (n > 1) thief.publish_tail(t + n - 1);
    return n != 0 ? last : nullptr;
  }

  // What runnext holds now; a hint to be confirmed by steal_next().
  T* peek_next() const {
    return next_.load(WEFT_ORDER(NX3, relaxed));  // order: NX3 relaxed: validated by steal_next()
  }

  // Takes runnext if it still holds expected; null otherwise.
  [[nodiscard]] T* steal_next(T* expected) {
    if (expected == nullptr) return nullptr;
    T* seen = expected;
    // order: NX1 acquire: sees what the owner put into the G. No release: as a read-modify-write it
    // continues the owner's release sequence, so empty() synchronises through it all the same.
    return next_.compare_exchange_strong(seen, nullptr, WEFT_ORDER(NX1, acquire),
                                         WEFT_ORDER(NX3, relaxed))
               ? expected
               : nullptr;
  }

  // --- anybody -------------------------------------------------------------------------------

  // Whether there is nothing at all. Never true while the owner keeps it non-empty (RQ-d); may say
  // false of a queue that has just become empty.
  bool empty() const {
    for (;;) {
      // order: RQ3 acquire: an advanced head shows the runnext put before; pairs with pop()
      const std::uint32_t h = position(head_.load(WEFT_ORDER(RQ3, acquire)));
      // order: RQ7 acquire: a tail that take() lowered shows the runnext put before
      const std::uint32_t t = tail_.load(WEFT_ORDER(RQ7, acquire));
      // order: NX2 acquire: an emptied runnext shows the tail before it; pairs with pop_next()
      const T* next = next_.load(WEFT_ORDER(NX2, acquire));
      if (WEFT_MUTANT("empty-reads-tail-once")) return h == t && next == nullptr;
      // order: RQ5 relaxed: ordered after the load of next by its acquire
      if (t == tail_.load(WEFT_ORDER(RQ5, relaxed))) return h == t && next == nullptr;
    }
  }

  // Elements of the ring: exact for the owner of a lone P, a hint otherwise.
  std::uint32_t size() const {
    // order: RQ4 relaxed: a hint
    const std::uint32_t h = position(head_.load(WEFT_ORDER(RQ4, relaxed)));
    const std::uint32_t t = tail_.load(WEFT_ORDER(RQ5, relaxed));  // order: RQ5 relaxed: a hint
    const std::uint32_t n = t - h;
    return n <= Capacity ? n : 0;  // torn between the two loads
  }

 private:
  static constexpr std::uint64_t kVersion = std::uint64_t{1} << 32;
  static constexpr std::uint32_t position(std::uint64_t h) { return static_cast<std::uint32_t>(h); }
  // A position that wraps raises the version, which does no harm.
  static constexpr std::uint64_t advanced(std::uint64_t h, std::uint32_t n) { return h + n; }

  std::uint32_t acquire_head() const {
    // order: RQ2 acquire: thieves have read the slots below it; pairs with take_from()
    return position(head_.load(WEFT_ORDER(RQ2, acquire)));
  }
  std::uint32_t own_tail() const {
    return tail_.load(WEFT_ORDER(RQ5, relaxed));  // order: RQ5 relaxed: the caller is the writer
  }
  void publish_tail(std::uint32_t t) {
    // order: RQ1 release publishes the slots below t; pairs with the acquire in take_from()
    tail_.store(t, WEFT_ORDER(RQ1, release));
  }

  // Hands the older half of `from` to sink(i, item), possibly several times over; the last time is
  // the one that counts. Returns how many.
  template <class Sink>
  static std::uint32_t take_from(run_queue& from, Sink sink) {
    for (;;) {
      // order: RQ6 acquire: if take() changed it, the tail below is the lower one; pairs with take()
      std::uint64_t h = from.head_.load(WEFT_ORDER(RQ6, acquire));
      // order: RQ1 acquire: the slots below t and their Gs; pairs with publish_tail()
      const std::uint32_t t = from.tail_.load(WEFT_ORDER(RQ1, acquire));
      std::uint32_t n = t - position(h);
      n -= n / 2;
      if (n == 0) return 0;
      if (n > kHalf) {  // head and tail are of different times
        cpu_pause();
        continue;
      }
      for (std::uint32_t i = 0; i < n; ++i) sink(i, from.ring_[(position(h) + i) % Capacity].get());
      // order: RQ2 release: our reads of the slots precede the owner's next lap; pairs with push()
      if (from.head_.compare_exchange_strong(h, advanced(h, n), WEFT_ORDER(RQ2, release),
                                             WEFT_ORDER(RQ4, relaxed))) {
        return n;
      }
    }
  }

  // One cache line for what every operation touches, then the ring.
  alignas(64) atomic<std::uint64_t> head_;  // position, and above it the version of take()
  atomic<std::uint32_t> tail_;
  atomic<T*> next_{nullptr};
  bool lone_ = false;  // changed while the world is stopped
  alignas(64) slot<T*> ring_[Capacity];
};

}  // namespace weft::rt
