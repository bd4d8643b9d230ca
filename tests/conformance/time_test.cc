// Go's package time over goroutines: sleep, timers, after_func; tickers are in ticker_test.cc. [T-11] to [T-14]
//
// Times are only compared with the clock; nothing relies on how long something takes, but for "not
// early" and "in the end".
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/panic.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/seed.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::eventually;
using weft::test::scaled;
using clock = weft::clock;

class Time : public weft::test::over_procs {};

// Whatever was due at t has had its turn, and would have begun to do something.
void wait_past(clock::time_point t) {
  weft::this_thread::sleep_until(t);  // sleep-ok: the subject
  EXPECT_TRUE(weft::after(1ms).recv().has_value());
  for (int i = 0; i < 100; ++i) weft::test::give_way();
}

// 158, 166, 168
TEST_P(Time, SleepIsNotEarly) {
  auto check = [] {
    for (const auto d : {1us, 100us, 3000us}) {
      const auto t = clock::now();
      weft::this_thread::sleep_for(d);  // sleep-ok: the subject
      EXPECT_GE(clock::now() - t, d);
      const auto until = clock::now() + d;
      weft::this_thread::sleep_until(until);  // sleep-ok: the subject
      EXPECT_GE(clock::now(), until);
      const auto wall = std::chrono::system_clock::now() + d;
      weft::this_thread::sleep_until(wall);  // sleep-ok: the subject
      EXPECT_GE(std::chrono::system_clock::now(), wall);
    }
    weft::this_thread::sleep_for(0s);                          // sleep-ok: the subject
    weft::this_thread::sleep_for(-1h);                         // sleep-ok: the subject
    weft::this_thread::sleep_for(std::chrono::hours::min());   // sleep-ok: the subject
    weft::this_thread::sleep_for(0.0001s);                     // sleep-ok: the subject
    weft::this_thread::sleep_until(clock::time_point::min());  // sleep-ok: the subject
  };
  run(check);
  check();
}

// 158: signals do not make it shorter, whoever sleeps.
TEST_P(Time, SleepIsInterruptedBySignals) {
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = [](int) {};  // without SA_RESTART
  ASSERT_EQ(sigaction(SIGUSR1, &ignore, &before), 0);
  std::atomic<bool> stop{false};
  const pthread_t sleeper = pthread_self();
  std::thread storm([&stop, sleeper] {
    while (!stop) {
      kill(getpid(), SIGUSR1);
      pthread_kill(sleeper, SIGUSR1);
      std::this_thread::sleep_for(200us);  // sleep-ok: between signals, not for anything
    }
  });
  const auto check = [] {
    const auto t = clock::now();
    weft::this_thread::sleep_for(10ms);  // sleep-ok: the subject
    EXPECT_GE(clock::now() - t, 10ms);
  };
  run(check);
  check();
  stop = true;
  storm.join();
  sigaction(SIGUSR1, &before, nullptr);
}

// 168
TEST_P(Time, OverflowIsForEver) {
  run([] {
    weft::timer never(std::chrono::hours::max());
    weft::timer longest(std::chrono::nanoseconds::max());
    auto none = weft::after_func(std::chrono::nanoseconds::max(), [] { ADD_FAILURE(); });
    auto soon = weft::after(-1s).recv();
    EXPECT_TRUE(soon.has_value());
    EXPECT_FALSE(never.c().try_recv());
    EXPECT_FALSE(longest.c().try_recv());
    EXPECT_TRUE(none.stop());
    EXPECT_TRUE(never.stop());
  });
}

// 166
TEST_P(Time, SleepZeroWhileTheWorldStops) {
  run([this] {
    std::atomic<bool> stop{false};
    weft::wait_group wg;
    wg.go([&stop] {
      for (int i = 0; i < 100; ++i) weft::this_thread::sleep_for(0s);  // sleep-ok: the subject
      for (int i = 0; i < 20; ++i) weft::this_thread::sleep_for(1us);  // sleep-ok: the subject
      stop = true;
    });
    while (!stop) {
      weft::runtime::stop_the_world([] {});
      weft::gosched();
    }
    wg.wait();
    static_cast<void>(procs());
  });
}

// 159: chained, and callbacks may block.
TEST_P(Time, AfterFuncChains) {
  run([] {
    constexpr int kN = 10;
    weft::chan<bool> done;
    int left = kN;
    std::function<void()> next = [&] {
      if (--left >= 0) {
        weft::after_func(0s, next);
        weft::this_thread::sleep_for(100us);  // sleep-ok: the subject
      } else {
        done.send(true);
      }
    };
    weft::after_func(0s, next);
    EXPECT_TRUE(done.recv().has_value());
  });
}

// 161: a pair that hands over to each other does not starve it.
TEST_P(Time, AfterFuncIsNotStarved) {
  run([] {
    weft::chan<int> a, b;
    std::atomic<bool> stop{false};
    weft::wait_group wg;
    wg.go([=] {
      for (int v : a) b.send(v + 1);
      b.close();
    });
    wg.go([=, &stop] {
      int v = 0;
      while (!stop) {
        a.send(v);
        v = *b.recv();
      }
      a.close();
    });
    weft::after_func(1us, [&stop] { stop = true; });
    wg.wait();
  });
}

// 8: two busy senders do not starve a timer in a select.
TEST_P(Time, TimerInASelectIsNotStarved) {
  run([] {
    weft::chan<int> c;
    std::atomic<bool> stop{false};
    weft::wait_group wg;
    for (int i = 0; i < 2; ++i) {
      wg.go([=, &stop] {
        while (!stop) {
          weft::select(weft::send(c, 1, [] {}), weft::timeout(10ms, [] {}));
        }
      });
    }
    auto timer = weft::after(20ms);
    bool fired = false;
    while (!fired) {
      weft::select(weft::recv(c, [](auto) {}), weft::recv(timer, [&](auto) { fired = true; }));
    }
    stop = true;
    wg.wait();
  });
}

// 9: nor do goroutines that make one short system call after the other.
TEST_P(Time, TimerBesideSystemCalls) {
  run([] {
    std::atomic<bool> stop{false};
    weft::chan<int> c;
    weft::wait_group wg;
    for (int i = 0; i < 2; ++i) {
      wg.go([c, &stop] {
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        ASSERT_GE(null, 0);
        while (!stop) {
          static_cast<void>(c.try_recv());
          EXPECT_EQ(write(null, "x", 1), 1);
        }
        close(null);
      });
    }
    const auto timer = weft::after(20ms);
    bool fired = false;
    while (!fired) {
      weft::select(weft::send(c, 1, [] {}), weft::recv(timer, [&](auto) { fired = true; }));
    }
    stop = true;
    wg.wait();
  });
}

// 162
TEST_P(Time, AfterIsNotEarly) {
  run([] {
    const auto start = clock::now();
    const auto t = weft::after(2ms).recv();
    ASSERT_TRUE(t.has_value());
    EXPECT_GE(clock::now() - start, 2ms);
    EXPECT_GE(*t - start, 2ms);
    EXPECT_LE(*t, clock::now());
  });
}

// 163: stopped before they are due, and watched until they would have come.
TEST_P(Time, StopPrevents) {
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
TEST_P(Time, AfterQueuing) {
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
TEST_P(Time, ComeInOrder) {
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
TEST_P(Time, StoppedOnesNeverFire) {
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
TEST_P(Time, Reset) {
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

// 171
TEST_P(Time, MisusePanics) {
  weft::timer t;
  EXPECT_FALSE(t.c());
  auto text = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const weft::panic_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(text([&] { t.stop(); }), "time: Stop called on uninitialized Timer");
  EXPECT_EQ(text([&] { t.reset(1s); }), "time: Reset called on uninitialized Timer");
  EXPECT_EQ(text([] { weft::ticker k(0s); }), "non-positive interval for NewTicker");
  EXPECT_EQ(text([] { weft::ticker k(-1s); }), "non-positive interval for NewTicker");
  weft::ticker k(1h), zero;
  EXPECT_EQ(text([&] { k.reset(0s); }), "non-positive interval for Ticker.Reset");
  EXPECT_EQ(text([&] { zero.reset(1s); }), "time: Reset called on uninitialized Ticker");
  zero.stop();
  EXPECT_FALSE(weft::tick(0s));
}

// 172
TEST_P(Time, ZeroTimers) {
  run([] {
    const int n = scaled(20'000, 200);
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
    for (int i = 0; i < n / 4; ++i) {
      wg.add();
      weft::after_func(0s, [&wg] { wg.done(); });
      if (i % 100 == 0) weft::gosched();
    }
    wg.wait();
  });
}

// 173: stopped and reset to the past, never lost.
TEST_P(Time, ModifiedEarlier) {
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
TEST_P(Time, AdjustTimers) {
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
TEST_P(Time, StopResult) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < scaled(500, 50); ++i) {
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
TEST_P(Time, ResetResult) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < scaled(500, 50); ++i) {
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
TEST_P(Time, ManyOnOneTimer) {
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
TEST_P(Time, TimerChannel) {
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

// 182: two who select on one timer; one of them gets it.
TEST_P(Time, TwoReceivers) {
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
TEST_P(Time, ReadLateCarriesTheDueTime) {
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
TEST_P(Time, ConcurrentStopAndReset) {
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
TEST_P(Time, ResetIsNotInterrupted) {
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

// 178, 181: handles may go at any time.
TEST_P(Time, Teardown) {
  run([] {
    for (int i = 0; i < scaled(300, 30); ++i) {
      weft::ticker k(10us);
      static_cast<void>(k.c().recv());
      weft::timer t(1h);
      auto c = t.c();
      t = weft::timer(10us);
      static_cast<void>(t.c().recv());
      weft::after(1h);
      auto dropped = weft::ticker(1us).c();
      static_cast<void>(dropped.recv());
    }
  });
}

TEST_P(Time, DroppingDoesNotStopAfterFunc) {
  run([] {
    std::atomic<bool> called{false};
    {
      auto t = weft::after_func(1ms, [&called] { called = true; });
    }
    EXPECT_TRUE(eventually([&] { return called.load(); }));
  });
}

TEST_P(Time, CallablesAreDestroyed) {
  auto token = std::make_shared<int>(0);
  run([token] {
    auto a = weft::after_func(1h, [token] {});
    a.stop();
    weft::after_func(0s, [token, unique = std::make_unique<int>(1)] {});
    auto b = weft::after_func(0s, [token] { weft::goexit(); });
    b.reset(0s);
  });
  EXPECT_TRUE(eventually([&] { return token.use_count() <= 2; }));
}

TEST_P(Time, FromPlainThreads) {
  run([] {});
  const auto start = clock::now();
  EXPECT_TRUE(weft::after(1ms).recv().has_value());
  EXPECT_GE(clock::now() - start, 1ms);
  std::atomic<bool> called{false};
  auto f = weft::after_func(1ms, [&called] { called = true; });
  EXPECT_TRUE(eventually([&] { return called.load(); }));
  weft::timer t(1h);
  bool timed_out = false;
  weft::select(weft::recv(t.c(), [](auto) {}), weft::timeout(1ms, [&] { timed_out = true; }));
  EXPECT_TRUE(timed_out);
  EXPECT_TRUE(t.stop());
}

// 180: many sleepers beside many time-outs that never strike.
TEST_P(Time, ManySleepersAndTimeouts) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < scaled(2000, 100); ++i) {
      wg.go([i] { weft::this_thread::sleep_for(1us * (i % 50'000)); });  // sleep-ok: the subject
    }
    weft::chan<int> c(1);
    for (int i = 0; i < scaled(20'000, 200); ++i) {
      c.send(i);
      weft::select(weft::recv(c, [](auto) {}), weft::recv(weft::after(1h), [](auto) { FAIL(); }));
    }
    wg.wait();
  });
}

// [MM] 16: arming precedes the callback. Plain data: TSan looks.
TEST_P(Time, ArmingPrecedesTheCallback) {
  run([] {
    for (int i = 0; i < 20; ++i) {
      int data = 0;
      weft::chan<int> result;
      data = 1;
      auto f = weft::after_func(i % 2 * 10us, [&] { result.send(++data); });
      EXPECT_EQ(*result.recv(), 2);
      data = 3;
      f.reset(1us);
      EXPECT_EQ(*result.recv(), 4);
      weft::timer t(1us);
      weft::thread reader([&data, c = t.c()] {
        c.recv();
        EXPECT_EQ(data, 4);
      });
      reader.join();
    }
  });
}

WEFT_OVER_PROCS(Time);

}  // namespace
