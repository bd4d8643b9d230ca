// What tests count to show that there is no hidden global lock: acquisitions of the runtime's own
// locks, and writes to words that all Ps share. Nothing in products.
//
// On a P that has work, spawning, yielding, parking and readying do neither, but for refills of
// reserves and fairness ticks (tests/unit/sched/local_paths_test.cc).
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

#ifdef WEFT_COUNT_LOCKS

// By all threads since start.
inline std::atomic<std::uint64_t> lock_acquisitions{0};  // not the seam: a statistic of test builds
inline std::atomic<std::uint64_t> shared_writes{0};      // not the seam: a statistic of test builds

inline void count_lock() {
  lock_acquisitions.fetch_add(1, std::memory_order_relaxed);  // order: statistic
}
inline void count_shared_write() {
  shared_writes.fetch_add(1, std::memory_order_relaxed);  // order: statistic
}

// An atomic whose cache line every P may want: its writes are counted. What all Ps share is one of these, or says when it is
// written (tools/check_order_comments.py).
template <class T>
class shared_atomic : public atomic<T> {
 public:
  using atomic<T>::atomic;

  void store(T value, std::memory_order order) noexcept {
    count_shared_write();
    atomic<T>::store(value, order);
  }
  T exchange(T value, std::memory_order order) noexcept {
    count_shared_write();
    return atomic<T>::exchange(value, order);
  }
  T fetch_add(auto delta, std::memory_order order) noexcept {
    count_shared_write();
    return atomic<T>::fetch_add(delta, order);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) noexcept {
    count_shared_write();
    return atomic<T>::compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) noexcept {
    count_shared_write();
    return atomic<T>::compare_exchange_weak(expected, desired, success, failure);
  }
  T fetch_sub(auto delta, std::memory_order order) noexcept {
    count_shared_write();
    return atomic<T>::fetch_sub(delta, order);
  }
  T fetch_or(T bits, std::memory_order order) noexcept {
    count_shared_write();
    return atomic<T>::fetch_or(bits, order);
  }
  T fetch_and(T bits, std::memory_order order) noexcept {
    count_shared_write();
    return atomic<T>::fetch_and(bits, order);
  }
};

#else

inline void count_lock() {}
inline void count_shared_write() {}
template <class T>
using shared_atomic = atomic<T>;

#endif

}  // namespace weft::rt
