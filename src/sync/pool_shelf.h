// One P's part of a pool: stacks of boxes behind a bit.
//
// The P's own M takes the bit, uncontended, for an instant, without ever being switched away; thieves
// only try it. So an operation costs one compare-exchange in a warm cache line, and there is no
// lock-free deque to get right: Go needs one because a steal there must not hold up the owner.
//
// PL1: the bit, acquired when taken, released when dropped; also the edge from put() to get(). [PO-1]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"

namespace weft::rt {

template <class Box>
class pool_shelf {
 public:
  static constexpr std::uint32_t kMostEmpty = 64;

  void put(Box* b) {
    const inside here;
    lock();
    b->next = full_.get();
    full_.set(b);
    unlock();
  }

  // The newest; if there is none, one of the older generation.
  Box* get() {
    const inside here;
    lock();
    Box* b = pop(full_);
    if (b == nullptr) {
      b = pop(victims_);
    }
    unlock();
    return b;
  }

  // For another P: does not wait for the owner.
  Box* steal(bool victims) {
    const inside here;
    if (!try_lock()) {
      return nullptr;
    }
    Box* b = pop(victims ? victims_ : full_);
    unlock();
    return b;
  }

  // False: there are enough empty ones here.
  bool put_empty(Box* b) {
    const inside here;
    lock();
    const bool room = empties_.get() < kMostEmpty;
    if (room) {
      b->next = empty_.get();
      empty_.set(b);
      empties_.set(empties_.get() + 1);
    }
    unlock();
    return room;
  }
  Box* get_empty() {
    const inside here;
    lock();
    Box* b = pop(empty_);
    if (b != nullptr) {
      empties_.set(empties_.get() - 1);
    }
    unlock();
    return b;
  }

  struct dropped {
    Box* full;
    Box* empty;
  };
  // A generation passes. Returns what is to be freed.
  dropped rotate() {
    const inside here;
    lock();
    const dropped gone{victims_.get(), empty_.get()};
    victims_.set(full_.get());
    full_.set(nullptr);
    empty_.set(nullptr);
    empties_.set(0);
    unlock();
    return gone;
  }

 private:
  static Box* pop(cell<Box*>& list) {
    Box* b = list.get();
    if (b != nullptr) {
      list.set(b->next);
    }
    return b;
  }

  bool try_lock() {
    check_inside();
    std::uint32_t no = 0;
    // order: PL1 acquire pairs with unlock()
    return busy_.compare_exchange_strong(no, 1, WEFT_ORDER(PL1, acquire),
                                         WEFT_ORDER(PL0, relaxed));  // order: PL0 relaxed, retried
  }
  void lock() {
    while (!try_lock()) {
      cpu_pause();
    }
  }
  void unlock() { busy_.store(0, WEFT_ORDER(PL1, release)); }  // order: PL1 pairs with try_lock()

  alignas(64) atomic<std::uint32_t> busy_{0};
  cell<std::uint32_t> empties_{};
  cell<Box*> full_{};
  cell<Box*> victims_{};
  cell<Box*> empty_{};
};

}  // namespace weft::rt
