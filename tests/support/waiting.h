// How many goroutines wait, by the runtime's own count, and for what.
#pragma once

#include <cstdint>
#include <string>

#include <weft/runtime.h>

namespace weft::test {

inline std::uint64_t waiting_goroutines() {
  for (const auto& m : runtime::metrics()) {
    if (m.name == "/sched/goroutines/waiting:goroutines") return m.count;
  }
  return 0;
}

// Somebody waits for that ("chan send"), and whoever looks for him finds him: the world stands still for the report.
inline bool somebody_waits_in(const std::string& reason) {
  return runtime::stack(true).find("[" + reason) != std::string::npos;
}

}  // namespace weft::test
