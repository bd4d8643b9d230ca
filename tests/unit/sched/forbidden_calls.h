// Functions of libc, the loader and the unwinder that take locks, watched: forbidden_calls.cc.
#pragma once

#include <cstdint>

namespace weft::test {

// The status of a process in which such a call was seen while somebody crashed: no report can be relied on then.
inline constexpr int kCalledWhileCrashing = 96;

// How many calls of Ms were looked at.
std::uint64_t calls_looked_at() noexcept;

}  // namespace weft::test
