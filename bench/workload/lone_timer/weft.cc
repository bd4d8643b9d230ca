// One goroutine sleeps SLEEPS times for MICROSECONDS, in turns with a plain thread that does so in the
// kernel: how late it wakes, alone and in proportion to the thread.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <sys/prctl.h>
#include <thread>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "report.h"

namespace {

double late_us(std::int64_t ns, void (*sleep)(std::int64_t ns)) {
  const auto t = bench::now_ns();
  sleep(ns);
  return static_cast<double>(bench::now_ns() - t - ns) / 1e3;
}

void sleep_as_thread(std::int64_t ns) {
  const timespec ts{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
}

void sleep_as_goroutine(std::int64_t ns) {
  weft::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 2, "SLEEPS MICROSECONDS");
  const std::int64_t ns = args.size[1] * 1000;
  std::vector<double> goroutine, thread;
  weft::chan<int> threads_turn, goroutines_turn;
  std::thread sleeper([&] {
    prctl(PR_SET_TIMERSLACK, 1);
    while (threads_turn.recv()) {
      thread.push_back(late_us(ns, sleep_as_thread));
      goroutines_turn.send(1);
    }
  });
  const int status = weft::run(
      [&, sleeps = args.size[0]] {
        for (long i = 0; i < sleeps; i++) {
          threads_turn.send(1);
          goroutines_turn.recv();
          goroutine.push_back(late_us(ns, sleep_as_goroutine));
        }
        threads_turn.close();
      },
      {.max_procs = args.procs});
  sleeper.join();
  bench::report("late_per_thread", median(goroutine) / median(thread));
  bench::report_percentiles("late_us", std::move(goroutine));
  return status;
}
