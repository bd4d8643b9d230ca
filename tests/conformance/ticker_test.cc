// Go's tickers: their phase, who misses ticks, and what can be received when. [T-14]
//
// A tick carries the time at which it was due, whenever it is received: those times are exact, and all that is
// asserted of a machine that may pause us anywhere.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::eventually;
using weft::test::scaled;
using clock = weft::clock;

class Ticker : public weft::test::over_procs {};

// Ticks are whole periods apart, and at least one.
void expect_phase(weft::recv_chan<clock::time_point> c, clock::duration period, int ticks,
                  clock::time_point not_before) {
  clock::time_point last;
  for (int i = 0; i < ticks; ++i) {
    const auto t = c.recv();
    ASSERT_TRUE(t.has_value());
    EXPECT_LE(*t, clock::now());
    if (i == 0) {
      EXPECT_GE(*t, not_before + period);
    } else {
      EXPECT_GE(*t - last, period);
      EXPECT_EQ((*t - last) % period, 0ns);
    }
    last = *t;
  }
}

// 177
TEST_P(Ticker, PeriodResetAndStop) {
  run([] {
    auto start = clock::now();
    weft::ticker k(2ms);
    expect_phase(k.c(), 2ms, 5, start);
    EXPECT_GE(clock::now() - start, 10ms);
    start = clock::now();
    k.reset(4ms);
    expect_phase(k.c(), 4ms, 4, start);
    EXPECT_GE(clock::now() - start, 16ms);
    k.stop();
    weft::this_thread::sleep_for(12ms);  // sleep-ok: the subject, three periods
    EXPECT_FALSE(k.c().try_recv()) << "stopped";
    k.reset(1h);
    EXPECT_FALSE(k.c().try_recv());
    k.reset(1us);
    EXPECT_TRUE(k.c().recv().has_value());
  });
}

// Long enough for a slow tool to keep up with.
clock::duration usual_period() { return weft::test::slowness() > 1 ? 20ms : 5ms; }

// 162. Ten ticks take ten periods, never less; a busy machine may make it any number, but not every time, as a ticker would that
// leaves ticks out.
TEST_P(Ticker, TenTicks) {
  run([] {
    const auto in_bounds = [] {
      const auto period = usual_period();
      const auto start = clock::now();
      const auto c = weft::tick(period);
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(c.recv().has_value());
      const auto took = clock::now() - start;
      EXPECT_GE(took, 10 * period);
      return took <= 30 * period;
    };
    EXPECT_TRUE(eventually(in_bounds)) << "ten ticks took thirty periods, again and again";
  });
}

// 177. The same of one that is reset to twice its period, more closely.
TEST_P(Ticker, TicksBeforeAndAfterReset) {
  run([] {
    const auto in_bounds = [] {
      const auto period = usual_period();
      const auto start = clock::now();
      weft::ticker k(period);
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(k.c().recv().has_value());
      k.reset(2 * period);
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(k.c().recv().has_value());
      const auto took = clock::now() - start, due = 15 * period;
      k.stop();
      EXPECT_GE(took, due);
      return took <= due + due * 3 / 10;
    };
    EXPECT_TRUE(eventually(in_bounds)) << "never within 30 % of what ten ticks take";
  });
}

// 170: a period beyond all times. Those of others come all the same.
TEST_P(Ticker, PeriodThatOverflows) {
  run([] {
    weft::ticker never(std::chrono::nanoseconds::max());
    weft::ticker soon(1us);
    std::atomic<bool> came{false};
    weft::thread waits([&came, c = never.c()] { came = c.recv().has_value(); });
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(soon.c().recv().has_value());
    EXPECT_TRUE(weft::after(5ms).recv().has_value());
    soon.reset(std::chrono::hours::max());
    EXPECT_FALSE(soon.c().try_recv());
    EXPECT_TRUE(weft::after(5ms).recv().has_value());
    EXPECT_FALSE(soon.c().try_recv());
    EXPECT_FALSE(came);
    never.reset(1us);
    waits.join();
    EXPECT_TRUE(came);
    EXPECT_TRUE(never.c().recv().has_value());
  });
}

TEST_P(Ticker, SlowReceiversMissTicks) {
  run([] {
    weft::ticker k(500us);
    auto c = k.c();
    weft::this_thread::sleep_for(5ms);  // sleep-ok: the subject
    const auto late = clock::now();
    const auto first = c.try_recv();
    ASSERT_TRUE(first);
    int n = 1;
    while (c.try_recv()) ++n;
    // One for all that were missed, one that may come due at once, and those of a pause in the loop.
    EXPECT_LE(n, 2 + (clock::now() - late) / 500us);
    const auto a = c.recv(), b = c.recv();
    EXPECT_EQ((*a - *first) % 500us, 0us) << "the phase is lost with what was missed";
    EXPECT_EQ((*b - *a) % 500us, 0us) << "the phase is lost";
  });
}

// 176
TEST_P(Ticker, ManyReceivers) {
  run([] {
    weft::ticker k(50us);
    std::atomic<int> ticks{0};
    weft::wait_group wg;
    for (int i = 0; i < 10; ++i) {
      wg.go([&, c = k.c()] {
        for (int n = 0; n < 5; ++n) {
          ASSERT_TRUE(c.recv().has_value());
          ++ticks;
        }
      });
    }
    for (int i = 0; i < 10; ++i) {
      k.reset(40us + i * 1us);
      weft::gosched();
    }
    wg.wait();
    EXPECT_EQ(ticks, 50);
  });
}

// 160. A tick of 1 ns is always due; for one of 100 us its receivers wait, and the world stops meanwhile.
TEST_P(Ticker, UnderStoppedWorlds) {
  run([] {
    weft::ticker k(1ns);
    for (int i = 0; i < 20; ++i) {
      weft::runtime::stop_the_world([] {});
      ASSERT_TRUE(k.c().recv().has_value());
    }
    // … and ten of them, each with a receiver of its own.
    constexpr int kTickers = 10;
    std::atomic<int> left{kTickers};
    weft::wait_group wg;
    for (int i = 0; i < kTickers; ++i) {
      wg.go([&left, i] {
        weft::ticker mine(i % 2 == 0 ? std::chrono::nanoseconds(1) : 100us);
        for (int n = 0; n < 20; ++n) ASSERT_TRUE(mine.c().recv().has_value());
        --left;
      });
    }
    while (left != 0) {
      weft::runtime::stop_the_world([] {});
      weft::gosched();
    }
    wg.wait();
  });
}

// 160, the concurrent half: ten receivers share one ticker of 1 ns. Every one of them gets its ticks, though each tick is
// for one of them only, and none is from before the one that the same receiver had last.
TEST_P(Ticker, ManyReceiversUnderStoppedWorlds) {
  run([] {
    constexpr int kReceivers = 10;
    weft::ticker k(1ns);
    std::atomic<bool> over{false};
    std::atomic<int> served{0};
    weft::wait_group wg;
    for (int i = 0; i < kReceivers; ++i) {
      wg.go([&over, &served, c = k.c()] {
        clock::time_point last = clock::time_point::min();
        for (int n = 0; !over || n < 20; ++n) {
          const auto t = c.recv();
          ASSERT_TRUE(t.has_value());
          EXPECT_GT(*t, last);
          last = *t;
          if (n == 0) ++served;
        }
      });
    }
    for (weft::test::budget b(50); b.next() || served != kReceivers;) {
      weft::runtime::stop_the_world([] {});
      weft::gosched();
    }
    over = true;
    wg.wait();
    k.stop();
    EXPECT_FALSE(k.c().try_recv()) << "stopped";
  });
}

// 182: no value from before a stop or a reset, whether somebody waits or not; no buffer to be seen.
TEST_P(Ticker, Channel) {
  run([] {
    weft::ticker k(1us);
    auto c = k.c();
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(c.capacity(), 0u);
    EXPECT_TRUE(c.try_recv()) << "the first is due";
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    k.reset(1h);
    EXPECT_FALSE(c.try_recv()) << "a stale tick after reset";
    k.reset(1us);
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    k.stop();
    EXPECT_FALSE(c.try_recv()) << "a stale tick after stop";
    k.stop();
    k.reset(1us);
    EXPECT_TRUE(c.recv().has_value());
    k.stop();
    // Somebody waits while it is stopped, and is served when it goes on.
    std::atomic<bool> received{false};
    weft::thread receiver([c, &received] { received = c.recv().has_value(); });
    k.reset(1h);
    k.stop();
    for (int i = 0; i < 20; ++i) weft::gosched();
    EXPECT_FALSE(received);
    k.reset(1us);
    receiver.join();
    EXPECT_TRUE(received);
  });
}

// 182: a tick is for one of those who wait, and the next one for the other.
TEST_P(Ticker, TwoReceivers) {
  run([] {
    weft::ticker k(1h);
    weft::chan<int> stop;
    std::atomic<int> got{0};
    weft::wait_group wg;
    for (int i = 0; i < 2; ++i) {
      wg.go([&, c = k.c()] {
        weft::select(weft::recv(c, [&](auto) { ++got; }), weft::recv(stop, [](auto) {}));
      });
    }
    for (int i = 0; i < 20; ++i) weft::gosched();
    EXPECT_EQ(got, 0);
    k.reset(1us);
    EXPECT_TRUE(eventually([&] { return got == 2; }));
    stop.close();
    wg.wait();
  });
}

// 183: whoever reads late reads when it was due.
TEST_P(Ticker, ReadLateCarriesTheDueTime) {
  run([] {
    const auto before = clock::now();
    weft::ticker k(1ms);
    const auto after = clock::now();
    weft::this_thread::sleep_for(10ms);  // sleep-ok: the subject
    const auto first = k.c().recv();
    EXPECT_GE(*first, before + 1ms);
    EXPECT_LE(*first, after + 1ms);
    const auto second = k.c().recv();
    EXPECT_GE(*second, before + 10ms) << "the others were missed";
  });
}

WEFT_OVER_PROCS(Ticker);

}  // namespace
