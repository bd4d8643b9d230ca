// How many goroutines wait, by the runtime's own count.
#pragma once

#include <cstdint>

#include <weft/runtime.h>

namespace weft::test {

inline std::uint64_t waiting_goroutines() {
  for (const auto& m : runtime::metrics()) {
    if (m.name == "/sched/goroutines/waiting:goroutines") return m.count;
  }
  return 0;
}

}  // namespace weft::test
