// As many goroutines compute as there are Ps, and one more sleeps for a millisecond at a time, TICKS times in
// each of ROUNDS: how late it wakes, and how much less the others get done than without it. The two
// are measured in turns, so that both meet the same machine.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "report.h"

namespace {

constexpr std::int64_t kTick = 1'000'000;  // ns

void sleep_ns(std::int64_t ns) { weft::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

struct hogs {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> steps{0};
  weft::wait_group all;

  explicit hogs(int n) {
    for (int i = 0; i < n; i++) {
      all.go([this] {
        std::uint64_t x = 1;
        while (!stop.load(std::memory_order_relaxed)) {
          x = bench::work(x, 10'000);
          steps.fetch_add(1, std::memory_order_relaxed);
        }
        if (x == 0) std::abort();
      });
    }
  }
  void end() {
    stop = true;
    all.wait();
  }

  // What they get done in a nanosecond while f runs.
  template <class F>
  double rate_during(F f) {
    const std::uint64_t before = steps.load();
    const std::int64_t t = bench::now_ns();
    f();
    return static_cast<double>(steps.load() - before) / static_cast<double>(bench::now_ns() - t);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "TICKS ROUNDS");
  const long ticks = args.size[0], rounds = args.size[1];
  return weft::run(
      [=] {
        hogs beside(args.procs);
        sleep_ns(50 * kTick);  // all compute
        std::vector<double> late, loss;
        for (long r = 0; r < rounds; r++) {
          const double alone = beside.rate_during([&] { sleep_ns(ticks * kTick); });
          const double disturbed = beside.rate_during([&] {
            for (long i = 0; i < ticks; i++) {
              const std::int64_t t = bench::now_ns();
              sleep_ns(kTick);
              late.push_back(static_cast<double>(bench::now_ns() - t - kTick) / 1e3);
            }
          });
          loss.push_back(100 * (1 - disturbed / alone));
        }
        beside.end();
        bench::report_percentiles("late_us", std::move(late));
        bench::report_median("hog_loss_pct", std::move(loss));
      },
      {.max_procs = args.procs});
}
