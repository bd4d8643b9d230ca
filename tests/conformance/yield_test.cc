// gosched: everybody else on this P first, and nobody starves. [Y-1], [FR-1] step 6, design.md 2.1.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

class Yield : public weft::test::over_procs {};

// Go: TestYieldProgress. A loop that yields lets another goroutine get its work done.
TEST_P(Yield, LetsOthersProgress) {
  run([] {
    std::atomic<bool> ack{false}, cont{true};
    weft::thread t([&] {
      while (cont) weft::gosched();
      ack = true;
    });
    weft::gosched();
    cont = false;
    // No deadline: that it ends is the test, and the watchdog knows how long is too long.
    while (!ack) weft::gosched();
    t.join();
  });
}

// On a plain thread it is sched_yield.
TEST_P(Yield, OnAPlainThread) {
  for (int i = 0; i < 100; ++i) weft::gosched();
  EXPECT_EQ(weft::runtime::goid(), 0u);
}

// Many more goroutines than fit into a ring: some wait in the global queue, and each gets its turn.
TEST_P(Yield, NobodyStarvesInALongQueue) {
  run([] {
    const int n = weft::test::scaled(2000, 300);
    std::atomic<bool> stop{false};
    std::vector<std::atomic<int>> turns(static_cast<std::size_t>(n));
    weft::wait_group wg;
    for (auto& t : turns) {
      wg.go([&t, &stop] {
        while (!stop) {
          ++t;
          weft::gosched();
        }
      });
    }
    const auto all_had_turns = [&turns] {
      return std::all_of(turns.begin(), turns.end(), [](const auto& t) { return t >= 20; });
    };
    EXPECT_TRUE(weft::test::eventually(all_had_turns));
    stop = true;
    wg.wait();
  });
}

// Two that start each other for ever: always one in runnext. The third one must have its turn.
struct relay {
  std::atomic<bool> stop{false};
  std::atomic<long> legs{0};
  weft::wait_group wg;
  void run_leg() {
    ++legs;
    if (stop) {
      wg.done();
    } else {
      weft::go(&relay::run_leg, this);
    }
  }
};

// A chain of hand-overs is one slice of at most 64 switches, and a goroutine that waits in the ring
// is next when it is over.
TEST_P(Yield, RespawningChainsDoNotStarveTheRing) {
  run([] {
    relay r;
    r.wg.add(1);
    std::atomic<bool> ran{false};
    weft::go([&ran] { ran = true; });
    weft::go(&relay::run_leg, &r);
    while (!ran) weft::gosched();
    r.stop = true;
    r.wg.wait();
  });
}

#ifndef WEFT_CHAOS

constexpr long kLongestSlice = 64;

// Who came when. A yield orders nothing: on one P goroutines cannot collide, but only a lock tells
// the thread sanitizer.
class record {
 public:
  void add(char c) {
    const std::lock_guard<std::mutex> held(m_);
    text_ += c;
  }
  std::string text() {
    const std::lock_guard<std::mutex> held(m_);
    return text_;
  }

 private:
  std::mutex m_;
  std::string text_;
};

// X7. [FR-1] 6: on 1 P a goroutine in the global queue runs within 61 slices.
TEST(YieldOnOneP, RespawningChainsDoNotStarveTheGlobalQueue) {
  const weft::test::watchdog w("RespawningChainsDoNotStarveTheGlobalQueue");
  relay r;
  r.wg.add(1);
  weft::run(
      [&r] {
        std::atomic<long> started{-1}, ran{-1};
        weft::go(&relay::run_leg, &r);
        weft::gosched();
        // A plain thread has no P: what it starts goes through the global queue. We keep the only P
        // until it is there.
        std::atomic<bool> queued{false};
        std::thread plain([&] {
          weft::go([&] { ran = r.legs.load(); });
          queued = true;
        });
        EXPECT_TRUE(weft::test::eventually_hogging([&] { return queued.load(); }));
        started = r.legs.load();
        while (ran < 0 && r.legs - started < 1'000'000) weft::gosched();
        EXPECT_GE(ran, 0) << "starved";
        EXPECT_LE(ran - started, 61 * kLongestSlice + kLongestSlice);
        r.stop = true;
        plain.join();
      },
      {.max_procs = 1});
  r.wg.wait();
  EXPECT_EQ(weft::test::leaks(), "");
}

// "everybody else who is runnable on this P gets a turn first"
TEST(YieldOnOneP, EverybodyElseFirst) {
  weft::run(
      [] {
        constexpr int kOthers = 100;
        std::vector<std::atomic<int>> turns(kOthers);
        std::atomic<bool> stop{false};
        weft::wait_group wg;
        for (auto& t : turns) {
          wg.go([&t, &stop] {
            while (!stop) {
              ++t;
              weft::gosched();
            }
          });
        }
        for (int round = 1; round <= 50; ++round) {
          weft::gosched();
          for (const auto& t : turns) {
            EXPECT_GE(t, round);
            EXPECT_LE(t, round + 1);
          }
        }
        stop = true;
        wg.wait();
      },
      {.max_procs = 1});
}

// They take turns in the order in which they came to the queue.
TEST(YieldOnOneP, RoundRobin) {
  weft::run(
      [] {
        record order;
        weft::wait_group wg;
        for (const char c : {'a', 'b', 'c'}) {
          wg.go([&order, c] {
            for (int i = 0; i < 4; ++i) {
              order.add(c);
              weft::gosched();
            }
          });
        }
        wg.wait();
        EXPECT_EQ(order.text(), "cabcabcabcab");
      },
      {.max_procs = 1});
}

// Woken ones go first: ready puts them into runnext. [PK-5]
TEST(YieldOnOneP, TheWokenRunsNext) {
  weft::run(
      [] {
        record order;
        weft::wait_group gate, end;
        gate.add(1);
        end.go([&] {
          gate.wait();
          order.add('w');
        });
        weft::gosched();
        end.go([&order] { order.add('a'); });
        end.go([&order] { order.add('b'); });
        gate.done();
        weft::gosched();
        EXPECT_EQ(order.text(), "wab");
        end.wait();
      },
      {.max_procs = 1});
}

#endif  // WEFT_CHAOS

WEFT_OVER_PROCS(Yield);

}  // namespace
