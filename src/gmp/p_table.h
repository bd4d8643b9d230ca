// All Ps: how many there are, and where. Read by anybody at any time, written in a stopped world.
//
// Problem. Who holds a P does not run while the number of Ps changes. But an M that has just let its P
// go looks at all queues once more, num_goroutine() sums over all Ps from any thread, and so does a
// crash report: they may come in the middle.
//
//   stopper, under sched.lock           reader of the Ps there are    reader of all there ever were
//   1. makes a P, put(i, P)             1. count()                    1. ever(0), ever(1) … until null
//   2. set_count(n)                     2. at(i), i < count
//
// PT-a: a P that a reader gets is whole, and at(i) is never null for i < count(). Ps stay, and so does the
// table: room for all of them is reserved at boot, as address space.
//
// Rejected: a new table for each change, which somebody might still be reading.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

template <class P>
class p_table {
 public:
  using entry = atomic<P*>;  // rarely written: when there have never been as many Ps

  // Once, before anybody else looks: `room` entries, all null, and one more.
  void adopt(entry* entries, std::int32_t room) {
    entries_ = entries;
    room_ = room;
  }

  std::int32_t count() const {
    return count_.load(WEFT_ORDER(PT1, acquire));  // order: PT1 acquire; pairs with set_count()
  }
  // Requires: i < count(), as read by this thread.
  P* at(std::int32_t i) const {
    return entries_[i].load(WEFT_ORDER(PT0, relaxed));  // order: relaxed, published by PT1
  }
  // Null: there never was one.
  P* ever(std::int32_t i) const {
    // order: PT2 acquire; pairs with put()
    return i < room_ ? entries_[i].load(WEFT_ORDER(PT2, acquire)) : nullptr;
  }

  void put(std::int32_t i, P* pp) {
    entries_[i].store(pp,
                      WEFT_ORDER(PT2, release));  // order: PT2 release publishes the P to ever()
  }
  void set_count(std::int32_t n) {
    count_.store(n, WEFT_ORDER(PT1, release));  // order: PT1 release publishes the Ps to at()
  }

 private:
  atomic<std::int32_t> count_{0};  // rarely written: while the world is stopped
  entry* entries_ = nullptr;       // constant after boot
  std::int32_t room_ = 0;          // constant after boot
};

}  // namespace weft::rt
