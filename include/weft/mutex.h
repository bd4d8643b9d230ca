// Mutual exclusion between goroutines and plain threads, in std's shape.
#pragma once

#include <cstdint>
#include <mutex>  // lock_guard, unique_lock, scoped_lock … are std's own

#include <weft/detail/export.h>

namespace weft {

using std::adopt_lock;
using std::adopt_lock_t;
using std::defer_lock;
using std::defer_lock_t;
using std::lock;
using std::lock_guard;
using std::scoped_lock;
using std::try_lock;
using std::try_to_lock;
using std::try_to_lock_t;
using std::unique_lock;

/// std::mutex whose waiters park instead of blocking their thread, with Go's two modes: normally
/// whoever is running gets it, and a waiter that has lost for more than a millisecond gets it by hand.
///
/// It is not tied to a goroutine: one may lock it and another unlock it. It is not recursive. Unlocking
/// what is not locked is a fatal error ("sync: unlock of unlocked mutex"). It may be destroyed as soon
/// as the last owner's unlock() has made it free, even if that call has not returned yet.
class mutex {
 public:
  constexpr mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  void lock() {
    std::uint32_t none = 0;
    // order: MX1 acquire, as mutex_core::lock_fast(); pairs with every unlock
    if (!__atomic_compare_exchange_n(&state_, &none, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        [[unlikely]] {
      lock_slow();
    }
  }

  bool try_lock() noexcept {
    std::uint32_t none = 0;
    // order: MX1 acquire, as above; relaxed: a failure orders nothing
    return __atomic_compare_exchange_n(&state_, &none, 1u, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED) ||
           try_lock_slow();
  }

  void unlock() {
    std::uint32_t alone = 1;
    // order: MX1 release, as mutex_core::unlock_fast(); pairs with the next lock
    if (!__atomic_compare_exchange_n(&state_, &alone, 0u, false, __ATOMIC_RELEASE,
                                     __ATOMIC_RELAXED)) [[unlikely]] {
      unlock_slow();
    }
  }

 private:
  WEFT_EXPORT void lock_slow();
  WEFT_EXPORT void unlock_slow();
  WEFT_EXPORT bool try_lock_slow();

  // Storage of rt::mutex_core (src/sync/mutex_core.h), which starts as zeros.
  std::uint32_t state_ = 0;
  [[maybe_unused]] void* first_ = nullptr;
  [[maybe_unused]] void* last_ = nullptr;
};

}  // namespace weft
