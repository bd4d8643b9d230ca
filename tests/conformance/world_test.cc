// Stopping the world and changing the number of Ps, under load. [STW-1], [STW-3], [MP-1], [MP-4]
#include <algorithm>
#include <atomic>
#include <numeric>
#include <sched.h>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/seed.h"

namespace {

using weft::test::budget;

class World : public weft::test::over_procs {};

// Goroutines that count as fast as they can until told to stop.
class load {
 public:
  explicit load(int n) : ticks_(static_cast<std::size_t>(n)) {
    for (auto& t : ticks_) {
      wg_.go([this, &t] {
        while (!stop_.load(std::memory_order_relaxed)) {
          t.fetch_add(1, std::memory_order_relaxed);
          if (t % 7 == 0) weft::thread([] {}).join();
          weft::gosched();
        }
      });
    }
  }
  ~load() {
    stop_ = true;
    wg_.wait();
  }
  long total() const {
    long sum = 0;
    for (const auto& t : ticks_) sum += t.load(std::memory_order_relaxed);
    return sum;
  }
  bool goes_on() const {
    const long before = total();
    return weft::test::eventually([&] { return total() > before; });
  }

 private:
  std::vector<std::atomic<long>> ticks_;
  std::atomic<bool> stop_{false};
  weft::wait_group wg_;
};

// stop_the_world: "f runs while no goroutine does"
long counted_while_stopped(const load& l) {
  return weft::runtime::stop_the_world([&l] {
    const bool robbed = weft::test::somebody_was_robbed();
    const long before = l.total();
    for (int i = 0; i < 200; ++i) sched_yield();
    return robbed ? 0 : l.total() - before;
  });
}

TEST_P(World, NobodyRunsWhileStopped) {
  run([] {
    load l(8);
    for (budget b(100); b.next();) {
      EXPECT_EQ(counted_while_stopped(l), 0);
      EXPECT_TRUE(l.goes_on());
    }
  });
}

TEST_P(World, StoppedByPlainThreads) {
  load l(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&l] {
      for (budget b(50); b.next();) EXPECT_EQ(counted_while_stopped(l), 0);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_TRUE(l.goes_on());
}

TEST_P(World, ReturnsWhatFReturns) {
  run([] {
    int n = 5;
    EXPECT_EQ(weft::runtime::stop_the_world([] { return 7; }), 7);
    int& r = weft::runtime::stop_the_world([&n]() -> int& { return n; });
    EXPECT_EQ(&r, &n);
    EXPECT_THROW(weft::runtime::stop_the_world([] { throw 1; }), int) << "and the world goes on";
    weft::thread([] {}).join();
  });
}

// Who has stopped the world may make a call that blocks, announced or not: that is no scheduling point.
TEST_P(World, FMayMakeBlockingCalls) {
  run([] {
    load l(8);
    for (budget b(20); b.next();) {
      weft::runtime::stop_the_world([] {
        sched_yield();
        weft::runtime::blocking([] { sched_yield(); });
        weft::runtime::blocking_for_long([] { sched_yield(); });
      });
      EXPECT_TRUE(l.goes_on());
    }
  });
}

// Go: TestStopTheWorldDeadlock. Concurrent stoppers beside one that keeps respawning itself.
struct respawner {
  std::atomic<bool> stop{false};
  weft::wait_group wg;
  void live() {
    if (stop) {
      wg.done();
    } else {
      weft::go(&respawner::live, this);
    }
  }
};

TEST_P(World, StoppersDoNotDeadlock) {
  run([this] {
    respawner r;
    r.wg.add(1);
    weft::go(&respawner::live, &r);
    weft::wait_group wg;
    wg.go([this] {
      for (budget b(1000); b.next();) {
        weft::runtime::gomaxprocs(3);
        if (b.round() % 16 == 0) weft::runtime::gomaxprocs(procs());
      }
    });
    wg.go([] {
      for (budget b(1000); b.next();) weft::runtime::stop_the_world([] {});
    });
    wg.wait();
    r.stop = true;
    r.wg.wait();
  });
}

// [MP-1] returns the previous number; 0 and less only ask
TEST_P(World, GomaxprocsReturnsThePrevious) {
  run([this] {
    EXPECT_EQ(weft::runtime::gomaxprocs(), procs());
    EXPECT_EQ(weft::runtime::gomaxprocs(-5), procs());
    EXPECT_EQ(weft::runtime::gomaxprocs(procs()), procs());
    EXPECT_EQ(weft::runtime::gomaxprocs(7), procs());
    EXPECT_EQ(weft::runtime::gomaxprocs(procs()), 7);
    EXPECT_GE(weft::runtime::num_cpu(), 1);
  });
}

// Go: fixedbugs/bug370. [MP-4] up, stop, down: queued goroutines of Ps that go are not lost.
TEST_P(World, UpStopDown) {
  run([] {
    for (budget b(200); b.next();) {
      weft::runtime::gomaxprocs(b.round() % 7 + 2);
      weft::wait_group wg;
      std::atomic<int> n{0};
      for (int k = 0; k < 500; ++k) {
        wg.go([&n] {
          weft::gosched();
          ++n;
        });
      }
      weft::runtime::gomaxprocs(8);
      weft::runtime::stop_the_world([] {});
      weft::runtime::gomaxprocs(1);
      wg.wait();
      ASSERT_EQ(n, 500);
    }
  });
}

// gomaxprocs while everything runs, from goroutines and from a plain thread.
TEST_P(World, GomaxprocsUnderLoad) {
  load l(20);
  std::thread plain([] {
    weft::test::random_source random(1);
    for (budget b(200); b.next();) weft::runtime::gomaxprocs(1 + random.below(16));
  });
  run([&l] {
    weft::test::random_source random(2);
    for (budget b(200); b.next();) {
      weft::runtime::gomaxprocs(1 + random.below(16));
      weft::gosched();
      if (b.round() % 10 == 0) {
        EXPECT_TRUE(l.goes_on());
      }
    }
  });
  plain.join();
  EXPECT_TRUE(l.goes_on());
}

// [MP-1] no upper bound
TEST_P(World, ManyPs) {
  run([] {
    weft::runtime::gomaxprocs(1024);
    weft::wait_group wg;
    std::atomic<int> n{0};
    for (int i = 0; i < 3000; ++i) wg.go([&n] { weft::gosched(), ++n; });
    wg.wait();
    EXPECT_EQ(n, 3000);
    weft::runtime::gomaxprocs(2);
    weft::thread([] {}).join();
  });
}

// A goroutine that has just woken and one that has just been spawned are not lost by a stop.
TEST_P(World, StopsLoseNobody) {
  run([] {
    std::atomic<bool> stop{false};
    weft::wait_group stoppers;
    for (int i = 0; i < 2; ++i) {
      stoppers.go([&stop] {
        while (!stop) {
          weft::runtime::stop_the_world([] {});
          weft::gosched();
        }
      });
    }
    for (budget b(2000); b.next();) {
      int n = 0;
      weft::thread t([&n] {
        weft::gosched();
        n = 1;
      });
      t.join();
      ASSERT_EQ(n, 1);
    }
    stop = true;
    stoppers.wait();
  });
}

// A plain thread does nothing but stop the world, again and again; meanwhile everybody has turns: those who compute, more of
// them than there are Ps, and those who yield, or are started from outside. Looked at from outside, too: a goroutine that
// looks would be one more that yields.
class crowd {
 public:
  crowd(int computing, int yielding) : turns_(static_cast<std::size_t>(computing)) {
    for (auto& t : turns_) {
      wg_.go([this, &t] {
        while (!over_) ++t;
      });
    }
    for (int i = 0; i < yielding; ++i) {
      wg_.go([this] {
        while (!over_) weft::gosched();
      });
    }
  }
  ~crowd() {
    over_ = true;
    wg_.wait();
  }
  bool all_go_on() const {
    const std::vector<long> before(turns_.begin(), turns_.end());
    return weft::test::eventually([&] {
      return std::equal(turns_.begin(), turns_.end(), before.begin(),
                        [](long now, long then) { return now != then; });
    });
  }

 private:
  std::vector<std::atomic<long>> turns_;
  std::atomic<bool> over_{false};
  weft::wait_group wg_;
};

void expect_turns_between_stops(int computing, int yielding, bool injects) {
  std::atomic<bool> over{false};
  std::atomic<int> started{0};
  {
    const crowd all(computing, yielding);
    std::thread stopper([&] {
      while (!over) {
        weft::runtime::stop_the_world([] {});
        if (injects && started < 3) weft::go([&] { ++started; });
      }
    });
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(all.all_go_on()) << i;
    EXPECT_TRUE(weft::test::eventually([&] { return !injects || started >= 3; }));
    over = true;
    stopper.join();
  }
  EXPECT_TRUE(weft::test::eventually([] { return weft::runtime::num_goroutine() == 0; }));
}

TEST_P(World, ThoseWhoComputeHaveTurnsBetweenStops) {
  if (procs() > 4) return;  // more threads than are of use
  weft::runtime::gomaxprocs(procs());
  expect_turns_between_stops(procs() + 1, 0, false);
}
TEST_P(World, SoHasWhoeverIsStartedBetweenStops) {
  if (procs() > 4) return;
  weft::runtime::gomaxprocs(procs());
  expect_turns_between_stops(procs(), 0, true);
}
TEST_P(World, SoHaveThoseWhoComputeBesideOthersWhoYield) {
  if (procs() > 4) return;
  weft::runtime::gomaxprocs(procs());
  expect_turns_between_stops(procs(), 2, false);
}

WEFT_OVER_PROCS(World);

}  // namespace
