// weft::wait_group. [WG-1], [WG-2]; Go: sync/waitgroup_test.go
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/panic.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/patience.h"
#include "support/waiting.h"

namespace {

class WaitGroup : public weft::test::over_procs {};

// Two groups used as barriers, eight times over.
void barrier(weft::wait_group& one, weft::wait_group& two) {
  constexpr int kGoroutines = 16;
  one.add(kGoroutines);
  two.add(kGoroutines);
  std::atomic<int> passed{0};
  weft::wait_group ended;
  for (int i = 0; i < kGoroutines; ++i) {
    ended.go([&] {
      one.done();
      two.wait();
      ++passed;
    });
  }
  one.wait();
  for (int i = 0; i < kGoroutines; ++i) {
    EXPECT_EQ(passed, 0) << "two is not done";
    two.done();
  }
  ended.wait();
  EXPECT_EQ(passed, kGoroutines);
}

// Go: TestWaitGroup
TEST_P(WaitGroup, BarrierReused) {
  run([] {
    weft::wait_group one, two;
    for (int i = 0; i < 8; ++i) barrier(one, two);
  });
}

// Go: TestWaitGroupMisuse, and nothing has changed afterwards
TEST_P(WaitGroup, NegativeCounter) {
  const auto body = [] {
    weft::wait_group wg;
    wg.add(1);
    wg.done();
    try {
      wg.done();
      ADD_FAILURE() << "should throw";
    } catch (const weft::panic_error& e) {
      EXPECT_STREQ(e.what(), "sync: negative WaitGroup counter");
    }
    wg.wait();
    wg.add(2);
    EXPECT_THROW(wg.add(-3), weft::panic_error);
    wg.add(-2);
    wg.wait();
  };
  run(body);
  body();
}

TEST_P(WaitGroup, NothingToWaitFor) {
  const auto body = [] {
    weft::wait_group wg;
    wg.wait();
    wg.add(0);
    wg.wait();
  };
  run(body);
  body();
}

// Go: TestWaitGroupRace. It may be destroyed as soon as wait() has returned; no early wake-up.
TEST_P(WaitGroup, DestroyedRightAfterWait) {
  run([] {
    for (int i = 0; i < weft::test::scaled(1000, 50); ++i) {
      auto wg = std::make_unique<weft::wait_group>();
      auto n = std::make_unique<std::atomic<int>>(0);
      weft::wait_group* group = wg.get();
      for (int k = 0; k < 2; ++k) {
        wg->add(1);
        weft::go([n = n.get(), group] {
          ++*n;
          group->done();
        });
      }
      wg->wait();
      ASSERT_EQ(*n, 2) << "spurious wake-up";
      wg.reset();
    }
  });
}

// Go: TestWaitGroupGo. [WG-2]
TEST_P(WaitGroup, GoRunsAndCounts) {
  run([] {
    weft::wait_group wg;
    int n = 0;
    wg.go([&n] { n = 1; });
    wg.wait();
    EXPECT_EQ(n, 1);
    wg.go([&n, p = std::make_unique<int>(2)] { n = *p; });
    wg.wait();
    EXPECT_EQ(n, 2);
  });
}

// Several waiters, goroutines and plain threads; each returns once, and sees what was done before.
TEST_P(WaitGroup, ManyWaiters) {
  run([] {
    weft::wait_group gate, ended;
    int written = 0;
    std::atomic<int> returned{0};
    gate.add(1);
    for (int i = 0; i < 50; ++i) {
      ended.go([&] {
        gate.wait();
        EXPECT_EQ(written, 7);
        ++returned;
      });
    }
    std::vector<std::thread> plain;
    for (int i = 0; i < 4; ++i) {
      plain.emplace_back([&] {
        gate.wait();
        EXPECT_EQ(written, 7);
        ++returned;
      });
    }
    for (int i = 0; i < 10; ++i) weft::gosched();
    EXPECT_EQ(returned, 0);
    written = 7;
    gate.done();
    ended.wait();
    for (auto& t : plain) t.join();
    EXPECT_EQ(returned, 54);
  });
}

// add() while others wait is fine as long as the counter is not zero.
TEST_P(WaitGroup, GrowsWhileWaitedFor) {
  run([] {
    weft::wait_group wg;
    std::atomic<int> leaves{0};
    // A binary tree, each node counted by its parent.
    struct tree {
      weft::wait_group& wg;
      std::atomic<int>& leaves;
      void grow(int depth) {
        if (depth == 0) {
          ++leaves;
        } else {
          wg.go([this, depth] { grow(depth - 1); });
          wg.go([this, depth] { grow(depth - 1); });
        }
      }
    } t{wg, leaves};
    wg.go([&t] { t.grow(9); });
    wg.wait();
    EXPECT_EQ(leaves, 512);
  });
}

// Everybody but the last one may be a plain thread, or everybody.
TEST_P(WaitGroup, DoneByPlainThreads) {
  for (int round = 0; round < 20; ++round) {
    weft::wait_group wg;
    wg.add(8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&wg] { wg.done(); });
    run([&wg] { wg.wait(); });
    for (auto& t : threads) t.join();
  }
}

// What the callable owns is gone when wait() returns: it may refer to what the waiter owns.
TEST_P(WaitGroup, GoDestroysTheCallableBeforeDone) {
  struct witness {
    std::atomic<int>* gone;
    explicit witness(std::atomic<int>* g) : gone(g) {}
    witness(witness&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
    ~witness() {
      if (gone != nullptr) gone->fetch_add(1);
    }
    void operator()() const {}
  };
  run([] {
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> gone{0};
      weft::wait_group wg;
      for (int i = 0; i < 4; ++i) wg.go(witness(&gone));
      wg.wait();
      ASSERT_EQ(gone, 4);
    }
  });
}

TEST_P(WaitGroup, WithALimit) {
  const auto body = [] {
    using namespace std::chrono_literals;
    weft::wait_group wg;
    EXPECT_TRUE(wg.wait_for(0ms));
    wg.add(1);
    EXPECT_FALSE(wg.wait_for(1ms));
    EXPECT_FALSE(wg.wait_until(std::chrono::steady_clock::now() - 1s));
    EXPECT_FALSE(wg.wait_until(std::chrono::system_clock::now() + 1ms));
    weft::go([&wg] { wg.done(); });
    EXPECT_TRUE(wg.wait_for(1h));
  };
  run(body);
  body();
}

// Limits that end about when the counter becomes zero; afterwards it is destroyed.
TEST_P(WaitGroup, LimitsBesideTheEnd) {
  run([] {
    for (weft::test::budget b(300); b.next();) {
      auto group = std::make_unique<weft::wait_group>();
      group->add(2);
      std::atomic<int> in_time{0}, late{0};
      weft::wait_group ended;
      for (int i = 0; i < 6; ++i) {
        ended.go(
            [&, i] { (group->wait_for(std::chrono::microseconds(7 * i)) ? in_time : late)++; });
      }
      ended.go([&] { group->done(); });
      ended.go([&] { group->done(); });
      group->wait();
      ended.wait();
      ASSERT_EQ(in_time + late, 6);
      group.reset();
    }
  });
}

// Go: "WaitGroup is reused before previous Wait has returned", a panic. Here whoever waits is let go by
// the step that makes the counter zero: what is added afterwards is the next round, for others.
TEST_P(WaitGroup, ReusedBeforeWaitHasReturned) {
  const bool one_p = procs() == 1;
  run([one_p] {
    constexpr int kWaiters = 4;
    for (weft::test::budget b(300); b.next();) {
      weft::wait_group group, ended;
      group.add(1);
      std::atomic<int> waiting{0}, returned{0};
      for (int i = 0; i < kWaiters; ++i) {
        ended.go([&, i] {
          ++waiting;
          if (i % 2 == 0) {
            group.wait();
          } else {
            EXPECT_TRUE(group.wait_for(std::chrono::hours(1)));
          }
          ++returned;
        });
      }
      // With one P whoever is called waiting has parked by the time that we run. (Saying so is not enough: it may have
      // been preempted before it waits.)
      ASSERT_TRUE(weft::test::eventually([&] {
        return waiting == kWaiters && (!one_p || weft::test::waiting_goroutines() >= kWaiters);
      }));
      group.done();
      group.add(1);  // the next round, while those of the first are on their way
      std::atomic<bool> over{false};
      ended.go([&] {
        group.wait();
        EXPECT_TRUE(over);
      });
      // With several Ps some may come late, and wait for both.
      ASSERT_TRUE(weft::test::eventually([&] { return returned == kWaiters || !one_p; }));
      over = true;
      group.done();
      ended.wait();
      ASSERT_EQ(returned, kWaiters);
    }
  });
}

// Go: "Add called concurrently with Wait", a panic. Here wait() finds zero and returns, or finds what was
// added and waits for it; either way what is done() is seen.
TEST_P(WaitGroup, AddedFromZeroBesideWait) {
  run([] {
    for (weft::test::budget b(300); b.next();) {
      weft::wait_group group, ended;
      std::atomic<int> added{0}, done{0};
      for (int i = 0; i < 3; ++i) {
        ended.go([&] {
          group.add(1);
          ++added;
          weft::gosched();
          ++done;
          group.done();
        });
        ended.go([&] {
          const int before = done;
          group.wait();
          EXPECT_GE(done, before);
        });
      }
      ended.wait();
      group.wait();
      ASSERT_EQ(done, added);
    }
  });
}

// It is a constant: usable in static initialisers, before everything.
constinit weft::wait_group constant;

TEST_P(WaitGroup, ConstantInitialised) {
  run([] {
    constant.go([] {});
    constant.wait();
  });
}

// How many are on its lists: nobody may come to an object that another one destroys, so the test has to
// know that all are there. (The second word's lower half, but for the lock bit: src/sync/wait_group_core.h.)
int listed(unsigned char* place) {
  auto& word = reinterpret_cast<std::uint64_t*>(place)[1];
  return static_cast<int>(std::atomic_ref(word).load() & 0x7fffffff);
}

// The one destroys it while the limit of the others comes. They must not look at it again: what is there now
// would be a bit that is held for ever.
TEST_P(WaitGroup, DestroyedBesideLimits) {
  constexpr int kHurried = 3;
  run([] {
    alignas(weft::wait_group) unsigned char place[sizeof(weft::wait_group)];
    for (int round = 0; round < weft::test::scaled(5000, 200); ++round) {
      auto* wg = new (place) weft::wait_group;
      wg->add(1);
      auto [ctx, cancel] = weft::with_cancel(weft::context::background());
      weft::wait_group all;
      all.go([&] {
        wg->wait();
        wg->~wait_group();
        std::memset(place, 0xff, sizeof place);
      });
      for (int i = 0; i < kHurried; ++i) {
        all.go([&, limit = ctx] { wg->wait(limit); });
      }
      while (listed(place) <= kHurried) weft::gosched();
      std::atomic<int> ready{0};
      all.go([&, now = cancel] {
        for (++ready; ready < 2;) weft::gosched();
        now();
      });
      for (++ready; ready < 2;) weft::gosched();
      const auto later =
          std::chrono::steady_clock::now() + std::chrono::nanoseconds(round % 64 * 50);
      while (std::chrono::steady_clock::now() < later) {
      }
      wg->done();
      all.wait();
      for (const unsigned char byte : place) ASSERT_EQ(byte, 0xff) << "in round " << round;
    }
  });
}

WEFT_OVER_PROCS(WaitGroup);

}  // namespace
