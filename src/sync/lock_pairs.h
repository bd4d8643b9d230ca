// In which order locks were taken: a graph of pairs "locked B while holding A" (sync/lockcheck.h).
//
// A pair is found by its first lock, to follow ways through the graph, and by its second, so that a lock can be forgotten
// at the price of its own pairs: whoever meets a new one does that, of a program that may have thousands of others.
//
// Fixed size; what does not fit is not remembered. The caller holds lockcheck's lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::rt {

struct lock_pair {
  const void *first = nullptr, *second = nullptr;
  std::uint64_t who = 0;
  const void* site = nullptr;  // where the second was locked
};

enum class lock_order : std::uint8_t {
  known,     // or there is no room
  new_pair,  // it is remembered from now on
  inverted,  // likewise; but the second was held, in steps, when the first was locked
};
// The first step of the shortest way back goes to `back`, if it is inverted.
lock_order note_lock_pair(const lock_pair& seen, lock_pair& back) noexcept;

// The lock is gone, and what was at its address says nothing about the next one.
void forget_lock_pairs(const void* lock) noexcept;

inline std::size_t lock_hash(const void* lock) noexcept {
  return (reinterpret_cast<std::uintptr_t>(lock) * 0x9e3779b97f4a7c15) >> 48;
}

}  // namespace weft::rt
