// Modelled sleeping: the futex, and a mutex and a note that are one step a call.
//
// futex. The kernel compares and queues under the lock of a hash bucket, and wakes under the same
// lock. That lock is all the order it gives: a waker's writes are visible to a waiter that takes
// the bucket lock later, and a waiter that took it before is in the queue. Nothing is published by
// it (views, not clocks), so data still needs acquire and release on the word. Which of several
// sleepers is woken is tried in every way.
//
// mutex and note stand in for base/lock.h and base/note.h in the models of everything above them;
// the models of those two use the real source on the modelled futex.
#pragma once

#include <cstdint>

#include "model/engine.h"
#include "model/memory.h"

namespace weft::model {

enum class futex_outcome : std::uint8_t { woken, would_block, timed_out };  // as rt::futex_result

futex_outcome kernel_wait(atomic<std::uint32_t>& word, std::uint32_t expected, bool timed);
int kernel_wake(atomic<std::uint32_t>& word, int n);

// Releasing is no schedule point: nobody can tell when it happens, except by try_lock(), and
// scenarios with that say options::try_locks.
class mutex {
 public:
  constexpr mutex() noexcept = default;
  void lock();
  bool try_lock();
  void unlock();
  bool held() const;  // by the current thread

 private:
  void renew();
  void take(engine& e);
  static bool is_free(const void* self) { return !static_cast<const mutex*>(self)->held_; }

  std::uint64_t execution_ = 0;
  bool held_ = false;
  int holder_ = kMain;
  knowledge carries_;
};

class note {
 public:
  constexpr note() noexcept = default;
  void clear();
  void wake();
  void sleep() { sleep_until_(INT64_MAX); }
  bool sleep_for(std::int64_t) { return wait(true); }
  bool sleep_until(std::int64_t t) { return sleep_until_(t); }
  bool woken();
  // Until when somebody sleeps here, or slept last.
  std::int64_t deadline() const { return deadline_; }
  // For world::service(): whether the note at self is set.
  static bool is_woken(const void* self) { return static_cast<const note*>(self)->woken_; }

 private:
  void renew();
  bool wait(bool timed);
  bool sleep_until_(std::int64_t t) {
    deadline_ = t;
    return wait(t != INT64_MAX);
  }

  std::uint64_t execution_ = 0;
  bool woken_ = false;
  std::int64_t deadline_ = 0;
  knowledge carries_;
};

}  // namespace weft::model
