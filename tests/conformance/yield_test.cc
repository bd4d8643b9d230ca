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
#include "support/relay.h"

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

// A chain of hand-overs is one slice of at most 64 switches, and a goroutine that waits in the ring
// is next when it is over.
TEST_P(Yield, RespawningChainsDoNotStarveTheRing) {
  run([] {
    weft::test::relay r;
    r.wg.add(1);
    std::atomic<bool> ran{false};
    weft::go([&ran] { ran = true; });
    weft::go(&weft::test::relay::run_leg, &r);
    while (!ran) weft::gosched();
    r.stop = true;
    r.wg.wait();
  });
}

WEFT_OVER_PROCS(Yield);

}  // namespace
