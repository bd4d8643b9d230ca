// TASKS goroutines block for MILLISECONDS in a system call each, beside as many that compute as there are Ps:
// the time until all of the first are through. ANNOUNCED: 1 if the calls are made under runtime::blocking.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "report.h"

namespace {

void block(long ms) {
  const timespec ts{ms / 1000, ms % 1000 * 1'000'000};
  syscall(SYS_nanosleep, &ts, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 3, "TASKS MILLISECONDS ANNOUNCED");
  const long tasks = args.size[0], ms = args.size[1];
  const bool announced = args.size[2] != 0;
  return weft::run(
      [=] {
        std::atomic<bool> stop{false};
        weft::wait_group computing, blocking;
        for (int i = 0; i < args.procs; i++) {
          computing.go([&] {
            std::uint64_t x = 1;
            while (!stop.load(std::memory_order_relaxed)) x = bench::work(x, 1000);
            if (x == 0) std::abort();
          });
        }
        const auto t = bench::now_ns();
        for (long i = 0; i < tasks; i++) {
          blocking.go([=] {
            if (announced) {
              weft::runtime::blocking([=] { block(ms); });
            } else {
              block(ms);
            }
          });
        }
        blocking.wait();
        bench::report("wall_ms", static_cast<double>(bench::now_ns() - t) / 1e6);
        bench::report("threads", bench::status_number("Threads"));
        stop = true;
        computing.wait();
      },
      {.max_procs = args.procs});
}
