// Goroutines that count as long as they run, and statics whose destructors look whether they do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <sched.h>

#include <weft/go.h>

#include "support/patience.h"

namespace weft::test {

inline std::atomic<long> ticks{0};

inline void count_for_ever() {
  for (;;) {
    ticks.fetch_add(1, std::memory_order_relaxed);
    gosched();
  }
}

// The same without a scheduling point.
inline void compute_for_ever() {
  for (;;) {
    ticks.fetch_add(1, std::memory_order_relaxed);
  }
}

inline void start_counting() {
  for (int i = 0; i < 8; ++i) go(count_for_ever);
  while (ticks < 1000) {
    give_way();
  }
}

// Long enough for a goroutine that runs to be seen, on a busy machine too.
inline bool anybody_counts() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(15);
  const long before = ticks;
  while (std::chrono::steady_clock::now() < until) {
    if (ticks != before) {
      return true;
    }
    sched_yield();
  }
  return false;
}

// Says at its destruction what it sees.
struct witness {
  const char* name;
  explicit witness(const char* n) : name(n) {}
  ~witness() { std::printf("%s: %s\n", name, anybody_counts() ? "running" : "frozen"); }
};

}  // namespace weft::test

#define WITNESS(name) static const weft::test::witness name(#name)
