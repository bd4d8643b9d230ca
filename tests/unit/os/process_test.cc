// os/process.h, os/cpu.h, os/clock.h: what the kernel says about this process.
#include "os/process.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <latch>
#include <malloc.h>
#include <mutex>
#include <sched.h>
#include <string>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "os/clock.h"
#include "os/cpu.h"
#include "support/patience.h"
#include "support/processors.h"

namespace weft::rt {
namespace {

/// A thread can be joined a moment before the kernel strikes it off its lists (under qemu-user a
/// long moment). The next test may count only when it is gone from them.
void await_gone(int tid) {
  while (syscall(SYS_tgkill, getpid(), tid, 0) == 0) sched_yield();
  EXPECT_EQ(errno, ESRCH);
}

/// Runs check() while `count` more threads exist; each runs setup() first.
template <class Setup, class Check>
void with_threads(int count, Setup setup, Check check) {
  std::latch ready(count);
  std::latch done(1);
  std::mutex mutex;
  std::vector<int> tids;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      setup();
      {
        std::lock_guard guard(mutex);
        tids.push_back(gettid());
      }
      ready.count_down();
      done.wait();
    });
  }
  ready.wait();
  check();
  done.count_down();
  for (auto& thread : threads) thread.join();
  for (int tid : tids) await_gone(tid);
}

/// Off its processor for good: it is said to sleep shortly before.
bool is_at_rest(int tid) {
  if (tid == 0 || task_state(tid) != 'S') return false;
  const long long before = task_cpu_time(tid);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // sleep-ok: two looks at another
  return task_state(tid) == 'S' && task_cpu_time(tid) == before;
}

TEST(ProcessTest, TellsWhoIsOnAProcessor) {
  if (affinity_cpus() < 2) GTEST_SKIP() << "needs a second processor";
  std::atomic<int> spinner{0}, sleeper{0};
  std::atomic<bool> over{false};
  std::latch end(1);
  std::thread spins([&] {
    EXPECT_TRUE(test::stay_on(0));
    spinner = gettid();
    while (!over) {
    }
  });
  std::thread sleeps([&] {
    sleeper = gettid();
    end.wait();
  });
  // Both must be on processors at once, and the machine may be late to give them one each. Where others want those, too,
  // it is for moments only: so there are many looks before each yield, which costs the looker a slice.
  std::thread looks([&] {
    EXPECT_TRUE(test::stay_on(1));
    EXPECT_TRUE(test::eventually_hogging([&] {
      bool seen = false;
      for (int i = 0; i < 200 && spinner != 0 && !seen; ++i) seen = task_runs(spinner);
      return seen;
    }));
  });
  looks.join();
  EXPECT_TRUE(test::eventually_hogging([&] { return is_at_rest(sleeper); }));
  EXPECT_FALSE(task_runs(sleeper));
  over = true;
  end.count_down();
  spins.join();
  sleeps.join();
  await_gone(spinner);
  await_gone(sleeper);
  EXPECT_FALSE(task_runs(spinner)) << "it is gone";
}

TEST(ProcessTest, GettidIsTheKernels) {
  EXPECT_EQ(gettid(), getpid());
  int other = 0;
  std::thread([&other] {
    other = gettid();
    EXPECT_EQ(other, static_cast<int>(syscall(SYS_gettid)));
    EXPECT_NE(other, getpid());
  }).join();
  await_gone(other);
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

TEST(ProcessTest, TellsWhichSignalsAThreadKeepsBack) {
  if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "the emulator keeps none back";
  sigset_t some, old;
  sigemptyset(&some);
  sigaddset(&some, SIGURG);
  sigaddset(&some, 64);
  pthread_sigmask(SIG_BLOCK, &some, &old);
  EXPECT_TRUE(task_blocks(gettid(), SIGURG));
  EXPECT_TRUE(task_blocks(gettid(), 64));
  EXPECT_FALSE(task_blocks(gettid(), SIGUSR1));
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  EXPECT_FALSE(task_blocks(gettid(), SIGURG));
  EXPECT_FALSE(task_blocks(1 << 30, SIGURG)) << "nobody";
}

// Blocks in `call`, until `end`.
template <class Call, class End>
bool waits_for_lock(Call call, End end) {
  std::atomic<int> tid{0};
  std::thread blocked([&] {
    tid = gettid();
    call();
  });
  while (tid == 0 || task_state(tid) != 'S') sched_yield();
  const bool waits = task_waits_for_lock(tid);
  end();
  blocked.join();
  return waits;
}

TEST(ProcessTest, WhoWaitsForALock) {
  if (test::emulated()) GTEST_SKIP() << "the numbers of system calls are the host's";
  std::mutex m;
  m.lock();
  EXPECT_TRUE(waits_for_lock([&] { const std::lock_guard held(m); }, [&] { m.unlock(); }));
  const int file = memfd_create("lock", MFD_CLOEXEC);
  const int other = open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(file, LOCK_EX), 0);
  EXPECT_TRUE(waits_for_lock([&] { EXPECT_EQ(flock(other, LOCK_EX), 0); },
                             [&] { EXPECT_EQ(flock(file, LOCK_UN), 0); }));
  struct flock all {};
  all.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(file, F_OFD_SETLKW, &all), 0);
  EXPECT_TRUE(waits_for_lock(
      [&] {
        struct flock waits = all;
        EXPECT_EQ(fcntl(other, F_OFD_SETLKW, &waits), 0);
      },
      [&] { close(file); }));
  close(other);
  const int semaphore = semget(IPC_PRIVATE, 1, 0600);
  if (semaphore >= 0) {  // some sandboxes have none
    EXPECT_TRUE(waits_for_lock(
        [&] {
          sembuf lower{0, -1, 0};
          EXPECT_EQ(semop(semaphore, &lower, 1), 0);
        },
        [&] {
          sembuf raise{0, 1, 0};
          EXPECT_EQ(semop(semaphore, &raise, 1), 0);
        }));
    semctl(semaphore, 0, IPC_RMID);
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  char c = 0;
  EXPECT_FALSE(waits_for_lock([&] { EXPECT_EQ(read(ends[0], &c, 1), 1); },
                              [&] { EXPECT_EQ(write(ends[1], "x", 1), 1); }));
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(task_waits_for_lock(gettid())) << "it runs";
  EXPECT_TRUE(task_waits_for_lock(1 << 30)) << "nothing is known of it";
}

TEST(CpuTest, CountsTheAffinityMask) {
  const int all = affinity_cpus();
  EXPECT_GE(all, 1);
  EXPECT_EQ(all, static_cast<int>(std::thread::hardware_concurrency()));
  std::thread([] {  // a mask is per thread
    EXPECT_TRUE(test::stay_on(0));
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
