// gomaxprocs is a bound, also for goroutines that compute without ever calling the runtime, some of which come from blocking
// calls in which they have lost their P, once or again and again; and they share what there is.
//
// By default a second, and orders of magnitude, since the machine may be busy; WEFT_HOG_SECONDS makes it a measurement. What
// shares are of is slices: where the machine leaves no room for many of them in the time, it takes longer.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <unistd.h>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;
using weft::test::preemptions;
using weft::test::test_clock;

double cpu_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// For which each thread has waited for a processor so far, as the kernel counts it. Empty: it does not.
std::map<std::string, double> seconds_without_processor() {
  std::map<std::string, double> all;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream file(task.path() / "schedstat");
    std::uint64_t ran = 0, waited = 0;
    if (file >> ran >> waited) all[task.path().filename()] = static_cast<double>(waited) * 1e-9;
  }
  return all;
}

class FairHogs : public weft::test::runtime_test {
 protected:
  static constexpr int kHogs = 8;
  static constexpr std::uint64_t kSlices = 12;  // for each of them, at least

  void SetUp() override {
    const char* text = std::getenv("WEFT_HOG_SECONDS");
    measuring_ = text != nullptr;
    seconds_ = measuring_ ? std::atof(text) : 1.0;
    runtime_test::SetUp();
  }

  // So many goroutines do hog(i, stop) on one P, from the first moment of the measurement to its end.
  void measure(int n, const std::function<void(int, const std::atomic<bool>&)>& hog) {
    weft::run(
        [&] {
          const auto waited_before = seconds_without_processor();
          const auto began = test_clock::now();
          const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
          std::atomic<bool> stop{false};
          weft::wait_group hogs;
          for (int i = 0; i < n; ++i) hogs.go([&, i] { hog(i, stop); });
          const std::chrono::duration<double> time(seconds_);
          const std::uint64_t some_slices = preemptions() + kSlices * static_cast<unsigned>(n);
          const auto limit = began + time + 20s * weft::test::slowness();
          weft::this_thread::sleep_for(time);  // sleep-ok: what is measured
          while (preemptions() < some_slices && test_clock::now() < limit) {
            weft::this_thread::sleep_for(10ms);  // sleep-ok: what is measured
          }
          cpu_ = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
          wall_ = std::chrono::duration<double>(test_clock::now() - began).count();
          for (const auto& [thread, waited] : seconds_without_processor()) {
            const auto old = waited_before.find(thread);
            waited_ += waited - (old != waited_before.end() ? old->second : 0);
          }
          stop = true;
          hogs.wait();
        },
        {.max_procs = 1});
    std::printf("processor time %.3f of wall time; waited for a processor %.3f of it\n",
                cpu_ / wall_, waited_ / wall_);
    EXPECT_LE(cpu_ / wall_, measuring_ ? 1.05 : 1.5);
  }

  bool measuring_ = false;
  double seconds_ = 1;
  double cpu_ = 0, wall_ = 0, waited_ = 0;
};

// Half of them come from sleep(3) when the others compute already.
TEST_F(FairHogs, OnOneP) {
  std::array<double, kHogs> share{};
  measure(kHogs, [&](int i, const std::atomic<bool>& stop) {
    const double began = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    if (i % 2 == 0) usleep(20'000 + 1000 * static_cast<unsigned>(i));  // sleep-ok: loses its P
    while (!stop.load(std::memory_order_relaxed)) {
    }
    share[static_cast<std::size_t>(i)] = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - began;
  });
  double sum = 0;
  for (const double s : share) sum += s;
  const double fair = sum / kHogs;
  const double least = *std::min_element(share.begin(), share.end()) / fair;
  const double most = *std::max_element(share.begin(), share.end()) / fair;
  std::printf("shares %.3f to %.3f of the fair one\n", least, most);
  if (measuring_ && cpu_ / wall_ < 0.95) {
    // Slices are of wall time. What others take of it is lost to whoever's turn it is: that is not the scheduler's choice, and
    // says nothing about it. But it was others: at every moment one of these has computed, or has waited for a processor.
    EXPECT_TRUE(waited_ == 0 || cpu_ + waited_ > 0.95 * wall_) << "nobody had the P";
    GTEST_SKIP() << "others use the machine: no measurement of shares";
  }
  EXPECT_GE(least, measuring_ ? 0.9 : 0.1);
  EXPECT_LE(most, measuring_ ? 1.1 : 5);
}

// Sleeps in the kernel, where it loses its P, and computes without a word to the runtime when it comes back; again and again.
void sleeps_and_computes(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
    usleep(50'000);  // sleep-ok: loses its P
    const double enough = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + 0.02;
    while (!stop.load(std::memory_order_relaxed) && cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < enough) {
    }
  }
}
void computes(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
  }
}

TEST_F(FairHogs, BesideThoseWhoSleep) {
  measure(kHogs, [](int i, const std::atomic<bool>& stop) {
    (i % 2 == 0 ? sleeps_and_computes : computes)(stop);
  });
}

// While the one sleeps nobody waits for the other's P.
TEST_F(FairHogs, OneBesideOneWhoSleeps) {
  measure(2, [](int i, const std::atomic<bool>& stop) {
    (i == 0 ? sleeps_and_computes : computes)(stop);
  });
}

}  // namespace
