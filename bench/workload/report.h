#pragma once

// What every workload program shares: its arguments, the clock, and the lines that bench/run reads.
//
// A program is called as `NAME PROCS SIZE...` and prints one line `METRIC VALUE` per figure. The Go
// twins do the same through workload/report/report.go; keep the two in step.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/resource.h>
#include <time.h>
#include <vector>

namespace bench {

struct arguments {
  int procs;
  long size[3];

  // `usage` names the sizes that the program wants, one word each; all of them must be given.
  arguments(int argc, char** argv, int sizes, const char* usage) : procs(0), size{} {
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

// METRIC_p50 and METRIC_p99 of the values; there must be one.
inline void report_percentiles(const std::string& metric, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) { return values[(values.size() - 1) * percent / 100]; };
  report((metric + "_p50").c_str(), at(50));
  report((metric + "_p99").c_str(), at(99));
}

// Of an odd number the one in the middle; there must be one.
inline void report_median(const char* metric, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  report(metric, values[values.size() / 2]);
}

// Arithmetic of which each step needs the one before, about a nanosecond each.
inline std::uint64_t work(std::uint64_t x, long steps) {
  for (long i = 0; i < steps; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));  // or the compiler could merge steps
  }
  return x;
}

// The processor time that the process has had, all threads together.
inline double cpu_ms() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(u.ru_utime) + ms(u.ru_stime);
}

// The number in a field of /proc/self/status.
inline double status_number(const char* field) {
  double number = 0;
  char line[256];
  const std::size_t n = std::strlen(field);
  std::FILE* f = std::fopen("/proc/self/status", "r");
  while (f != nullptr && std::fgets(line, sizeof line, f) != nullptr) {
    if (std::strncmp(line, field, n) == 0 && line[n] == ':') number = std::atof(line + n + 1);
  }
  if (f != nullptr) std::fclose(f);
  return number;
}

// … in bytes: VmRSS is what is resident, VmPTE the page tables, which VmRSS leaves out.
inline double status_bytes(const char* field) { return status_number(field) * 1024; }

}  // namespace bench
