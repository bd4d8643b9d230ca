// weft::counting_semaphore, latch and barrier. [SEM-4]; Go: sync/runtime_sema_test.go
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <weft/barrier.h>
#include <weft/latch.h>
#include <weft/semaphore.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually;
using weft::test::parked_goroutines;
using weft::test::scaled;

class Semaphore : public weft::test::over_procs {};

// Go: TestSemaphore (HammerSemaphore)
TEST_P(Semaphore, Hammer) {
  run([] {
    weft::counting_semaphore<> s(1);
    long n = 0;
    const int rounds = scaled(1000, 50);
    weft::wait_group wg;
    for (int i = 0; i < 10; ++i) {
      wg.go([&] {
        for (int k = 0; k < rounds; ++k) {
          s.acquire();
          ++n;
          s.release();
        }
      });
    }
    wg.wait();
    EXPECT_EQ(n, 10L * rounds);
  });
}

TEST_P(Semaphore, AtMostSoMany) {
  run([] {
    weft::counting_semaphore<3> s(3);
    std::atomic<int> inside{0}, most{0};
    weft::wait_group wg;
    for (int i = 0; i < 20; ++i) {
      wg.go([&] {
        for (int k = 0; k < 20; ++k) {
          s.acquire();
          const int now = ++inside;
          for (int m = most; now > m && !most.compare_exchange_weak(m, now);) {
          }
          weft::gosched();
          --inside;
          s.release();
        }
      });
    }
    wg.wait();
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 1);
  });
}

TEST_P(Semaphore, TryAndLimits) {
  const auto body = [] {
    weft::binary_semaphore s(0);
    EXPECT_FALSE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire_for(1ms));
    EXPECT_FALSE(s.try_acquire_until(std::chrono::steady_clock::now() - 1s));
    EXPECT_FALSE(s.try_acquire_until(std::chrono::system_clock::now() + 1ms));
    s.release();
    EXPECT_TRUE(s.try_acquire_for(0ms));
    s.release();
    EXPECT_TRUE(s.try_acquire());
    weft::go([&s] { s.release(); });
    EXPECT_TRUE(s.try_acquire_for(1h));
    static_assert(weft::binary_semaphore::max() >= 1);
    static_assert(weft::counting_semaphore<10>::max() >= 10);
  };
  run(body);
  body();
}

TEST_P(Semaphore, ReleaseSeveral) {
  run([] {
    weft::counting_semaphore<> s(0);
    weft::wait_group wg;
    std::atomic<int> got{0};
    for (int i = 0; i < 5; ++i) {
      wg.go([&] {
        s.acquire();
        ++got;
      });
    }
    s.release(3);
    EXPECT_TRUE(eventually([&] { return got == 3; }));
    s.release(4);
    wg.wait();
    EXPECT_TRUE(s.try_acquire());
    EXPECT_TRUE(s.try_acquire());
    EXPECT_FALSE(s.try_acquire());
  });
}

// Units go to the longest waiters, in order: however many are released at once, exactly the first so many get them.
TEST_P(Semaphore, InTheOrderOfWaiting) {
  run([] {
    weft::counting_semaphore<> s(0);
    weft::wait_group wg;
    constexpr int kWaiters = 15;
    std::atomic<int> got{0};
    std::atomic<bool> has[kWaiters] = {};
    const std::uint64_t others = parked_goroutines();
    for (int i = 0; i < kWaiters; ++i) {
      wg.go([&, i] {
        s.acquire();
        has[i] = true;
        ++got;
      });
      ASSERT_TRUE(eventually(
          [&] { return parked_goroutines() >= others + static_cast<std::uint64_t>(i) + 1; }));
    }
    int given = 0;
    for (const int units : {1, 4, 2, 1, 7}) {
      s.release(units);
      EXPECT_FALSE(s.try_acquire()) << "nothing is left over";
      given += units;
      EXPECT_TRUE(eventually([&] { return got >= given; }));
      for (int i = 0; i < kWaiters; ++i) EXPECT_EQ(has[i], i < given) << i << " of " << given;
    }
    wg.wait();
  });
}

// Go: TestSemaHandoff, of those by whom the unit is handed over. Whoever releases one while somebody waits, and wants it
// back at once, comes after him: always, and also before he has run.
TEST_P(Semaphore, TheReleaserDoesNotOvertake) {
  run([] {
    weft::binary_semaphore s(0);
    const std::uint64_t others = parked_goroutines();
    for (int i = 0; i < scaled(200, 20); ++i) {
      weft::wait_group wg;
      bool had = false;
      wg.go([&] {
        s.acquire();
        had = true;
        s.release();
      });
      ASSERT_TRUE(eventually([&] { return parked_goroutines() > others; }));
      s.release();
      if (i % 2 == 0) {
        s.acquire();
      } else {
        while (!s.try_acquire()) weft::gosched();
      }
      ASSERT_TRUE(had) << "it was his turn";
      wg.wait();
    }
  });
}

// Nothing is lost when limits end beside releases.
TEST_P(Semaphore, UnitsAreNotLost) {
  run([] {
    weft::counting_semaphore<> s(0);
    const int units = scaled(2000, 100);
    std::atomic<int> got{0};
    weft::wait_group wg;
    std::atomic<bool> over{false};
    for (int i = 0; i < 8; ++i) {
      wg.go([&, i] {
        while (!over) {
          if (s.try_acquire_for(std::chrono::microseconds(5 * (i + 1)))) ++got;
        }
      });
    }
    for (int i = 0; i < units; ++i) {
      s.release();
      if (i % 7 == 0) weft::gosched();
    }
    EXPECT_TRUE(eventually([&] { return got == units; }));
    over = true;
    wg.wait();
    EXPECT_FALSE(s.try_acquire());
  });
}

TEST_P(Semaphore, DestroyedRightAfterAcquire) {
  run([] {
    for (int i = 0; i < scaled(2000, 50); ++i) {
      auto s = std::make_unique<weft::binary_semaphore>(0);
      weft::go([p = s.get()] { p->release(); });
      s->acquire();
      s.reset();
    }
  });
}

TEST_P(Semaphore, PingPongWithAThread) {
  weft::binary_semaphore ping(0), pong(0);
  const int rounds = scaled(500, 20);
  std::thread plain([&] {
    for (int i = 0; i < rounds; ++i) {
      ping.acquire();
      pong.release();
    }
  });
  run([&] {
    for (int i = 0; i < rounds; ++i) {
      ping.release();
      pong.acquire();
    }
  });
  plain.join();
}

WEFT_OVER_PROCS(Semaphore);

class Latch : public weft::test::over_procs {};

TEST_P(Latch, CountsDown) {
  run([] {
    weft::latch done(10), start(1);
    int parts[10] = {};
    for (int i = 0; i < 10; ++i) {
      weft::go([&, i] {
        start.wait();
        parts[i] = i + 1;
        done.count_down();
      });
    }
    EXPECT_FALSE(done.try_wait());
    start.count_down();
    done.wait();
    EXPECT_TRUE(done.try_wait());
    int sum = 0;
    for (const int p : parts) sum += p;
    EXPECT_EQ(sum, 55);
    weft::latch at_once(0);
    at_once.wait();
    weft::latch by_two(4);
    by_two.count_down(2);
    by_two.arrive_and_wait(2);
  });
}

TEST_P(Latch, ArriveAndWait) {
  run([] {
    weft::latch all(8);
    std::atomic<int> before{0};
    weft::wait_group wg;
    for (int i = 0; i < 8; ++i) {
      wg.go([&] {
        ++before;
        all.arrive_and_wait();
        EXPECT_EQ(before, 8);
      });
    }
    wg.wait();
  });
}

TEST_P(Latch, DestroyedRightAfterWait) {
  run([] {
    for (int i = 0; i < scaled(1000, 50); ++i) {
      auto l = std::make_unique<weft::latch>(2);
      for (int k = 0; k < 2; ++k) weft::go([p = l.get()] { p->count_down(); });
      l->wait();
      l.reset();
    }
  });
}

WEFT_OVER_PROCS(Latch);

class Barrier : public weft::test::over_procs {};

TEST_P(Barrier, Phases) {
  run([] {
    constexpr int kParties = 5, kPhases = 50;
    int completed = 0;
    std::atomic<int> arrived{0};
    auto on_completion = [&]() noexcept {
      EXPECT_EQ(arrived, (completed + 1) * kParties);
      ++completed;
    };
    weft::barrier b(kParties, on_completion);
    weft::wait_group wg;
    for (int i = 0; i < kParties; ++i) {
      wg.go([&] {
        for (int p = 0; p < kPhases; ++p) {
          ++arrived;
          b.arrive_and_wait();
          EXPECT_GE(completed, p + 1);
        }
      });
    }
    wg.wait();
    EXPECT_EQ(completed, kPhases);
  });
}

TEST_P(Barrier, TokensAndDroppingOut) {
  run([] {
    weft::barrier b(3);
    std::atomic<int> rounds{0};
    weft::wait_group wg;
    wg.go([&] { b.arrive_and_drop(); });
    for (int i = 0; i < 2; ++i) {
      wg.go([&] {
        for (int r = 0; r < 10; ++r) {
          auto token = b.arrive();
          weft::gosched();
          b.wait(std::move(token));
          ++rounds;
        }
      });
    }
    wg.wait();
    EXPECT_EQ(rounds, 20);
    static_assert(weft::barrier<>::max() > 1000);
    weft::barrier alone(1);
    alone.arrive_and_wait();
    weft::barrier by_two(2);
    by_two.wait(by_two.arrive(2));
  });
}

TEST_P(Barrier, WithPlainThreads) {
  weft::barrier b(4);
  std::atomic<int> passed{0};
  const auto party = [&] {
    for (int p = 0; p < 20; ++p) {
      b.arrive_and_wait();
      ++passed;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(party);
  run([&] {
    weft::wait_group wg;
    for (int i = 0; i < 2; ++i) wg.go(party);
    wg.wait();
  });
  for (auto& t : threads) t.join();
  EXPECT_EQ(passed, 80);
}

WEFT_OVER_PROCS(Barrier);

}  // namespace
