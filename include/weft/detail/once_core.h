// call_once's protocol: a flag that is read without a lock and set under one.
//
//   done():         an acquire load. True: f has returned, and what it did is seen.
//   call_locked():  holding the mutex: look again, for whoever held it before may have called f; call it; set the flag.
//
// ON1: the flag is released when it is set, and acquired by whoever finds it set without having held the mutex. Those who
//      had to take the mutex are ordered by that. If f throws, the flag stays as it was, and the next one calls f.
//
// A model compiles this very file with the atomics of the seam (src/base/atomic.h), which it has included before:
// tests/model/once_model.cc.
#pragma once

#include <utility>

#include <weft/detail/export.h>

namespace weft::detail {

#ifdef WEFT_MODEL
using once_word = rt::atomic<bool>;
#define WEFT_HEADER_ORDER(LABEL, ORDER) WEFT_ORDER(LABEL, ORDER)
#define WEFT_HEADER_MUTANT(NAME) WEFT_MUTANT(NAME)
#else
// <atomic> would double the cost of once.h.
class once_word {
 public:
  bool load(int order) const noexcept { return __atomic_load_n(&set_, order); }
  void store(bool value, int order) noexcept { __atomic_store_n(&set_, value, order); }

 private:
  bool set_ = false;
};
#define WEFT_HEADER_acquire(LABEL) __ATOMIC_ACQUIRE
#define WEFT_HEADER_release(LABEL) WEFT_HEADER_RELEASE(LABEL)
#define WEFT_HEADER_ORDER(LABEL, ORDER) WEFT_HEADER_##ORDER(LABEL)
#define WEFT_HEADER_MUTANT(NAME) false
#endif

template <class Mutex>
class once_core {
 public:
  constexpr once_core() noexcept = default;

  bool done() const {
    return done_.load(WEFT_HEADER_ORDER(ON1, acquire));  // order: ON1 pairs with call_locked()
  }
  Mutex& mutex() noexcept { return running_; }

  // Requires: the mutex is held.
  template <class F>
  void call_locked(F&& f) {
    if (done() && !WEFT_HEADER_MUTANT("once-not-looked-again")) {
      return;
    }
    std::forward<F>(f)();
    done_.store(true, WEFT_HEADER_ORDER(ON1, release));  // order: ON1 pairs with done()
  }

 private:
  Mutex running_;
  once_word done_;
};

}  // namespace weft::detail
