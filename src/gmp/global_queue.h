// The global run queue: a FIFO under sched.lock for what belongs to no P (overflow, plain threads'
// spawns, stopped Ps' leftovers), polled without the lock as a hint.
//
// Beside it two lists of goroutines that can go on only on their threads (sched/preempt.cc), which are called frozen:
// those that have come back from a call in which they lost their P, and those that were stopped because they computed
// for long. Whoever has come back is as urgent as a free one.
//
// Where several lists have somebody they take turns, so that none starves: but for those who were
// stopped, who have had their slices. They wait for others in this queue until one of them has waited
// for 5 ms; and a P that has work of its own takes none of them within the first millisecond.
//
// Go: runtime/proc.go globrunq*
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/atomic.h"
#include "base/counters.h"
#include "base/fatal.h"
#include "gmp/g.h"

namespace weft::rt {

// How many one P takes at once: its share, and never more than fits into half a ring [GQ-3].
constexpr std::uint32_t global_batch(std::uint32_t size, std::uint32_t procs, std::uint32_t ring) {
  return std::min({ring / 2, size, size / procs + 1});
}

// All members but size() and empty(): the caller holds sched.lock.
class global_queue {
 public:
  void push_back(G* gp) { push_back(gp, gp, 1); }

  // A chain first → … → last, linked by schedlink.
  void push_back(G* first, G* last, std::uint32_t n) { append(lists_[kFree], first, last, n); }

  void push_front(G* gp) { prepend(lists_[kFree], gp); }

  // Of any list, in turn; but who was stopped waits for others, for a while.
  G* pop(std::int64_t now) {
    G* gp = pop_next(has_waited(now, kLongWait));
    return gp != nullptr ? gp : take_first(lists_[kFrozen]);
  }
  // Likewise, for a P that has other work: null if nobody else waits than who was stopped just now.
  G* pop_in_turn(std::int64_t now) { return pop_next(has_waited(now, kPatience)); }
  // One that any M may run.
  G* pop_free() { return take_first(lists_[kFree]); }

  // It was stopped.
  void push_frozen(G* gp, std::int64_t now) {
    gp->frozen_since = now;
    append(lists_[kFrozen], gp, gp, 1);
  }
  void push_frozen_front(G* gp, std::int64_t now) {
    gp->frozen_since = std::min(now, frozen_since());  // the first is the oldest
    prepend(lists_[kFrozen], gp);
  }
  // It has come back from a call.
  void push_returned(G* gp, std::int64_t now) {
    gp->frozen_since = now;
    append(lists_[kReturned], gp, gp, 1);
  }
  // One of either kind: who has come back; but if somebody else has waited for long, they take turns. holder: one who
  // may hold a lock, and has been stopped.
  G* pop_frozen(std::int64_t now, bool holder = false) {
    bool stopped = holder;
    if (!holder && has_returned() && has_waited(now, kLongWait)) {
      stopped = stopped_next_ = !stopped_next_;
    }
    G* gp = take_first(lists_[stopped ? kFrozen : kReturned]);
    return gp != nullptr ? gp : take_first(lists_[stopped ? kReturned : kFrozen]);
  }
  // Whether one of either kind is next for a P that may go to anybody; `fresh` ones wait, too, and have
  // every fourth turn. Whoever was stopped waits for them, but not for long.
  bool frozen_are_next(bool fresh, std::int64_t now) {
    if (!has_frozen() || !fresh) {
      return has_frozen();
    }
    if (!has_returned() && !has_waited(now, kLongWait)) {
      return false;
    }
    return ++frozen_turns_ % kTurnsOfFresh != 0;
  }
  bool has_frozen() const { return lists_[kFrozen].count != 0 || has_returned(); }
  bool has_returned() const { return lists_[kReturned].count != 0; }
  bool has_free() const { return lists_[kFree].count != 0; }
  std::uint32_t free() const { return lists_[kFree].count; }
  std::uint32_t returned() const { return lists_[kReturned].count; }
  // Without the lock this is a hint; idlers look again under the lock.
  std::uint32_t size() const {
    return size_.load(WEFT_ORDER(GQ0, relaxed));  // order: relaxed, hint or under sched.lock
  }
  bool empty() const { return size() == 0; }

 private:
  static constexpr std::int64_t kPatience = 1'000'000;  // ns
  static constexpr std::int64_t kLongWait = 5'000'000;  // ns
  static constexpr std::uint32_t kTurnsOfFresh = 4;     // who comes back is done soon, mostly
  enum : int { kFree, kReturned, kFrozen, kLists };
  struct list {
    G* head = nullptr;
    G* tail = nullptr;
    std::uint32_t count = 0;
  };

  // Since when the oldest one waits that was stopped; the future if there is none.
  std::int64_t frozen_since() const {
    const G* oldest = lists_[kFrozen].head;
    return oldest != nullptr ? oldest->frozen_since : std::numeric_limits<std::int64_t>::max();
  }

  // Somebody who was stopped has.
  bool has_waited(std::int64_t now, std::int64_t so_long) const {
    return now - frozen_since() >= so_long;
  }

  G* pop_next(bool stopped_too) {
    for (int i = 0; i < kLists; ++i) {
      turn_ = (turn_ + 1) % kLists;
      if (turn_ == kFrozen && !stopped_too) {
        continue;
      }
      if (G* gp = take_first(lists_[turn_])) {
        return gp;
      }
    }
    return nullptr;
  }

  void grow(list& l, std::uint32_t n) {
    l.count += n;
    size_.store(size() + n, WEFT_ORDER(GQ0, relaxed));  // order: relaxed, writers hold sched.lock
  }

  void append(list& l, G* first, G* last, std::uint32_t n) {
    last->schedlink = nullptr;
    (l.tail != nullptr ? l.tail->schedlink : l.head) = first;
    l.tail = last;
    grow(l, n);
  }

  void prepend(list& l, G* gp) {
    gp->schedlink = l.head;
    l.head = gp;
    if (l.tail == nullptr) {
      l.tail = gp;
    }
    grow(l, 1);
  }

  G* take_first(list& l) {
    G* gp = l.head;
    if (gp == nullptr) {
      return nullptr;
    }
    l.head = gp->schedlink;
    if (l.head == nullptr) {
      l.tail = nullptr;
    }
    gp->schedlink = nullptr;
    --l.count;
    // order: relaxed, writers hold sched.lock
    size_.store(size() - 1, WEFT_ORDER(GQ0, relaxed));
    return gp;
  }

  list lists_[kLists];
  int turn_ = kReturned;
  std::uint32_t frozen_turns_ = 0;
  bool stopped_next_ = false;
  shared_atomic<std::uint32_t> size_{0};
};

}  // namespace weft::rt
