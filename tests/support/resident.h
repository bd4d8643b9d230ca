// How much memory this process has now.
#pragma once

#include <fstream>
#include <string>
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

// What of it is the program's own, and not a file's: to the page, since the kernel counts it for this. (What it keeps
// count of, each processor may have a batch more of.) -1: it does not say.
inline long anonymous_kib() {
  const std::string key = "Anonymous:";
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::stol(line.substr(key.size()));
  }
  return -1;
}

// A sanitizer's own records grow with everything that there ever was.
inline constexpr bool kMemoryIsOurs = !WEFT_TEST_TSAN && !WEFT_TEST_ASAN;

}  // namespace weft::test
