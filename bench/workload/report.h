#pragma once

// What every workload program shares: its arguments, the clock, and the lines that bench/run reads.
//
// A program is called as `NAME PROCS SIZE...` and prints one line `METRIC VALUE` per figure. The Go
// twins do the same through workload/report/report.go; keep the two in step.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <time.h>

namespace bench {

struct arguments {
  int procs;
  long size[2];

  // `usage` names the sizes that the program wants, one word each; all of them must be given.
  arguments(int argc, char** argv, int sizes, const char* usage) : procs(0), size{0, 0} {
    if (argc != 2 + sizes) {
      std::fprintf(stderr, "usage: %s PROCS %s\n", argv[0], usage);
      std::exit(2);
    }
    procs = std::atoi(argv[1]);
    for (int i = 0; i < sizes; i++) size[i] = std::atol(argv[2 + i]);
  }
};

inline std::int64_t now_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return std::int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

inline void report(const char* metric, double value) { std::printf("%s %.4f\n", metric, value); }

inline void report_per_op(const char* metric, std::int64_t since_ns, long ops) {
  report(metric, static_cast<double>(now_ns() - since_ns) / static_cast<double>(ops));
}

// A field of /proc/self/status in bytes: VmRSS is what is resident, VmPTE the page tables, which
// VmRSS leaves out.
inline double status_bytes(const char* field) {
  double kib = 0;
  char line[256];
  const std::size_t n = std::strlen(field);
  std::FILE* f = std::fopen("/proc/self/status", "r");
  while (f != nullptr && std::fgets(line, sizeof line, f) != nullptr) {
    if (std::strncmp(line, field, n) == 0 && line[n] == ':') kib = std::atof(line + n + 1);
  }
  if (f != nullptr) std::fclose(f);
  return kib * 1024;
}

}  // namespace bench
