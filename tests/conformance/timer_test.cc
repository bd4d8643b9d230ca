// Go's timers: stop, reset and their results, the order in which they come, what can be received when. [T-5] to [T-8], [T-14]
//
// Times are only compared with the clock; nothing relies on how long something takes, but for "not
// early" and "in the end".
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <mutex>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/seed.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::eventually;
using weft::test::scaled;
using clock = weft::clock;

class Timer : public weft::test::over_procs {};

// Whatever was due at t has had its turn, and would have begun to do something.
void wait_past(clock::time_point t) {
  weft::this_thread::sleep_until(t);  // sleep-ok: the subject
  EXPECT_TRUE(weft::after(1ms).recv().has_value());
  for (int i = 0; i < 100; ++i) weft::test::give_way();
}

// 163: stopped before they are due, and watched until they would have come.
TEST_P(Timer, StopPrevents) {
  run([] {
    std::atomic<int> fired{0};
    auto f = weft::after_func(10ms, [&fired] { ++fired; });
    weft::timer c(10ms);
    const auto due = clock::now() + 10ms;
    auto channel = c.c();
    const bool in_time = f.stop();  // unless we were paused for so long
    EXPECT_FALSE(f.stop());
    EXPECT_TRUE(c.stop()) << "a value that nobody has received counts as pending";
    EXPECT_FALSE(c.stop());
    EXPECT_FALSE(channel.try_recv());
    EXPECT_FALSE(f.c());
    wait_past(due);
    EXPECT_FALSE(channel.try_recv());
    EXPECT_TRUE(eventually([&] { return fired == (in_time ? 0 : 1); }));
  });
}

// 164: timers with shuffled delays carry their due times, and none comes before its own. That a due time lies
// between two readings of the clock is all that can be said of it on a machine that may pause us anywhere.
TEST_P(Timer, AfterQueuing) {
  run([] {
    constexpr std::array<int, 7> kSlots = {5, 3, 6, 1, 2, 4, 0};
    struct armed {
      clock::time_point not_before, not_after, got, woken;
    };
    std::array<armed, kSlots.size()> slots;
    weft::wait_group wg;
    for (std::size_t i = 0; i < kSlots.size(); ++i) {
      const auto delay = kSlots[i] * 3ms;
      armed& slot = slots[i];
      slot.not_before = clock::now() + delay;
      auto c = weft::after(delay);
      slot.not_after = clock::now() + delay;
      wg.go([c, &slot] {
        slot.got = *c.recv();
        slot.woken = clock::now();
      });
    }
    wg.wait();
    for (const armed& a : slots) {
      EXPECT_GE(a.got, a.not_before);
      EXPECT_LE(a.got, a.not_after);
      EXPECT_GE(a.woken, a.got);
    }
  });
}

// 164: … and whoever comes due finds that all who were due before have come. With one P, that is: others look after
// their own timers.
TEST_P(Timer, ComeInOrder) {
  run([this] {
    if (procs() > 1) return;
    constexpr std::array<int, 7> kSlots = {5, 3, 6, 1, 2, 4, 0};
    std::array<weft::timer, kSlots.size()> timers;
    std::array<clock::time_point, kSlots.size()> not_before, not_after;
    std::array<bool, kSlots.size()> out_of_order{};
    weft::mutex arming;  // should one come before all are
    weft::wait_group all;
    all.add(static_cast<int>(kSlots.size()));
    arming.lock();
    for (std::size_t i = 0; i < kSlots.size(); ++i) {
      const auto delay = 1ms + kSlots[i] * 2ms;
      not_before[i] = clock::now() + delay;
      timers[i] = weft::after_func(delay, [&, i] {
        const std::lock_guard<weft::mutex> armed(arming);
        for (std::size_t k = 0; k < kSlots.size(); ++k) {
          if (not_after[k] < not_before[i] && timers[k].stop()) {
            out_of_order[i] = true;
            all.done();
          }
        }
        all.done();
      });
      not_after[i] = clock::now() + delay;
    }
    arming.unlock();
    all.wait();
    for (const bool b : out_of_order) EXPECT_FALSE(b);
  });
}

// 165
TEST_P(Timer, StoppedOnesNeverFire) {
  run([] {
    std::atomic<int> fired{0};
    std::vector<weft::timer> timers;
    for (int i = 0; i < 100; ++i) {
      timers.push_back(weft::after_func(20ms + i * 50us, [&fired] { ++fired; }));
    }
    const auto due = clock::now() + 25ms;
    int too_late = 0;  // if we were paused for so long
    for (auto& t : timers) too_late += t.stop() ? 0 : 1;
    wait_past(due);
    EXPECT_TRUE(eventually([&] { return fired >= too_late; }));
    EXPECT_EQ(fired, too_late);
  });
}

// 167
TEST_P(Timer, Reset) {
  run([] {
    weft::timer t(1h);
    EXPECT_TRUE(t.reset(2h));
    EXPECT_FALSE(t.c().try_recv());
    EXPECT_TRUE(t.reset(1us));
    EXPECT_TRUE(t.c().recv().has_value());
    EXPECT_FALSE(t.reset(1us));
    EXPECT_TRUE(t.c().recv().has_value());
    std::atomic<int> calls{0};
    auto f = weft::after_func(1h, [&calls] { ++calls; });
    EXPECT_TRUE(f.reset(1us));
    EXPECT_TRUE(eventually([&] { return calls == 1; }));
    EXPECT_FALSE(f.reset(1us));
    EXPECT_TRUE(eventually([&] { return calls == 2; }));
    EXPECT_FALSE(f.stop());
  });
}

// 172
TEST_P(Timer, ZeroTimers) {
  run([] {
    const int n = scaled(1'000'000, 200);
    for (int i = 0; i < n; ++i) {
      weft::timer t(0s);
      ASSERT_TRUE(t.c().recv().has_value());
    }
    weft::timer again(0s);
    ASSERT_TRUE(again.c().recv().has_value());
    for (int i = 0; i < n; ++i) {
      again.reset(0s);
      ASSERT_TRUE(again.c().recv().has_value());
    }
    weft::wait_group wg;
    for (int i = 0; i < n; ++i) {
      wg.add();
      weft::after_func(0s, [&wg] { wg.done(); });
      if (i % 100 == 0) weft::gosched();
    }
    wg.wait();
  });
}

// 173: stopped and reset to the past, never lost.
TEST_P(Timer, ModifiedEarlier) {
  run([] {
    weft::timer far(1h);
    for (int i = 0; i < scaled(1000, 50); ++i) {
      weft::timer t(1h);
      auto c = t.c();
      t.stop();
      t.reset(-1s);
      bool fired = false;
      weft::select(weft::recv(c, [&](auto) { fired = true; }), weft::timeout(10s, [] {}));
      ASSERT_TRUE(fired);
    }
  });
}

// 174: a random walk over many timers with long and zero resets.
TEST_P(Timer, AdjustTimers) {
  run([] {
    weft::test::random_source random(1);
    std::vector<weft::timer> timers;
    for (int i = 0; i < 100; ++i) timers.emplace_back(1us * random.below(1000));
    for (int step = 0; step < scaled(3000, 300) && !timers.empty(); ++step) {
      const auto i = static_cast<std::size_t>(random.below(static_cast<int>(timers.size())));
      weft::timer& t = timers[i];
      switch (random.below(5)) {
        case 0: t.reset(1h); break;
        case 1: t.reset(0s); break;
        case 2: t.stop(); break;
        case 3: static_cast<void>(t.c().try_recv()); break;
        default: {
          t.reset(1us);
          ASSERT_TRUE(t.c().recv().has_value());
          timers.erase(timers.begin() + static_cast<long>(i));
        }
      }
    }
    while (!timers.empty()) {
      timers.back().reset(0s);
      ASSERT_TRUE(timers.back().c().recv().has_value());
      timers.pop_back();
    }
  });
}

// 175: what stop() says agrees with whether a value can be received.
TEST_P(Timer, StopResult) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < scaled(1000, 50); ++i) {
      wg.go([] {
        weft::timer t(10us);
        auto c = t.c();
        bool received = false, stopped = false;
        weft::wait_group both;
        both.go([&] {
          weft::select(weft::recv(c, [&](auto) { received = true; }), weft::timeout(2ms, [] {}));
        });
        both.go([&] {
          weft::gosched();
          stopped = t.stop();
        });
        both.wait();
        EXPECT_NE(received, stopped) << "received " << received << ", stopped " << stopped;
        EXPECT_FALSE(c.try_recv()) << "a stale value";
      });
    }
    wg.wait();
  });
}

// 175: the same of reset().
TEST_P(Timer, ResetResult) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < scaled(1000, 50); ++i) {
      wg.go([] {
        weft::timer t(10us);
        auto c = t.c();
        bool received = false, pending = false;
        weft::wait_group both;
        both.go([&] {
          weft::select(weft::recv(c, [&](auto) { received = true; }), weft::timeout(2ms, [] {}));
        });
        both.go([&] {
          weft::gosched();
          pending = t.reset(1h);
        });
        both.wait();
        EXPECT_NE(received, pending) << "received " << received << ", pending " << pending;
        EXPECT_FALSE(c.try_recv()) << "a stale value";
        EXPECT_TRUE(t.stop());
      });
    }
    wg.wait();
  });
}

// 176: many on one timer, each of whom arms it again for the next.
TEST_P(Timer, ManyOnOneTimer) {
  run([] {
    constexpr int kReceivers = 8;
    const int rounds = scaled(200, 20);
    weft::timer t(1ns);
    std::atomic<int> received{0};
    weft::wait_group wg;
    for (int i = 0; i < kReceivers; ++i) {
      wg.go([&, c = t.c()] {
        for (int n = 0; n < rounds; ++n) {
          ASSERT_TRUE(c.recv().has_value());
          ++received;
          EXPECT_FALSE(t.reset(1ns)) << "it was received, and nobody else could have armed it";
        }
      });
    }
    wg.wait();
    EXPECT_EQ(received, kReceivers * rounds);
    t.stop();
  });
}

// 182: Go 1.23.
TEST_P(Timer, TimerChannel) {
  run([] {
    weft::timer t(1us);
    auto c = t.c();
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(c.capacity(), 0u);
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    EXPECT_EQ(c.size(), 0u);
    EXPECT_TRUE(t.stop()) << "a value that nobody has received counts as pending";
    EXPECT_FALSE(c.try_recv());
    EXPECT_FALSE(t.reset(1us));
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    EXPECT_TRUE(c.try_recv());
    EXPECT_FALSE(c.try_recv());
    EXPECT_FALSE(t.stop());
    t.reset(1us);
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    EXPECT_TRUE(t.reset(1h));
    EXPECT_FALSE(c.try_recv()) << "a stale value after reset";
    // A receiver is blocked when the time is changed under it.
    weft::thread receiver([c] { EXPECT_TRUE(c.recv().has_value()); });
    weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
    EXPECT_TRUE(t.reset(1us));
    receiver.join();
    EXPECT_FALSE(t.stop());
  });
}

// 182: stopped and reset while somebody waits, which they know nothing of: only what is due reaches him.
TEST_P(Timer, StoppedAndResetBesideAReceiver) {
  run([] {
    for (const bool selects : {false, true}) {
      weft::timer t(1h);
      const auto c = t.c();
      const weft::chan<int> never;
      std::atomic<int> received{0};
      weft::thread receiver([&] {
        if (selects) {
          weft::select(weft::recv(never), weft::recv(c, [&](auto v) { received += v ? 1 : 100; }));
        } else {
          received += c.recv() ? 1 : 100;
        }
      });
      const char* const where = selects ? "select" : "chan receive";
      EXPECT_TRUE(eventually([=] { return weft::test::somebody_waits_in(where); }));
      EXPECT_TRUE(t.stop());
      EXPECT_FALSE(t.stop());
      EXPECT_FALSE(t.reset(1h)) << "it was stopped";
      EXPECT_TRUE(t.reset(2h));
      EXPECT_TRUE(t.stop());
      for (int i = 0; i < 20; ++i) weft::gosched();
      EXPECT_EQ(received, 0);
      EXPECT_FALSE(t.reset(1us));
      receiver.join();
      EXPECT_EQ(received, 1);
      EXPECT_FALSE(c.try_recv());
      EXPECT_FALSE(t.stop()) << "it was received";
    }
  });
}

// 182: two who select on one timer; one of them gets it.
TEST_P(Timer, TwoReceivers) {
  run([] {
    for (int i = 0; i < scaled(200, 20); ++i) {
      weft::timer t(20us);
      weft::chan<int> stop;
      std::atomic<int> got{0}, gone{0};
      weft::wait_group wg;
      for (int k = 0; k < 2; ++k) {
        wg.go([&, c = t.c()] {
          weft::select(weft::recv(c, [&](auto) { ++got; }), weft::recv(stop, [](auto) {}));
          ++gone;
        });
      }
      ASSERT_TRUE(eventually([&] { return gone == 1; }));
      stop.close();
      wg.wait();
      ASSERT_EQ(got, 1);
    }
  });
}

// 183
TEST_P(Timer, ReadLateCarriesTheDueTime) {
  run([] {
    const auto before = clock::now();
    auto c = weft::after(1ms);
    const auto after = clock::now();
    weft::this_thread::sleep_for(10ms);  // sleep-ok: the subject
    const auto t = c.recv();
    EXPECT_GE(*t, before + 1ms);
    EXPECT_LE(*t, after + 1ms);
  });
}

// 185
TEST_P(Timer, ConcurrentStopAndReset) {
  run([] {
    weft::timer t(1h);
    auto f = weft::after_func(1h, [] {});
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 8; ++i) {
      wg.go([&, i] {
        weft::test::random_source random(i);
        for (int k = 0; k < scaled(500, 50); ++k) {
          const auto d = 1us * random.below(20);
          switch (random.below(5)) {
            case 0: t.stop(); break;
            case 1: t.reset(d); break;
            case 2: f.stop(); break;
            case 3: f.reset(d); break;
            default: static_cast<void>(t.c().try_recv()); break;
          }
          if (random.one_in(10)) weft::gosched();
        }
      });
    }
    wg.wait();
    f.stop();
    t.stop();
  });
}

// They spin while another one is at the same timer; on one P nobody could go on who lost it in between.
TEST_P(Timer, ResetIsNotInterrupted) {
  run([] {
    auto f = weft::after_func(1h, [] {});
    const auto end = clock::now() + 200ms;
    weft::wait_group wg;
    for (int i = 0; i < 3; ++i) {
      wg.go([&] {
        while (clock::now() < end) EXPECT_TRUE(f.reset(1h));
      });
    }
    wg.wait();
    EXPECT_TRUE(f.stop());
  });
}

WEFT_OVER_PROCS(Timer);

}  // namespace
