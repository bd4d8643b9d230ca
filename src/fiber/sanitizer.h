// Tells sanitizers and Valgrind about stacks and switches. Everything here is empty, and costs
// nothing, unless such a tool is compiled in.
//
// Problem. ASan, TSan and Valgrind each believe that a thread has one stack. ASan would call every
// access to a goroutine's stack wild after the first throw; TSan would mix the histories of all
// goroutines of a thread; Valgrind would take a switch for a giant stack frame.
//
// Protocol, for a switch from `from` to `to`, both fiber_tools:
//   1. on the old stack, last thing before weft_switch:   from.leave(to)  (or from.leave_for_good(to))
//   2. on the new stack, first thing after weft_switch:   to.arrive()     (also first in an entry)
//   3. TSan only, where the code that follows belongs to `to`:   to.become()
// and around a fiber's life: attach(stack) before its first switch, detach() after its last one, from
// another stack. The fiber that a thread was born with is adopted by adopt_thread().
//
// TSan switches carry no synchronisation: a synchronising switch orders everything that happened on
// this thread before everything that follows, and so hides the users' races. What does synchronise
// (a lock, a wake-up) says so by tsan_release(x) … tsan_acquire(x).
#pragma once

#include <atomic>
#include <climits>
#include <cstddef>

#include "base/atomic.h"  // WEFT_TSAN
#include "base/fatal.h"

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ASAN 1
#endif
#endif
#ifndef WEFT_ASAN
#define WEFT_ASAN 0
#endif

#if WEFT_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WEFT_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

#if WEFT_ASAN
#define WEFT_NO_ASAN __attribute__((no_sanitize("address")))
#else
#define WEFT_NO_ASAN
#endif

namespace weft::rt {

/// How many fibers a tool has room for.
class fiber_room {
 public:
  explicit constexpr fiber_room(int most) noexcept : most_(most) {}

  /// Room for one more. False: there is none.
  [[nodiscard]] bool take() noexcept {
    // order: a statistic, nothing is published
    const bool has = live_.fetch_add(1, std::memory_order_relaxed) < most_;
    if (!has) {
      give_back();
    }
    return has;
  }
  void give_back() noexcept {
    live_.fetch_sub(1, std::memory_order_relaxed);  // order: as above
  }

 private:
  std::atomic<int> live_{0};  // not the seam: a count of the tool's resources
  int most_;
};

#if WEFT_TSAN
#if defined(__clang__)
inline constinit fiber_room tsan_room{INT_MAX};
#else
/// g++'s TSan has room for about 8,000 threads and fibers and dies without a word on why. Say so
/// before. clang++'s takes many times as many.
inline constinit fiber_room tsan_room{8000};
#endif
#endif

/// What the tools need to know about one stack; empty in products.
class fiber_tools {
 public:
  /// A new fiber with the stack [lo, hi). Runs on: another stack.
  void attach([[maybe_unused]] std::byte* lo, [[maybe_unused]] std::byte* hi) noexcept {
#if WEFT_ASAN
    lo_ = lo;
    size_ = static_cast<std::size_t>(hi - lo);
    fake_stack_ = nullptr;
#endif
#if WEFT_TSAN
    if (!tsan_room.take()) {
      fatal("too many goroutines for g++'s ThreadSanitizer (8000); clang++'s takes more");
    }
    // It knows what its maker, the M, knows: by the scheduler's locks, what plain threads have done before they came to those.
    // That may say more than was promised, and the tests of what was promised take it away. (Rejected, to take it away
    // always: with clang++ 14 edges are lost then, now and then, and what is in order is reported.)
    const bool knows_nothing = is_tsan_mutant("BIRTH");
    if (knows_nothing) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
    tsan_fiber_ = __tsan_create_fiber(0);
    if (knows_nothing) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
  }

  /// The end of a fiber that will not be switched to again. Runs on: another stack.
  void detach() noexcept {
#if WEFT_TSAN
    tsan_room.give_back();
    __tsan_destroy_fiber(tsan_fiber_);
    tsan_fiber_ = nullptr;
#endif
  }

  /// Makes this the fiber of the calling thread's own stack. Never detached.
  void adopt_thread() noexcept {
#if WEFT_ASAN
    pthread_attr_t attr;
    void* low = nullptr;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
      pthread_attr_getstack(&attr, &low, &size_);
      pthread_attr_destroy(&attr);
    }
    lo_ = static_cast<std::byte*>(low);
#endif
#if WEFT_TSAN
    tsan_fiber_ = __tsan_get_current_fiber();
#endif
  }

  /// Step 1 of a switch. Runs on: this fiber's stack.
  void leave([[maybe_unused]] fiber_tools& to) noexcept {
#if WEFT_ASAN
    __sanitizer_start_switch_fiber(&fake_stack_, to.lo_, to.size_);
#endif
  }

  /// The same, by a fiber that will never run again: ASan may free its fake frames.
  void leave_for_good([[maybe_unused]] fiber_tools& to) noexcept {
#if WEFT_ASAN
    __sanitizer_start_switch_fiber(nullptr, to.lo_, to.size_);
#endif
  }

  /// Step 3 of a switch: TSan attributes what follows to this fiber. Independent of the stack:
  /// runtime code runs on goroutines' stacks, but as its M (sched/section.h).
  [[gnu::always_inline]] void become() noexcept {
#if WEFT_TSAN
    __tsan_switch_to_fiber(tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  }

  /// Step 2 of a switch. Runs on: this fiber's stack.
  void arrive() noexcept {
#if WEFT_ASAN
    __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
  }

#if WEFT_ASAN || WEFT_TSAN
 private:
#endif
#if WEFT_ASAN
  const std::byte* lo_ = nullptr;
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;
#endif
#if WEFT_TSAN
  void* tsan_fiber_ = nullptr;
#endif
};

/// Clears what dead frames left in ASan's shadow: goroutines may end without returning from them.
inline void asan_unpoison([[maybe_unused]] const void* start,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#if WEFT_ASAN
  __asan_unpoison_memory_region(start, bytes);
#endif
}

/// Between these TSan ignores plain accesses of the current fiber; atomics still synchronise.
[[gnu::always_inline]] inline void tsan_ignore_begin() noexcept {
#if WEFT_TSAN
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}
[[gnu::always_inline]] inline void tsan_ignore_end() noexcept {
#if WEFT_TSAN
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
}

/// A happens-before edge that TSan cannot see by itself: everything before tsan_release(x) precedes
/// everything after the tsan_acquire(x) that follows it. The label is for base/tsan_mutant.h.
inline void tsan_release([[maybe_unused]] void* x,
                         [[maybe_unused]] const char* label = "") noexcept {
#if WEFT_TSAN
  if (!is_tsan_mutant(label)) {
    __tsan_release(x);
  }
#endif
}
inline void tsan_acquire([[maybe_unused]] void* x) noexcept {
#if WEFT_TSAN
  __tsan_acquire(x);
#endif
}

}  // namespace weft::rt
