// As many goroutines compute as there are Ps. Another one waits for a descriptor of which there is news every millisecond, TICKS
// times; then for what one of those who compute sends it every millisecond, and computes on. How late it runs.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "report.h"

namespace {

constexpr std::int64_t kTick = 1'000'000;  // ns

double since_us(std::int64_t t) { return static_cast<double>(bench::now_ns() - t) / 1e3; }

// A timer of the kernel's: nothing in this process makes its news.
std::vector<double> news_of_a_timer(long ticks) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) std::abort();
  const std::int64_t begin = bench::now_ns() + kTick;
  itimerspec every{};
  every.it_value = {static_cast<time_t>(begin / 1'000'000'000), begin % 1'000'000'000};
  every.it_interval.tv_nsec = kTick;
  timerfd_settime(fd, TFD_TIMER_ABSTIME, &every, nullptr);
  std::vector<double> late;
  {
    weft::io::poll_fd news(fd);
    std::int64_t seen = 0;
    while (static_cast<long>(late.size()) < ticks) {
      std::uint64_t fired = 0;
      if (read(fd, &fired, sizeof fired) != sizeof fired) {
        news.wait_readable();
        continue;
      }
      late.push_back(since_us(begin + seen * kTick));  // since the first that it has not seen
      seen += static_cast<std::int64_t>(fired);
    }
  }
  close(fd);
  return late;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 1, "TICKS");
  const long ticks = args.size[0];
  return weft::run(
      [=] {
        std::atomic<bool> stop{false}, sends{false};
        const weft::chan<std::int64_t> sent(1);
        weft::wait_group all;
        for (int i = 0; i < args.procs; i++) {
          all.go([&, i] {
            std::uint64_t x = 1;
            std::int64_t last = bench::now_ns();
            while (!stop.load(std::memory_order_relaxed)) {
              x = bench::work(x, 1'000);
              if (i == 0 && sends.load(std::memory_order_relaxed) &&
                  bench::now_ns() - last >= kTick) {
                last = bench::now_ns();
                static_cast<void>(sent.try_send(std::int64_t{last}));
              }
            }
            if (x == 0) std::abort();
          });
        }
        std::vector<double> news = news_of_a_timer(ticks), woken;
        sends = true;
        while (static_cast<long>(woken.size()) < ticks) {
          woken.push_back(since_us(*sent.recv()));
        }
        stop = true;
        all.wait();
        bench::report_percentiles("news_us", std::move(news));
        bench::report_percentiles("woken_us", std::move(woken));
      },
      {.max_procs = args.procs});
}
