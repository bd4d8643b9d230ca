// A StoreLoad fence whose cost falls on one side: light_fence() is free, heavy_fence() dear.
//
// Problem: "store mine, then look at yours" on both sides of a race needs a full fence on both
// sides, and a full fence costs more than the rest of a goroutine switch. When one side is rare (a
// thread about to sleep, sysmon) it can pay for both: membarrier(2) runs a full fence on every
// thread of the process that is running. Then the frequent side needs only to keep the compiler
// from swapping its store and its load.
//
// Contract: between a light_fence() on one thread and a heavy_fence() on another one is first; what
// its thread stored before it is visible to what the other thread loads after the other's fence.
// Two light fences order nothing. Neither publishes data: that needs acquire and release as ever.
//
// init_asymmetric_fence() registers the process once, before there is a second thread; where the
// kernel (or TSan, which sees no membarrier) lacks it, both become seq_cst fences.
//
// From then on there is no way back: light fences are under way without one of the machine. If the kernel refuses later,
// as a filter of system calls makes it that the program has loaded meanwhile, two Ms would use one P, and wake-ups be lost,
// once in a while and without a word. So the process ends.
#pragma once

#include "base/atomic.h"

#ifndef WEFT_MODEL
#include <cerrno>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace weft::rt {

#ifndef WEFT_MODEL

// Constant once the runtime has started. True: membarrier works and light fences are free.
inline bool asymmetric_fences = false;

// Runs on: the first thread, before others exist. Returns whether light fences are free.
inline bool init_asymmetric_fence() {
  if constexpr (WEFT_TSAN) return false;
  const int saved = errno;
  asymmetric_fences = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  errno = saved;
  return asymmetric_fences;
}

// Never returns. `error` is what the kernel said. Runs on: any, with any lock held.
[[noreturn, gnu::cold]] void heavy_fence_refused(int error) noexcept;

// The order is there for its label: WEFT_ORDER(LABEL, seq_cst), weakened by models.
inline void light_fence(std::memory_order) noexcept {
#if WEFT_TSAN
  // A fence of the machine that TSan does not see. One that it sees, a read-modify-write, would order all
  // goroutines that enter the runtime, and hide their races.
#if defined(__x86_64__)
  __asm__ volatile("mfence" ::: "memory");
#else
  __asm__ volatile("dmb ish" ::: "memory");
#endif
  return;
#endif
  if (asymmetric_fences) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // order: compiler only; see contract
  } else {
    fence(std::memory_order_seq_cst);  // order: the symmetric pair with heavy_fence()
  }
}

inline void heavy_fence(std::memory_order) noexcept {
  if (asymmetric_fences) {
    const int saved = errno;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) [[unlikely]] {
      heavy_fence_refused(errno);
    }
    errno = saved;
  } else {
    fence(std::memory_order_seq_cst);  // order: the symmetric pair with light_fence()
  }
}

#endif  // WEFT_MODEL

}  // namespace weft::rt
