// TASKS goroutines that each sleep once, for up to MILLISECONDS: what that costs the processor, their
// start included, and how late they wake.

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "report.h"

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TASKS MILLISECONDS");
  return weft::run(
      [tasks = args.size[0], longest_ns = args.size[1] * 1'000'000] {
        std::vector<std::int64_t> sleep_ns;
        std::uint64_t x = 7;
        for (long i = 0; i < tasks; i++) {
          x = bench::work(x, 1);
          sleep_ns.push_back(static_cast<std::int64_t>(x >> 16) % longest_ns);
        }
        std::vector<double> late_us(sleep_ns.size());
        weft::wait_group finished;
        finished.add(static_cast<int>(tasks));
        const double cpu_ms = bench::cpu_ms();
        for (std::size_t i = 0; i < sleep_ns.size(); i++) {
          weft::go([&, i] {
            const auto t = bench::now_ns();
            weft::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns[i]));
            late_us[i] = static_cast<double>(bench::now_ns() - t - sleep_ns[i]) / 1e3;
            finished.done();
          });
        }
        finished.wait();
        bench::report("cpu_ms", bench::cpu_ms() - cpu_ms);
        bench::report_percentiles("late_us", std::move(late_us));
      },
      {.max_procs = args.procs});
}
