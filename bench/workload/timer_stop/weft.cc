// A timer with a channel, made and stopped before anybody has waited for it, OPS times.

#include <chrono>
#include <cstdlib>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "OPS");
  return weft::run(
      [ops = args.size[0]] {
        const auto t = bench::now_ns();
        for (long i = 0; i < ops; i++) {
          weft::timer timer(std::chrono::hours(1));
          if (!timer.stop()) std::abort();
        }
        bench::report_per_op("ns_per_op", t, ops);
      },
      {.max_procs = args.procs});
}
