// base/lock.h with real threads; every interleaving of a few steps is in tests/model/lock_model.cc.
#include "base/lock.h"

#include <gtest/gtest.h>
#include <mutex>
#include <thread>
#include <vector>

#include "base/rng.h"

namespace weft::rt {
namespace {

constinit ranked_lock global{lock_rank::leaf};  // usable before any constructor has run

TEST(Lock, ExcludesAndPublishes) {
  constexpr int kThreads = 4, kRounds = 20'000;
  ranked_lock lock{lock_rank::leaf};
  int count = 0;  // plain: TSan sees whether the lock orders it
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        scoped_lock guard(lock);
        ++count;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(Lock, TryLock) {
  if (!global.try_lock()) FAIL() << "nobody holds it";
  global.assert_held();
  std::thread([]() WEFT_NO_THREAD_SAFETY_ANALYSIS { EXPECT_FALSE(global.try_lock()); }).join();
  global.unlock();
  if (!global.try_lock()) FAIL() << "nobody holds it";
  global.unlock();
}

TEST(Lock, WorksWithStdGuards) {
  std::lock_guard<ranked_lock> guard(global);
  global.assert_held();
}

// A holder keeps the lock until the others are asleep in the kernel; all of them get it in the end.
TEST(Lock, SleepersAreWoken) {
  constexpr int kThreads = 3;
  ranked_lock lock{lock_rank::leaf};
  std::atomic<int> arrived{0};
  int passed = 0;
  lock.lock();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      ++arrived;
      lock.lock();
      ++passed;
      lock.unlock();
    });
  }
  while (arrived.load() < kThreads) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  lock.unlock();
  for (auto& t : threads) t.join();
  EXPECT_EQ(passed, kThreads);
}

TEST(LockDeathTest, MisuseIsFatal) {
  EXPECT_EXIT(
      {
        futex_lock lock;
        lock.unlock();
      },
      testing::ExitedWithCode(2), "unlock of unlocked runtime lock");
  EXPECT_EXIT(
      {
        ranked_lock lock{lock_rank::leaf};
        lock.assert_held();
      },
      testing::ExitedWithCode(2), "runtime lock not held");
}

#ifdef WEFT_COUNT_LOCKS
TEST(Lock, CountsAcquisitions) {
  const auto before = lock_acquisitions.load();
  { scoped_lock guard(global); }
  if (!global.try_lock()) FAIL() << "nobody holds it";
  global.unlock();
  EXPECT_EQ(lock_acquisitions.load() - before, 2u);
}
#endif

#ifdef WEFT_LOCK_RANK
TEST(LockDeathTest, WrongOrderIsFatal) {
  ranked_lock sched{lock_rank::sched}, chan{lock_rank::chan};
  {
    scoped_lock outer(chan);
    scoped_lock inner(sched);
  }
  EXPECT_EXIT(
      {
        scoped_lock outer(sched);
        scoped_lock inner(chan);
      },
      testing::ExitedWithCode(2), "lock \"chan\" acquired while holding \"sched\"");
}
#endif

TEST(Rng, SpreadsAndRepeats) {
  rng a(1), b(1), c(2);
  int buckets[8] = {};
  for (int i = 0; i < 8000; ++i) {
    EXPECT_EQ(a.next(), b.next());
    const std::uint32_t n = c.below(8);
    ASSERT_LT(n, 8u);
    ++buckets[n];
  }
  for (const int n : buckets) EXPECT_NEAR(n, 1000, 200);
  EXPECT_NE(rng(1).next(), rng(2).next());
  rng zero(0);
  EXPECT_NE(zero.next(), zero.next());
}

}  // namespace
}  // namespace weft::rt
