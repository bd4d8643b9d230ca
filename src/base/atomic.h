// The seam under every lock-free protocol of the runtime.
//
// Problem: a protocol that is right on x86 may be wrong in C++, and no stress test on one machine
// tells them apart. So the very source that products run is also compiled against an exhaustive
// explorer with weak memory (tests/model/explorer.h). Everything a lock-free protocol may touch
// comes from this header; src/ uses std::atomic nowhere else.
//
//   atomic<T>            std::atomic without default orders and without implicit conversions
//   fence(order)         std::atomic_thread_fence; under TSan a read-modify-write of one global,
//                        because TSan does not model fences
//   cell<T>              a plain variable; models check it for data races
//   slot<T>              a queue slot: read speculatively, the value counts only if a following
//                        compare-exchange succeeds; models check those confirmed reads for races
//   WEFT_ORDER(L, order) std::memory_order_##order with the label L; models weaken one at a time
//   both(store, load)    two such orders for one read-modify-write
//   WEFT_MUTANT("name")  constant false; models switch on a deliberate mistake in the logic
//   cpu_pause()          the body of a spin loop; models let another thread run there
//
// Invariant AT1: every order is explicit and labelled; its comment names the partner. Otherwise
// the mutation run (one mutant per label and site) could not say which orders are needed.
// Rejected: a Relacy-like interception of <atomic> (depends on macros that replace keywords), and a
// Sync template parameter for each protocol (leaks into every signature that mentions a queue).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/tsan_mutant.h"

#ifdef WEFT_MODEL
#include "model/explorer.h"
#define WEFT_TSAN 0
#define WEFT_NO_TSAN
#define WEFT_COMMIT_ORDER(LABEL, ORDER) WEFT_ORDER(LABEL, ORDER)
#else

#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif
#ifndef WEFT_TSAN
#define WEFT_TSAN 0
#endif

// For functions that TSan must not see: those that change the fiber (its shadow call stack would push
// on one and pop on the other), and those that touch what belongs to the thread, whichever goroutine
// is on it. Not inlined, or the caller's instrumentation would cover them.
#if WEFT_TSAN && defined(__clang__)
#define WEFT_NO_TSAN __attribute__((disable_sanitizer_instrumentation, noinline))
#elif WEFT_TSAN
#define WEFT_NO_TSAN __attribute__((no_sanitize("thread"), noinline))
#else
#define WEFT_NO_TSAN
#endif

#ifdef WEFT_TSAN_MUTANTS
#define WEFT_ORDER(LABEL, ORDER) \
  (::weft::rt::is_tsan_mutant(#LABEL) ? ::std::memory_order_relaxed : ::std::memory_order_##ORDER)
#else
#define WEFT_ORDER(LABEL, ORDER) (::std::memory_order_##ORDER)
#endif
#define WEFT_MUTANT(NAME) false

// Orders in the commit of a park. The successor runs it, and to TSan it is another thread than the
// goroutine that parks; a release there would publish the successor's history and hide users'
// races. So under TSan the parker releases the object itself before it leaves (sched/park.cc), and
// the commit synchronises nothing.
#if WEFT_TSAN
#define WEFT_COMMIT_ORDER(LABEL, ORDER) (::std::memory_order_relaxed)
#else
#define WEFT_COMMIT_ORDER(LABEL, ORDER) WEFT_ORDER(LABEL, ORDER)
#endif

namespace weft::rt {

template <class T>
class atomic {
 public:
  constexpr atomic() noexcept : value_(T{}) {}
  constexpr explicit atomic(T value) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(std::memory_order order) const noexcept { return value_.load(order); }
  void store(T value, std::memory_order order) noexcept { value_.store(value, order); }
  T exchange(T value, std::memory_order order) noexcept { return value_.exchange(value, order); }
  T fetch_add(auto delta, std::memory_order order) noexcept {
    return value_.fetch_add(delta, order);
  }
  T fetch_sub(auto delta, std::memory_order order) noexcept {
    return value_.fetch_sub(delta, order);
  }
  T fetch_or(T bits, std::memory_order order) noexcept { return value_.fetch_or(bits, order); }
  T fetch_and(T bits, std::memory_order order) noexcept { return value_.fetch_and(bits, order); }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) noexcept {
    return value_.compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) noexcept {
    return value_.compare_exchange_weak(expected, desired, success, failure);
  }

  // The object itself, for system calls that take its address.
  T* address() noexcept { return reinterpret_cast<T*>(&value_); }

  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

 private:
  std::atomic<T> value_;
};

namespace tsan {
inline std::atomic<std::uint32_t> fence_word{0};
}  // namespace tsan

inline void fence(std::memory_order order) noexcept {
  if constexpr (WEFT_TSAN) {
    tsan::fence_word.fetch_add(1, std::memory_order_seq_cst);  // order: stands in for any fence
  } else {
    std::atomic_thread_fence(order);
  }
}

template <class T>
class cell {
 public:
  constexpr cell() noexcept = default;
  constexpr explicit cell(T value) noexcept : value_(value) {}
  T get() const noexcept { return value_; }
  void set(T value) noexcept { value_ = value; }

 private:
  T value_{};
};

template <class T>
class slot {
 public:
  constexpr slot() noexcept : value_(T{}) {}
  // order: relaxed both ways; the counters around the slot publish it and validate the read
  T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(T value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_;
};

// exit() has begun. From then on whoever spins for long sleeps now and then: what it spins for may be
// held by a goroutine that was stopped, and is let go only if the exiting thread sleeps (sched/freeze.cc).
extern atomic<bool> spinners_nap;
void nap_now_and_then() noexcept;

inline void cpu_pause() noexcept {
  if (spinners_nap.load(WEFT_ORDER(SP0, relaxed))) [[unlikely]] {  // order: relaxed, a hint
    nap_now_and_then();
  }
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace weft::rt

#endif  // WEFT_MODEL

namespace weft::rt {

// Two labelled halves of one read-modify-write, so that a model can weaken each by itself.
constexpr std::memory_order both(std::memory_order store, std::memory_order load) {
  const bool rel = store == std::memory_order_release;
  const bool acq = load == std::memory_order_acquire;
  return rel && acq ? std::memory_order_acq_rel
         : rel      ? std::memory_order_release
         : acq      ? std::memory_order_acquire
                    : std::memory_order_relaxed;
}

}  // namespace weft::rt
