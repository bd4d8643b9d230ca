// gomaxprocs is a bound, also for goroutines that compute without ever calling the runtime, some of which come from a
// blocking call in which they have lost their P; and they share what there is.
//
// By default a second, and orders of magnitude, since the machine may be busy; WEFT_HOG_SECONDS makes it a measurement.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;
using weft::test::test_clock;

double cpu_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class FairHogs : public weft::test::runtime_test {
 protected:
  static constexpr int kHogs = 8;

  void SetUp() override {
    const char* text = std::getenv("WEFT_HOG_SECONDS");
    measuring_ = text != nullptr;
    seconds_ = measuring_ ? std::atof(text) : 1.0;
    runtime_test::SetUp();
  }

  bool measuring_ = false;
  double seconds_ = 1;
};

TEST_F(FairHogs, OnOneP) {
  std::array<double, kHogs> share{};
  double wall = 0, cpu = 0;
  weft::run(
      [&] {
        std::atomic<int> phase{0};  // 1: count; 2: stop
        std::atomic<int> computing{0};
        weft::wait_group hogs;
        for (int i = 0; i < kHogs; ++i) {
          hogs.go([&, i] {
            if (i % 2 == 0)
              usleep(20'000 + 1000 * static_cast<unsigned>(i));  // sleep-ok: loses its P
            ++computing;
            while (phase.load(std::memory_order_relaxed) == 0) {
            }
            const double began = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
            while (phase.load(std::memory_order_relaxed) == 1) {
            }
            share[static_cast<std::size_t>(i)] = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - began;
          });
        }
        while (computing < kHogs) weft::this_thread::sleep_for(5ms);  // sleep-ok: until all compute
        const auto began = test_clock::now();
        const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
        phase = 1;
        const std::chrono::duration<double> time(seconds_);
        weft::this_thread::sleep_for(time);  // sleep-ok: what is measured
        phase = 2;
        cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
        wall = std::chrono::duration<double>(test_clock::now() - began).count();
        hogs.wait();
      },
      {.max_procs = 1});
  double sum = 0, least = 1e9, most = 0;
  for (const double s : share) {
    sum += s;
    least = std::min(least, s);
    most = std::max(most, s);
  }
  const double fair = sum / kHogs;
  std::printf("processor time %.3f of wall time; shares %.3f to %.3f of the fair one\n", cpu / wall,
              least / fair, most / fair);
  EXPECT_LE(cpu / wall, measuring_ ? 1.05 : 1.5);
  if (measuring_ && cpu / wall < 0.95) GTEST_SKIP() << "others use the machine: no measurement";
  EXPECT_GE(least / fair, measuring_ ? 0.9 : 0.1);
  EXPECT_LE(most / fair, measuring_ ? 1.1 : 5);
}

}  // namespace
