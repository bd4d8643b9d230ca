// The global run queue: a FIFO under sched.lock for what belongs to no P (overflow, plain threads'
// spawns, stopped Ps' leftovers), polled without the lock as a hint.
//
// Go: runtime/proc.go globrunq*
#pragma once

#include <algorithm>
#include <cstdint>

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
  void push_back(G* first, G* last, std::uint32_t n) {
    last->schedlink = nullptr;
    (tail_ != nullptr ? tail_->schedlink : head_) = first;
    tail_ = last;
    grow(n);
  }

  void push_front(G* gp) {
    gp->schedlink = head_;
    head_ = gp;
    if (tail_ == nullptr) {
      tail_ = gp;
    }
    grow(1);
  }

  G* pop() {
    G* gp = head_;
    if (gp == nullptr) {
      return nullptr;
    }
    head_ = gp->schedlink;
    if (head_ == nullptr) {
      tail_ = nullptr;
    }
    gp->schedlink = nullptr;
    // order: relaxed, writers hold sched.lock
    size_.store(size() - 1, WEFT_ORDER(GQ0, relaxed));
    return gp;
  }

  // Without the lock this is a hint; idlers look again under the lock.
  std::uint32_t size() const {
    return size_.load(WEFT_ORDER(GQ0, relaxed));  // order: relaxed, hint or under sched.lock
  }
  bool empty() const { return size() == 0; }

 private:
  void grow(std::uint32_t n) {
    size_.store(size() + n, WEFT_ORDER(GQ0, relaxed));  // order: relaxed, writers hold sched.lock
  }

  G* head_ = nullptr;
  G* tail_ = nullptr;
  shared_atomic<std::uint32_t> size_{0};
};

}  // namespace weft::rt
