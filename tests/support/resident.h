// How much memory this process has now.
#pragma once

#include <fstream>
#include <unistd.h>

#include "support/patience.h"

namespace weft::test {

// What is in memory of it.
inline long resident_kib() {
  std::ifstream in("/proc/self/statm");
  long total = 0, resident = 0;
  in >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// A sanitizer's own records grow with everything that there ever was.
inline constexpr bool kMemoryIsOurs = !WEFT_TEST_TSAN && !WEFT_TEST_ASAN;

}  // namespace weft::test
