// gosched on one P: who comes after whom. [Y-1], [PK-5], [FR-1] step 6, design.md 2.1.
//
// Without sysmon, who would preempt a goroutine that the machine has paused for long; chaos makes its own order.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "os/test_hooks.h"
#include "support/fixture.h"
#include "support/relay.h"

namespace {

#ifndef WEFT_CHAOS

constexpr long kLongestSlice = 64;

class YieldOnOneP : public weft::test::runtime_test {
 protected:
  static void SetUpTestSuite() { weft::rt::os::test_hooks.no_sysmon.set(1); }
};

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

// X7. [FR-1] 6: on 1 P a goroutine in the global queue runs within 61 slices; and a long one, of those who
// hand over to each other, is interrupted for it.
TEST_F(YieldOnOneP, RespawningChainsDoNotStarveTheGlobalQueue) {
  weft::test::relay r;
  r.wg.add(1);
  weft::run(
      [&r] {
        std::atomic<long> started{-1}, ran{-1};
        weft::go(&weft::test::relay::run_leg, &r);
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
        EXPECT_LE(ran - started, 2 * kLongestSlice);
        r.stop = true;
        plain.join();
      },
      {.max_procs = 1});
  r.wg.wait();
  EXPECT_EQ(weft::test::leaks(), "");
}

// "everybody else who is runnable on this P gets a turn first"
TEST_F(YieldOnOneP, EverybodyElseFirst) {
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
TEST_F(YieldOnOneP, RoundRobin) {
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
TEST_F(YieldOnOneP, TheWokenRunsNext) {
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

// [L-2]: the newest child runs next on this P, the others in the order in which they came, and the creator keeps running.
// But for the two rules that keep chains from starving others: every so many switches the queue, or the global queue,
// comes first; in so few rounds each of them at most once.
TEST_F(YieldOnOneP, TheNewestChildComesFirst) {
  constexpr int kRounds = 6;
  int in_order = 0;
  weft::run(
      [&in_order] {
        for (int round = 0; round < kRounds; ++round) {
          record order;
          weft::wait_group end;
          for (const char c : {'a', 'b', 'c', 'd', 'e'}) {
            end.go([&order, c] { order.add(c); });
          }
          EXPECT_EQ(order.text(), "");
          weft::gosched();
          in_order += order.text() == "eabcd" ? 1 : 0;
          end.wait();
          EXPECT_EQ(order.text().size(), 5u);
        }
      },
      {.max_procs = 1});
  EXPECT_GE(in_order, kRounds - 2);
}

#endif  // WEFT_CHAOS

}  // namespace
