// Functions of libc, the loader and the unwinder that take locks, watched: forbidden_calls.cc.
#pragma once

#include <cstdint>

namespace weft::test {

// How many calls of Ms were looked at.
std::uint64_t calls_looked_at() noexcept;

}  // namespace weft::test
