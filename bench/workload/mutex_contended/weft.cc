// Eight goroutines do about 100 ns of work under one mutex, SECTIONS times in all.

#include <cstdint>
#include <cstdlib>
#include <mutex>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "SECTIONS");
  constexpr long kTasks = 8;
  return weft::run(
      [each = args.size[0] / kTasks] {
        weft::mutex mutex;
        std::uint64_t x = 1;
        weft::wait_group finished;
        const auto t = bench::now_ns();
        for (long task = 0; task < kTasks; task++) {
          finished.go([&] {
            for (long i = 0; i < each; i++) {
              const std::lock_guard guard(mutex);
              x = bench::work(x, 90);
            }
          });
        }
        finished.wait();
        bench::report_per_op("ns_per_section", t, each * kTasks);
        if (x != bench::work(1, 90 * each * kTasks)) std::abort();
      },
      {.max_procs = args.procs});
}
