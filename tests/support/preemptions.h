// How often goroutines were frozen so far, and keeping somebody waiting so that they are.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "support/patience.h"

namespace weft::test {

inline std::uint64_t metric_now(const char* name) {
  for (const auto& m : runtime::metrics()) {
    if (m.name == name) return m.count;
  }
  return 0;
}

// By a signal, in the goroutine's own code.
inline std::uint64_t preemptions() { return metric_now("/weft/sched/preemptions:events"); }
// Of a P from a goroutine that blocked.
inline std::uint64_t handoffs() { return metric_now("/weft/sched/handoffs:events"); }

// The number of preemptions that a test wants: WEFT_PREEMPTIONS, or a few.
inline std::uint64_t preemptions_wanted(std::uint64_t few) {
  const char* text = std::getenv("WEFT_PREEMPTIONS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : scaled<std::uint64_t>(few, 5);
}

// Goroutines that are always runnable: whoever computes is asked to make room after its slice.
class crowd {
 public:
  explicit crowd(int size = 2) {
    for (int i = 0; i < size; ++i) {
      members_.go([this] {
        while (!over_.load(std::memory_order_relaxed)) gosched();
      });
    }
  }
  ~crowd() {
    over_ = true;
    members_.wait();
  }

 private:
  std::atomic<bool> over_{false};
  wait_group members_;
};

}  // namespace weft::test
