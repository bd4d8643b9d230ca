// os/process.h, os/cpu.h, os/clock.h: what the kernel says about this process.
#include "os/process.h"

#include <chrono>
#include <gtest/gtest.h>
#include <latch>
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "os/clock.h"
#include "os/cpu.h"

namespace weft::rt {
namespace {

/// Runs check() while `count` more threads exist; each runs setup() first.
template <class Setup, class Check>
void with_threads(int count, Setup setup, Check check) {
  std::latch ready(count);
  std::latch done(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      setup();
      ready.count_down();
      done.wait();
    });
  }
  ready.wait();
  check();
  done.count_down();
  for (auto& thread : threads) thread.join();
}

TEST(ProcessTest, GettidIsTheKernels) {
  EXPECT_EQ(gettid(), getpid());
  std::thread([] {
    EXPECT_EQ(gettid(), static_cast<int>(syscall(SYS_gettid)));
    EXPECT_NE(gettid(), getpid());
  }).join();
}

TEST(ProcessTest, AProcessWithoutThreadsHasOneTask) { EXPECT_EQ(count_tasks(), 1); }

TEST(ProcessTest, CountsEveryThread) {
  with_threads(
      5, [] {}, [] { EXPECT_EQ(count_tasks(), 6); });
}

TEST(ProcessTest, CountsMoreThreadsThanOneDirectoryReadHolds) {
  with_threads(
      300, [] {}, [] { EXPECT_EQ(count_tasks(), 301); });
}

// Only the kernel's own workers are left out, which carry a mark; a thread of the program may have
// any name, and may wake somebody.
TEST(ProcessTest, CountsThreadsThatAreNamedLikeIoUringWorkers) {
  with_threads(
      3, [] { prctl(PR_SET_NAME, "iou-wrk-4711"); }, [] { EXPECT_EQ(count_tasks(), 4); });
  with_threads(
      2, [] { prctl(PR_SET_NAME, "a) b (c"); }, [] { EXPECT_EQ(count_tasks(), 3); });
}

TEST(ProcessTest, CountingAllocatesNothing) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const auto before = mallinfo2();
  count_tasks();
  EXPECT_EQ(mallinfo2().uordblks, before.uordblks);
#endif
}

TEST(CpuTest, CountsTheAffinityMask) {
  const int all = affinity_cpus();
  EXPECT_GE(all, 1);
  EXPECT_EQ(all, static_cast<int>(std::thread::hardware_concurrency()));
  std::thread([] {  // a mask is per thread
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(affinity_cpus(), 1);
  })
      .join();
}

TEST(ClockTest, IsTheMonotonicClock) {
  using std::chrono::steady_clock;
  const std::int64_t before = steady_clock::now().time_since_epoch().count();
  const std::int64_t now = nanotime();
  const std::int64_t after = steady_clock::now().time_since_epoch().count();
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
}

}  // namespace
}  // namespace weft::rt
