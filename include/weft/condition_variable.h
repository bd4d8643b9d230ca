// Waiting for a condition that others make true under a mutex, in std's shape.
#pragma once

#include <condition_variable>  // cv_status is std's own
#include <cstdint>
#include <stop_token>
#include <utility>

#include <weft/detail/export.h>
#include <weft/mutex.h>

namespace weft {

using std::cv_status;

namespace detail {

// Storage of rt::cond_core (src/sync/cond_core.h), which starts as zeros, and what is done with it.
class cond {
 public:
  constexpr cond() noexcept = default;
  cond(const cond&) = delete;
  cond& operator=(const cond&) = delete;
  ~cond() {
    // order: CV1 acquire, as cond_core::quiet(); pairs with the last step of whoever waited here
    if (__atomic_load_n(&state_, __ATOMIC_ACQUIRE) != 0) [[unlikely]] {
      drain();
    }
  }

  WEFT_EXPORT void notify_one() noexcept;
  WEFT_EXPORT void notify_all() noexcept;

 protected:
  // The mutex is locked before and after.
  WEFT_EXPORT void wait(mutex& m);

 private:
  WEFT_EXPORT void drain() noexcept;

  std::uint64_t state_ = 0;
  [[maybe_unused]] void* first_ = nullptr;
  [[maybe_unused]] void* last_ = nullptr;
  [[maybe_unused]] std::uint64_t round_ = 0;
};

}  // namespace detail

/// std::condition_variable for weft::mutex. Waiters are served in the order in which they came, and wake
/// only when notified. notify_all() does not wake a thousand waiters to collide on the mutex: they
/// move to its queue, and each wakes as the one before unlocks.
///
/// It may be destroyed once everybody has been notified, even if they have not returned yet.
class condition_variable : private detail::cond {
 public:
  condition_variable() noexcept = default;

  using cond::notify_all;
  using cond::notify_one;

  void wait(unique_lock<mutex>& lock) { cond::wait(*lock.mutex()); }

  template <class Predicate>
  void wait(unique_lock<mutex>& lock, Predicate stop_waiting) {
    while (!stop_waiting()) {
      wait(lock);
    }
  }

  using native_handle_type = void*;
  native_handle_type native_handle() { return this; }
};

}  // namespace weft
