// As many goroutines as there are Ps block for MILLISECONDS in a call that nobody announces, CALLS times, and one
// more only yields: the longest time for which it does not get a turn.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <time.h>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "CALLS MILLISECONDS");
  const long calls = args.size[0], ms = args.size[1];
  return weft::run(
      [=] {
        std::atomic<int> left{args.procs};
        for (int i = 0; i < args.procs; i++) {
          weft::go([&left, calls, ms] {
            for (long k = 0; k < calls; k++) {
              const timespec ts{ms / 1000, ms % 1000 * 1'000'000};
              nanosleep(&ts, nullptr);
              weft::gosched();
            }
            left--;
          });
        }
        std::int64_t longest = 0;
        for (std::int64_t last = bench::now_ns(); left.load() != 0;) {
          weft::gosched();
          const std::int64_t now = bench::now_ns();
          longest = std::max(longest, now - last);
          last = now;
        }
        bench::report("longest_ms", static_cast<double>(longest) / 1e6);
      },
      {.max_procs = args.procs});
}
