// weft::condition_variable. [CO-1]; Go: sync/cond_test.go
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <weft/condition_variable.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::test::eventually;
using weft::test::scaled;
using lock_type = weft::unique_lock<weft::mutex>;

class Cond : public weft::test::over_procs {};

// Go: TestCondSignal. One wake-up per signal.
TEST_P(Cond, OneWakePerSignal) {
  run([] {
    weft::mutex m;
    weft::condition_variable cv;
    constexpr int kWaiters = 10;
    int running = 0, awake = 0;
    weft::wait_group wg;
    for (int i = 0; i < kWaiters; ++i) {
      wg.go([&] {
        lock_type l(m);
        ++running;
        cv.wait(l);
        ++awake;
      });
    }
    EXPECT_TRUE(eventually([&] {
      const lock_type l(m);
      return running == kWaiters;
    }));
    for (int n = 1; n <= kWaiters; ++n) {
      {
        const lock_type l(m);
        ASSERT_EQ(awake, n - 1);
        cv.notify_one();
      }
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return awake == n;
      }));
      for (int k = 0; k < 3; ++k) weft::gosched();
      const lock_type l(m);
      ASSERT_EQ(awake, n) << "too many woke";
    }
    cv.notify_one();
    wg.wait();
  });
}

// Go: TestCondSignalGenerations. In the order in which they began to wait.
TEST_P(Cond, InOrder) {
  run([] {
    weft::mutex m;
    weft::condition_variable cv;
    constexpr int kWaiters = 100;
    std::vector<int> order;
    int waiting = 0;
    weft::wait_group wg;
    for (int i = 0; i < kWaiters; ++i) {
      wg.go([&, i] {
        lock_type l(m);
        waiting = i + 1;
        cv.wait(l);
        order.push_back(i);
      });
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return waiting == i + 1;
      }));
    }
    for (int i = 0; i < kWaiters; ++i) {
      cv.notify_one();
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return order.size() == static_cast<std::size_t>(i + 1);
      }));
      const lock_type l(m);
      ASSERT_EQ(order.back(), i);
    }
    wg.wait();
  });
}

// Go: TestCondBroadcast. Each exactly once per round.
TEST_P(Cond, Broadcast) {
  run([] {
    weft::mutex m;
    weft::condition_variable cv;
    constexpr int kWaiters = 200;
    const int rounds = scaled(200, 10);
    int generation = 0, waiting = 0;
    long woken = 0;
    weft::wait_group wg;
    for (int i = 0; i < kWaiters; ++i) {
      wg.go([&] {
        lock_type l(m);
        for (int r = 0; r < rounds; ++r) {
          ++waiting;
          cv.wait(l);
          ASSERT_GT(generation, r) << "woken without a notification";
          ++woken;
        }
      });
    }
    for (int r = 0; r < rounds; ++r) {
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return waiting == (r + 1) * kWaiters;
      }));
      lock_type l(m);
      ASSERT_EQ(woken, static_cast<long>(r) * kWaiters);
      ++generation;
      if (r % 2 == 0) {
        cv.notify_all();
      } else {
        l.unlock();
        cv.notify_all();
      }
    }
    wg.wait();
    EXPECT_EQ(woken, static_cast<long>(rounds) * kWaiters);
  });
}

// Go: TestCondSignalStealing. A later waiter does not take an earlier one's notification.
TEST_P(Cond, NotStolen) {
  run([] {
    for (weft::test::budget b(500); b.next();) {
      weft::mutex m;
      weft::condition_variable cv;
      bool first_waits = false, second_waits = false, first_woken = false, go = false;
      weft::wait_group wg;
      wg.go([&] {
        lock_type l(m);
        first_waits = true;
        cv.wait(l);
        first_woken = true;
      });
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return first_waits;
      }));
      cv.notify_one();
      wg.go([&] {
        lock_type l(m);
        second_waits = true;
        while (!go) cv.wait(l);
      });
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return first_woken;
      }));
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return second_waits;
      }));
      {
        const lock_type l(m);
        go = true;
      }
      cv.notify_all();
      wg.wait();
    }
  });
}

TEST_P(Cond, ProducersAndConsumers) {
  weft::mutex m;
  weft::condition_variable not_empty, not_full;
  std::deque<int> queue;
  constexpr int kEach = 500;
  std::atomic<long> sum{0};
  const auto produce = [&] {
    for (int i = 1; i <= kEach; ++i) {
      lock_type l(m);
      not_full.wait(l, [&] { return queue.size() < 8; });
      queue.push_back(i);
      not_empty.notify_one();
    }
  };
  const auto consume = [&] {
    for (int i = 0; i < kEach; ++i) {
      lock_type l(m);
      not_empty.wait(l, [&] { return !queue.empty(); });
      sum += queue.front();
      queue.pop_front();
      l.unlock();
      not_full.notify_one();
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(produce);
  threads.emplace_back(consume);
  run([&] {
    weft::wait_group wg;
    for (int i = 0; i < 3; ++i) {
      wg.go(produce);
      wg.go(consume);
    }
    wg.wait();
  });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, 4L * kEach * (kEach + 1) / 2);
}

// It may be destroyed once everybody has been notified.
TEST_P(Cond, DestroyedAfterNotifyAll) {
  run([] {
    for (weft::test::budget b(500); b.next();) {
      weft::mutex m;
      auto cv = std::make_unique<weft::condition_variable>();
      int waiting = 0;
      weft::wait_group wg;
      for (int i = 0; i < 4; ++i) {
        wg.go([&] {
          lock_type l(m);
          ++waiting;
          cv->wait(l);
        });
      }
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return waiting == 4;
      }));
      {
        const lock_type l(m);
        cv->notify_all();
        cv.reset();
      }
      wg.wait();
    }
  });
}

TEST_P(Cond, NobodyThere) {
  weft::condition_variable cv;
  cv.notify_one();
  cv.notify_all();
}

WEFT_OVER_PROCS(Cond);

}  // namespace
