// Operations that the kernel completes by itself: file I/O without a thread that waits for it.
//
// Problem. Regular files are always "ready": epoll says nothing about them, and read(2) keeps its thread
// until the disk has answered. io_uring takes an operation and tells later what became of it, so that only the
// goroutine waits.
//
// The contract, for io_uring.cc, and for no_ring.cc where there is no liburing:
//   ring_usable    may operations be tried at all? Looks once, at the first use: the kernel may have no rings,
//                  or lack an operation; seccomp, a sysctl or a limit of memory may forbid them
//   ring_submit    hands an operation over. 0: the kernel has it, and it will be completed. Otherwise an errno:
//                  the kernel has not seen it, and the caller does it in another way
//   ring_cancel    asks for an early end. The operation is completed all the same, with what came of it
//   reap_rings     what has been completed since: adds whom to wake. As the M or sysmon. `waits`: for somebody else who does
//                  the same; otherwise that is left to him
//
// Whoever waits in the poller returns when there is something to reap.
//
// RI1: from a successful ring_submit() until `done` the kernel may use the operation, and whatever it points
//      to: both stay where they are. So nobody leaves before that, cancelled or not.
// RI2: `done` is completed once, and by reap_rings() only.
//
// How many may be under way at once is the caller's affair (io/ring_wait.cc).
#pragma once

#include <cstdint>

#include "gmp/completion.h"
#include "gmp/ready_list.h"
#include "gmp/waiter.h"

namespace weft::rt {

enum class ring_call : std::uint8_t { read, write, readv, writev, sync, datasync, fallocate };

inline constexpr std::int64_t kOwnPosition = -1;  // the descriptor's, which it moves

struct ring_op {
  ring_call call = ring_call::read;
  int fd = -1;
  int mode = 0;              // fallocate
  void* address = nullptr;   // bytes; readv, writev: iovec
  std::uint32_t length = 0;  // bytes; readv, writev: their number
  std::int64_t offset = 0;   // or kOwnPosition
  std::int64_t size = 0;     // fallocate

  // -- the ring's
  std::uint32_t ring = 0;   // which one has it
  std::int32_t result = 0;  // good once it is done: that of the system call, or -errno
  completion<waiter> done;
};

bool ring_usable() noexcept;
int ring_submit(ring_op& op) noexcept;
void ring_cancel(ring_op& op) noexcept;
void reap_rings(ready_list& list, bool waits) noexcept;

// Operations and their cancellations that may be under way at once, in all.
inline constexpr int kMostRingOps = 1024;

}  // namespace weft::rt
