// How many goroutines wait, and for what.
#pragma once

#include <cstdint>
#include <string>

#include <weft/runtime.h>

namespace weft::test {

// By the runtime's own count, an estimate: whom an M has taken from a queue, and does not run yet, is counted, too, for as
// long as a busy machine lets its thread wait. Enough where there is one P.
inline std::uint64_t waiting_goroutines() {
  for (const auto& m : runtime::metrics()) {
    if (m.name == "/sched/goroutines/waiting:goroutines") return m.count;
  }
  return 0;
}

// To the last one: the world stands still for the count. Whoever is counted has queued for what it waits for.
// Without a look inside: the estimate.
std::uint64_t parked_goroutines();

// Somebody waits for that ("chan send"), and whoever looks for him finds him: the world stands still for the report.
inline bool somebody_waits_in(const std::string& reason) {
  return runtime::stack(true).find("[" + reason) != std::string::npos;
}

// How many do. (Above a hundred the report puts them together.)
inline int how_many_wait_in(const std::string& reason) {
  const std::string report = runtime::stack(true);
  int n = 0;
  for (std::size_t at = 0; (at = report.find("[" + reason + "]", at)) != std::string::npos; ++at) {
    ++n;
  }
  return n;
}

}  // namespace weft::test
