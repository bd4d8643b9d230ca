// Stopping goroutines that do not come to a scheduling point, when the process exits. See freeze.cc.
#pragma once

#include <cstdint>

namespace weft::rt {

// Stops every M that still runs a goroutine, other than the caller, where it is. The caller is the
// thread in exit(). Returns when they have stopped, or after a bounded time.
void freeze_stragglers();

// Threads that it has started: 0 or 1. For the same caller.
std::int32_t guardians();

}  // namespace weft::rt
