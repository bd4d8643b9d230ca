// The barrier's protocol: phases that everybody must reach.
//
//   state: │ phase, 31 bits │ lock, 1 bit │ pending, 32 bits │       lists: guarded by the lock bit
//   expected: how many the next phase waits for; falls when somebody drops out
//
// Who brings `pending` to zero completes the phase: until it says so, nobody else may arrive, so it
// owns everything but the list, to which waiters may still come. It runs the user's function without
// any lock, and then, in one step, begins the next phase and lets go of the lists it has taken out.
// Those who wait with a limit have a list of their own, from which one may leave (sleeper.h); they have
// arrived all the same.
//
// B1: after that step the object is not touched: those who waited may destroy it.
// BA1: arrive → the completion of the phase → return of wait. BA2: the lock bit.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "gmp/inside.h"
#include "sync/made_word.h"
#include "sync/wait_list.h"

namespace weft::rt {

template <class Waiter, class Sleeper>
class barrier_core : public made_word {
 public:
  constexpr explicit barrier_core(std::uint32_t expected) : state_(expected), expected_(expected) {}

  struct arrival {
    std::uint32_t phase;
    bool completes;  // the caller must run the completion, and then begin_next()
  };

  // n of them arrive, and `dropped` of these never come again.
  arrival arrive(std::uint32_t n, std::uint32_t dropped) {
    if (dropped != 0) {
      // order: BA0 relaxed: the completer acquires it through the arrival below
      expected_.fetch_sub(dropped, WEFT_ORDER(BA0, relaxed));
    }
    // order: BA1 release to whoever completes; acquire, if that is us
    const std::uint64_t s = state_.fetch_sub(n, WEFT_ORDER(BA1, acq_rel));
    return {phase(s), pending(s) == n};
  }

  bool passed(std::uint32_t token) const {
    return phase(state_.load(WEFT_ORDER(BA1, acquire))) != token;  // order: BA1 begin_next()
  }

  // In the commit of a park. False: the phase is over, and nobody has seen w.
  [[nodiscard]] bool push(Waiter* w, std::uint32_t token) {
    const inside here;
    if (!lock_in(token)) {
      return false;
    }
    w->next = list_.get();
    list_.set(w);
    // order: BA2 release publishes the list to the next holder of the bit
    state_.fetch_sub(kLock, WEFT_COMMIT_ORDER(BA2, release));
    return true;
  }

  // The same for one who waits with a limit, on its own stack.
  [[nodiscard]] bool push_limited(Sleeper* n, std::uint32_t token) {
    const inside here;
    if (!lock_in(token)) {
      return false;
    }
    limited_.push_back(n);
    // order: BA2 release publishes the list to the next holder of the bit
    state_.fetch_sub(kLock, WEFT_ORDER(BA2, release));
    return true;
  }

  // Its limit came first. False: the phase is over, and it will be roused.
  [[nodiscard]] bool give_up(Sleeper* n) {
    const inside here;
    lock();
    const bool mine = n->linked;
    if (mine) {
      limited_.remove(n);
    }
    // order: BA2 release publishes the list to the next holder of the bit
    state_.fetch_sub(kLock, WEFT_ORDER(BA2, release));
    return mine;
  }

  struct waiting {
    Waiter* wake;    // newest first
    Sleeper* rouse;  // those with a limit, oldest first
  };

  // By the completer. Returns those who wait.
  [[nodiscard]] waiting begin_next() {
    const inside here;
    const std::uint64_t s = lock();
    const waiting all{list_.get(), limited_.release_all()};
    list_.set(nullptr);
    // order: BA0 relaxed: the arrivals that changed it have been acquired
    const std::uint64_t next = expected_.load(WEFT_ORDER(BA0, relaxed));
    const std::uint64_t to = (std::uint64_t{phase(s) + 1} << 33) + next;
    // order: BA1 release pairs with the acquire of those who wait and of the next arrivals
    state_.store(to, WEFT_ORDER(BA1, release));
    return all;
  }

  void* address() { return &state_; }

 private:
  static constexpr std::uint64_t kLock = std::uint64_t{1} << 32;

  static constexpr std::uint32_t phase(std::uint64_t s) {
    return static_cast<std::uint32_t>(s >> 33);
  }
  static constexpr std::uint32_t pending(std::uint64_t s) { return static_cast<std::uint32_t>(s); }

  // False: the phase is over.
  bool lock_in(std::uint32_t token) {
    check_inside();
    for (;; cpu_pause()) {
      // order: BA1 acquire, in case there is nothing to wait for
      std::uint64_t s = state_.load(WEFT_ORDER(BA1, acquire));
      if (phase(s) != token) {
        return false;
      }
      // order: BA2 acquire pairs with whoever dropped the bit
      if ((s & kLock) == 0 && state_.compare_exchange_strong(s, s | kLock, WEFT_ORDER(BA2, acquire),
                                                             WEFT_ORDER(BA0, relaxed))) {
        return true;
      }
    }
  }
  std::uint64_t lock() {
    check_inside();
    for (;; cpu_pause()) {
      // order: BA2 acquire pairs with whoever dropped the bit
      const std::uint64_t s = state_.fetch_or(kLock, WEFT_ORDER(BA2, acquire));
      if ((s & kLock) == 0) {
        return s;
      }
    }
  }

  atomic<std::uint64_t> state_;
  atomic<std::uint64_t> expected_;
  cell<Waiter*> list_{};
  wait_list<Sleeper> limited_;
};

}  // namespace weft::rt
