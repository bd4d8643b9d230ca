// How much a piece of work computes, however long a busy machine takes for it.
#pragma once

#include <chrono>
#include <ctime>

namespace weft::test {

// Processor time of all threads of this process so far.
inline std::chrono::nanoseconds cpu_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace weft::test
