// weft::condition_variable. [CO-1]; Go: sync/cond_test.go
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <weft/condition_variable.h>
#include <weft/go.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually;
using weft::test::scaled;
constexpr auto no_timeout = weft::cv_status::no_timeout;
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

// 199, Go: TestRace. Three who hand a variable on; the last may come to wait before or after the first has answered.
TEST_P(Cond, HandedOn) {
  run([] {
    for (weft::test::budget b(500); b.next();) {
      weft::mutex m;
      weft::condition_variable cv;
      int x = 0;
      weft::wait_group wg;
      wg.go([&] {
        lock_type l(m);
        x = 1;
        cv.wait(l);
        EXPECT_EQ(x, 2);
        x = 3;
        cv.notify_one();
      });
      wg.go([&] {
        lock_type l(m);
        while (x != 1) {
          l.unlock();
          weft::gosched();
          l.lock();
        }
        x = 2;
        cv.notify_one();
      });
      wg.go([&] {
        lock_type l(m);
        while (x < 2) {
          l.unlock();
          weft::gosched();
          l.lock();
        }
        if (x == 2) cv.wait(l);
        EXPECT_EQ(x, 3);
      });
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

TEST_P(Cond, Limits) {
  const auto body = [] {
    weft::mutex m;
    weft::condition_variable cv;
    lock_type l(m);
    EXPECT_EQ(cv.wait_for(l, 1ms), weft::cv_status::timeout);
    EXPECT_TRUE(l.owns_lock());
    EXPECT_FALSE(m.try_lock()) << "locked again";
    EXPECT_EQ(cv.wait_until(l, std::chrono::steady_clock::now() - 1s), weft::cv_status::timeout);
    EXPECT_EQ(cv.wait_until(l, std::chrono::system_clock::now() + 1ms), weft::cv_status::timeout);
    EXPECT_FALSE(cv.wait_for(l, 1ms, [] { return false; }));
    EXPECT_TRUE(cv.wait_for(l, 0ms, [] { return true; }));
    EXPECT_FALSE(cv.wait_until(l, std::chrono::steady_clock::now() + 1ms, [] { return false; }));
    bool ready = false;
    weft::go([&] {
      const lock_type held(m);
      ready = true;
      cv.notify_one();
    });
    EXPECT_TRUE(cv.wait_for(l, 1h, [&] { return ready; }));
  };
  run(body);
  body();
}

// A notification is not lost when limits end beside it: of n waiters, n notifications wake those who have
// not given up.
TEST_P(Cond, LimitsBesideNotifications) {
  run([] {
    weft::mutex m;
    weft::condition_variable cv;
    int tokens = 0;
    long taken = 0;
    bool over = false;
    weft::wait_group wg;
    for (int i = 0; i < 8; ++i) {
      wg.go([&, i] {
        lock_type l(m);
        while (!over) {
          if (i % 2 == 0) {
            cv.wait_for(l, std::chrono::microseconds(5 * (i + 1)));
          } else {
            cv.wait(l);
          }
          if (tokens > 0) {
            --tokens;
            ++taken;
          }
        }
      });
    }
    const int rounds = scaled(1000, 50);
    for (int r = 0; r < rounds; ++r) {
      {
        const lock_type l(m);
        ++tokens;
      }
      cv.notify_one();
      if (r % 16 == 0) weft::gosched();
    }
    {
      const lock_type l(m);
      over = true;
    }
    cv.notify_all();
    wg.wait();
    EXPECT_EQ(taken + tokens, rounds);
  });
}

TEST_P(Cond, DestroyedBesideALimit) {
  run([] {
    for (weft::test::budget b(300); b.next();) {
      weft::mutex m;
      auto cv = std::make_unique<weft::condition_variable>();
      bool waits = false;
      weft::wait_group wg;
      wg.go([&] {
        lock_type l(m);
        waits = true;
        cv->wait_for(l, std::chrono::microseconds(b.round() % 50));
      });
      ASSERT_TRUE(eventually([&] {
        const lock_type l(m);
        return waits;
      }));
      {
        const lock_type l(m);
        cv->notify_all();
      }
      cv.reset();
      wg.wait();
    }
  });
}

// … and by somebody who holds the mutex that those with a limit want next: they do not come back to it.
TEST_P(Cond, DestroyedUnderTheMutexDespiteLimits) {
  const auto body = [](auto wait, auto notify) {
    weft::mutex m;
    auto cv = std::make_unique<weft::condition_variable>();
    int waiting = 0;
    weft::wait_group wg;
    for (int i = 0; i < 3; ++i) {
      wg.go([&] {
        lock_type l(m);
        ++waiting;
        wait(*cv, l);
      });
    }
    ASSERT_TRUE(eventually([&] {
      const lock_type l(m);
      return waiting == 3;
    }));
    const auto before = weft::test::test_clock::now();
    {
      const lock_type l(m);
      notify(*cv);
      cv.reset();
    }
    EXPECT_LT(weft::test::test_clock::now() - before, 60s);
    wg.wait();
  };
  const auto an_hour = [](auto& cv, lock_type& l) { EXPECT_EQ(cv.wait_for(l, 1h), no_timeout); };
  const auto for_ever = [](auto& cv, lock_type& l) {
    cv.wait_until(l, std::chrono::steady_clock::time_point::max());
  };
  const auto an_instant = [](auto& cv, lock_type& l) { cv.wait_for(l, 20us); };
  const auto all = [](auto& cv) { cv.notify_all(); };
  const auto one_by_one = [](auto& cv) {
    for (int i = 0; i < 3; ++i) cv.notify_one();
  };
  run([&] {
    body(an_hour, all);
    body(an_hour, one_by_one);
    body(for_ever, all);
    for (weft::test::budget b(100); b.next();) {
      body(an_instant, all);
      body(an_instant, one_by_one);
    }
  });
}

// --- condition_variable_any -------------------------------------------------------------------

TEST_P(Cond, AnyLock) {
  run([] {
    weft::recursive_mutex m;
    weft::condition_variable_any cv;
    int turn = 0;
    weft::wait_group wg;
    for (int i = 0; i < 5; ++i) {
      wg.go([&, i] {
        std::unique_lock l(m);
        cv.wait(l, [&] { return turn == i; });
        ++turn;
        cv.notify_all();
      });
    }
    wg.wait();
    EXPECT_EQ(turn, 5);
    std::unique_lock l(m);
    EXPECT_EQ(cv.wait_for(l, 1ms), weft::cv_status::timeout);
    EXPECT_FALSE(cv.wait_until(l, std::chrono::system_clock::now() + 1ms, [] { return false; }));
    EXPECT_TRUE(cv.wait_for(l, 1h, [] { return true; }));
  });
}

TEST_P(Cond, StopToken) {
  run([] {
    weft::mutex m;
    weft::condition_variable_any cv;
    for (weft::test::budget b(200); b.next();) {
      bool ended = false;
      {
        weft::jthread t([&](std::stop_token stop) {
          std::unique_lock l(m);
          const bool met = cv.wait(l, stop, [] { return false; });
          EXPECT_FALSE(met);
          EXPECT_TRUE(stop.stop_requested());
          ended = true;
        });
        if (b.round() % 2 == 0) weft::gosched();
      }
      ASSERT_TRUE(ended);
    }
    std::stop_source source;
    std::unique_lock l(m);
    EXPECT_FALSE(cv.wait_for(l, source.get_token(), 1ms, [] { return false; }));
    EXPECT_TRUE(cv.wait(l, source.get_token(), [] { return true; }));
    source.request_stop();
    EXPECT_FALSE(cv.wait(l, source.get_token(), [] { return false; }));
    EXPECT_FALSE(cv.wait_until(l, source.get_token(), std::chrono::steady_clock::now() + 1h,
                               [] { return false; }));
  });
}

// std's own condition_variable_any works with weft::mutex, between plain threads, and in goroutines: it blocks their threads,
// which is a call that nobody announced.
template <class Thread>
void std_condition_variable_any() {
  weft::mutex m;
  std::condition_variable_any cv;
  bool ready = false, waits = false;
  Thread waiter([&] {
    std::unique_lock l(m);
    waits = true;
    cv.wait(l, [&] { return ready; });
  });
  const auto it_waits = [&] {
    const std::lock_guard held(m);
    return waits;
  };
  while (!it_waits()) weft::this_thread::yield();
  {
    const std::lock_guard held(m);
    ready = true;
  }
  cv.notify_all();
  waiter.join();
}
TEST_P(Cond, StdConditionVariableAny) {
  std_condition_variable_any<std::thread>();
  run(std_condition_variable_any<weft::thread>);
}

// Whoever waits for a condition hands its mutex over only to one who runs next. Where it is somebody else's turn, every so
// many switches, that one finds the mutex free: it may compute for long, or call exit(), and nobody would have it.
TEST_P(Cond, HandsOverToWhomItIsTheTurnOf) {
  if (procs() != 1) return;
#ifdef WEFT_CHAOS
  GTEST_SKIP() << "whoever is woken runs next half of the time";
#endif
  run([] {
    int kept_from_others = 0;
    for (int rounds = 0, i = 0; rounds < 400; ++i) {
      const auto lost_before = weft::test::handoffs();
      const weft::no_preempt whole_turn;
      weft::mutex m;
      weft::condition_variable cv;
      std::atomic<bool> wants{false}, got{false}, waits{false};
      bool refused = false, met = false;
      weft::unique_lock l(m);
      weft::thread next([&] {
        const weft::no_preempt turn;
        wants = true;
        m.lock();
        got = true;
        m.unlock();
      });
      while (!wants) weft::gosched();
      weft::thread other([&] {
        const weft::no_preempt turn;
        while (!waits) weft::gosched();
        const bool free = m.try_lock();
        if (free) m.unlock();
        refused = !free && !got;
        while (!got) weft::gosched();
        const std::lock_guard held(m);
        met = true;
        cv.notify_one();
      });
      for (int n = 0; n < i % 32; ++n) weft::gosched();  // another number of switches each time
      if (i % 2 != 0) {
        weft::go([] {});
        weft::gosched();
      }
      waits = true;
      cv.wait(l, [&] { return met; });
      l.unlock();
      next.join();
      other.join();
      if (weft::test::handoffs() != lost_before) continue;
      kept_from_others += refused ? 1 : 0;
      ++rounds;
    }
    EXPECT_EQ(kept_from_others, 0);
  });
}

TEST_P(Cond, NobodyThere) {
  weft::condition_variable cv;
  cv.notify_one();
  cv.notify_all();
}

// A lock whose unlock() fails: the waiter leaves by that exception, with the lock as it was, and on no list.
struct stubborn_lock {
  weft::mutex m;
  bool stubborn = false;
  void lock() { m.lock(); }
  void unlock() {
    if (std::exchange(stubborn, false)) throw std::runtime_error("stuck");
    m.unlock();
  }
};

TEST_P(Cond, UnlockThrows) {
  run([] {
    weft::condition_variable_any cv;
    stubborn_lock l;
    l.lock();
    l.stubborn = true;
    EXPECT_THROW(cv.wait(l), std::runtime_error);
    EXPECT_FALSE(l.m.try_lock()) << "never unlocked";
    l.stubborn = true;
    EXPECT_THROW(cv.wait_for(l, 1h), std::runtime_error);
    bool waits = false, woken = false;
    weft::thread other([&] {
      l.lock();
      waits = true;
      cv.wait(l);
      woken = true;
      l.unlock();
    });
    l.unlock();
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard held(l);
      return waits;
    }));
    cv.notify_one();  // would go to those who have left, if they were listed
    other.join();
    EXPECT_TRUE(woken);
  });
}

WEFT_OVER_PROCS(Cond);

}  // namespace
