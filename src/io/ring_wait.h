// An operation of the ring from beginning to end, as its goroutine or thread sees it.
#pragma once

#include <cstdint>

#include "poll/ring.h"
#include "sched/timed.h"

namespace weft::rt {

// Lets the kernel do it, and waits until it is done. False: the kernel did not take it. Otherwise *result is what
// the system call would have returned, or minus an error (io/fd.h); that of the limit, if it came first and the
// operation could be ended early. Whatever it returns, nobody uses the operation and its buffers any more.
// Blocks: G or thread.
[[nodiscard]] bool run_on_ring(ring_op& op, const wait_limit& limit, std::int64_t* result);

// The error of a limit that is over, or 0.
int error_of_limit(const wait_limit& limit);

}  // namespace weft::rt
