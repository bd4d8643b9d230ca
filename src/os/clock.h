// Time as the scheduler measures it.
#pragma once

#include <cstdint>

namespace weft::rt {

/// Nanoseconds of CLOCK_MONOTONIC. About 24 ns: dearer than a switch, so never on a fast path.
/// Runs on: any, signal handlers too. Go: runtime nanotime.
std::int64_t nanotime() noexcept;

}  // namespace weft::rt
