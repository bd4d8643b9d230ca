// weft::shared_mutex. [RW-1], [RW-2]; Go: sync/rwmutex_test.go
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <weft/condition_variable.h>
#include <weft/shared_mutex.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually;
using weft::test::parked_goroutines;
using weft::test::scaled;

class SharedMutex : public weft::test::over_procs {};

// Go: TestParallelReaders
TEST_P(SharedMutex, ReadersInParallel) {
  run([] {
    weft::shared_mutex m;
    weft::wait_group in, out;
    constexpr int kReaders = 10;
    in.add(kReaders);
    weft::wait_group ended;
    out.add(1);
    for (int i = 0; i < kReaders; ++i) {
      ended.go([&] {
        const weft::shared_lock held(m);
        in.done();
        out.wait();
      });
    }
    in.wait();  // all at once inside
    out.done();
    ended.wait();
  });
}

// Go: HammerRWMutex
TEST_P(SharedMutex, Exclusion) {
  run([] {
    weft::shared_mutex m;
    std::atomic<int> activity{0};
    const int rounds = scaled(1000, 50);
    weft::wait_group wg;
    for (int i = 0; i < 8; ++i) {
      wg.go([&, writer = i % 4 == 0] {
        for (int k = 0; k < rounds; ++k) {
          if (writer) {
            m.lock();
            ASSERT_EQ(activity.fetch_add(10000), 0);
            if (k % 16 == 0) weft::gosched();
            activity.fetch_sub(10000);
            m.unlock();
          } else {
            m.lock_shared();
            const int n = activity.fetch_add(1);
            ASSERT_TRUE(n >= 0 && n < 10000);
            if (k % 16 == 0) weft::gosched();
            activity.fetch_sub(1);
            m.unlock_shared();
          }
        }
      });
    }
    wg.wait();
  });
}

// Go: TestRWMutex, the part on TryLock
TEST_P(SharedMutex, Trying) {
  const auto body = [] {
    weft::shared_mutex m;
    m.lock();
    EXPECT_FALSE(m.try_lock());
    EXPECT_FALSE(m.try_lock_shared());
    m.unlock();
    EXPECT_TRUE(m.try_lock());
    m.unlock();
    m.lock_shared();
    EXPECT_TRUE(m.try_lock_shared());
    EXPECT_FALSE(m.try_lock());
    m.unlock_shared();
    m.unlock_shared();
  };
  run(body);
  body();
}

// [RW-2] A writer that waits keeps new readers out, and those go before the next writer.
TEST_P(SharedMutex, WritersArePreferred) {
  run([] {
    weft::shared_mutex m;
    std::vector<char> order;
    weft::mutex order_lock;
    const auto note = [&](char c) {
      const std::lock_guard held(order_lock);
      order.push_back(c);
    };
    weft::wait_group wg;
    m.lock_shared();
    wg.go([&] {
      m.lock();
      note('W');
      weft::gosched();
      m.unlock();
    });
    ASSERT_TRUE(eventually([&] {
      if (!m.try_lock_shared()) return true;
      m.unlock_shared();
      return false;
    })) << "new readers are kept out";
    for (int i = 0; i < 3; ++i) {
      wg.go([&] {
        m.lock_shared();
        note('r');
        m.unlock_shared();
      });
    }
    for (int i = 0; i < 10; ++i) weft::gosched();
    m.unlock_shared();
    wg.wait();
    EXPECT_EQ(order.front(), 'W');
    EXPECT_EQ(order.size(), 4u);
  });
}

// [RW-2] The second half: a writer that leaves lets in all readers who have come meanwhile, those who came before the
// next writer and those who came after him.
TEST_P(SharedMutex, ReadersGoBeforeTheNextWriter) {
  run([] {
    weft::shared_mutex m;
    std::string order;
    weft::mutex order_lock;
    const auto note = [&](char c) {
      const std::lock_guard held(order_lock);
      order += c;
    };
    weft::wait_group wg;
    // Returns when he waits, so that all of them come in the order of these calls.
    const auto others = parked_goroutines();
    std::uint64_t waiting = 0;
    const auto enters = [&](auto f) {
      wg.go(f);
      ++waiting;
      EXPECT_TRUE(eventually([&] { return parked_goroutines() >= others + waiting; }));
    };
    const auto read = [&] {
      m.lock_shared();
      note('r');
      m.unlock_shared();
    };
    const auto write = [&] {
      m.lock();
      note('W');
      m.unlock();
    };
    m.lock_shared();
    std::atomic<bool> inside{false}, go_on{false};
    enters([&] {
      m.lock();
      note('V');
      inside = true;
      EXPECT_TRUE(eventually([&] { return go_on.load(); }));
      m.unlock();
    });
    enters(read);
    enters(write);
    enters(read);
    m.unlock_shared();
    EXPECT_TRUE(eventually([&] { return inside.load(); }));
    --waiting;
    enters(write);
    enters(read);  // while one writer is inside, and two wait
    go_on = true;
    wg.wait();
    EXPECT_EQ(order, "VrrrWW");
  });
}

TEST_P(SharedMutex, Limits) {
  run([] {
    weft::shared_timed_mutex m;
    m.lock_shared();
    EXPECT_FALSE(m.try_lock_for(1ms));
    EXPECT_TRUE(m.try_lock_shared_for(1ms)) << "the writer has given up";
    m.unlock_shared();
    EXPECT_FALSE(m.try_lock_until(std::chrono::system_clock::now() + 1ms));
    m.unlock_shared();
    m.lock();
    EXPECT_FALSE(m.try_lock_shared_for(1ms));
    EXPECT_FALSE(m.try_lock_shared_until(std::chrono::steady_clock::now() + 1ms));
    m.unlock();
    EXPECT_TRUE(m.try_lock_for(0ms));
    weft::go([&m] { m.unlock(); });
    EXPECT_TRUE(m.try_lock_shared_for(1h));
    m.unlock_shared();
  });
}

// A writer that gives up lets in the readers who waited behind it, although another one still reads.
TEST_P(SharedMutex, GivingUpLetsReadersIn) {
  run([] {
    weft::shared_timed_mutex m;
    m.lock_shared();
    weft::wait_group wg;
    std::atomic<bool> in{false};
    wg.go([&] { EXPECT_FALSE(m.try_lock_for(5ms)); });
    wg.go([&] {
      m.lock_shared();
      in = true;
      m.unlock_shared();
    });
    EXPECT_TRUE(eventually([&] { return in.load(); }));
    wg.wait();
    m.unlock_shared();
  });
}

TEST_P(SharedMutex, LimitsUnderLoad) {
  run([] {
    weft::shared_timed_mutex m;
    long value = 0;
    std::atomic<long> written{0};
    weft::wait_group wg;
    const int rounds = scaled(300, 20);
    for (int i = 0; i < 8; ++i) {
      wg.go([&, i] {
        for (int k = 0; k < rounds; ++k) {
          const auto limit = std::chrono::microseconds((i * 7 + k) % 40);
          if (i % 2 == 0) {
            if (!m.try_lock_for(limit)) continue;
            ++value;
            ++written;
            weft::gosched();
            m.unlock();
          } else if (m.try_lock_shared_for(limit)) {
            const long seen = value;
            weft::gosched();
            ASSERT_EQ(seen, value);
            m.unlock_shared();
          }
        }
      });
    }
    wg.wait();
    EXPECT_EQ(value, written);
  });
}

TEST_P(SharedMutex, BetweenGoroutinesAndThreads) {
  weft::shared_mutex m;
  long n = 0;
  const int rounds = scaled(1000, 50);
  const auto work = [&] {
    for (int k = 0; k < rounds; ++k) {
      if (k % 2 == 0) {
        const std::lock_guard held(m);
        ++n;
      } else {
        const weft::shared_lock held(m);
        ASSERT_GE(n, 0);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(work);
  run([&] {
    weft::wait_group wg;
    for (int i = 0; i < 4; ++i) wg.go(work);
    wg.wait();
  });
  for (auto& t : threads) t.join();
  EXPECT_EQ(n, 6L * (rounds / 2));
}

TEST_P(SharedMutex, DestroyedByTheLastReader) {
  run([] {
    for (int i = 0; i < scaled(1000, 50); ++i) {
      auto m = std::make_unique<weft::shared_mutex>();
      m->lock();
      weft::wait_group wg;
      wg.go([&m] {
        m->lock_shared();
        m->unlock_shared();
        m.reset();
      });
      weft::shared_mutex* p = m.get();
      weft::gosched();
      p->unlock();
      wg.wait();
    }
  });
}

// With std::condition_variable_any's shape: Go's TestRLocker.
TEST_P(SharedMutex, WithAConditionVariable) {
  run([] {
    weft::shared_mutex m;
    weft::condition_variable_any cv;
    bool ready = false;
    weft::wait_group wg;
    for (int i = 0; i < 5; ++i) {
      wg.go([&] {
        weft::shared_lock l(m);
        cv.wait(l, [&] { return ready; });
      });
    }
    weft::gosched();
    {
      const std::lock_guard held(m);
      ready = true;
    }
    cv.notify_all();
    wg.wait();
  });
}

WEFT_OVER_PROCS(SharedMutex);

}  // namespace
