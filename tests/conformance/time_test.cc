// Go's package time over goroutines: sleep, after, after_func; timers are in timer_test.cc, tickers in ticker_test.cc.
// [T-11] to [T-14]
//
// Times are only compared with the clock; nothing relies on how long something takes, but for "not
// early" and "in the end".
#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/panic.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::eventually;
using weft::test::parked_goroutines;
using weft::test::scaled;
using clock = weft::clock;

class Time : public weft::test::over_procs {};

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

// Whoever reads it loses its processor before it can use what it has read.
struct late_clock {
  using duration = clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<late_clock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static time_point now() {
    const auto read = clock::now();
    while (clock::now() < read + 1ms) {
    }
    return time_point(read.time_since_epoch());
  }
};

// Not later by the time that passes between the readings of two clocks: early, and then once more.
TEST_P(Time, DeadlinesAreEarlyRatherThanLate) {
  const late_clock::time_point t = late_clock::now() + 1h;
  std::int64_t asked = 0;
  EXPECT_TRUE(weft::detail::attempt_until(t, [&asked](std::int64_t deadline) {
    asked = deadline;
    return true;
  }));
  EXPECT_LE(asked, t.time_since_epoch().count());
  EXPECT_GT(asked, (t - 1h).time_since_epoch().count());

  const late_clock::time_point soon = late_clock::now() + 5ms;
  weft::this_thread::sleep_until(soon);  // sleep-ok: the subject
  EXPECT_GE(late_clock::now(), soon);
}

// It can be set, and knows when it was read.
struct set_clock {
  using duration = clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<set_clock>;
  [[maybe_unused]] static constexpr bool is_steady = false;
  static inline std::atomic<rep> ahead{0};
  static inline std::atomic<rep> last{0}, last_but_one{0};  // by one reader at a time
  static time_point now() {
    const rep read = clock::now().time_since_epoch().count();
    last_but_one = last.exchange(read);
    return time_point(duration(read + ahead));
  }
  static void set(std::chrono::hours by) { ahead += duration(by).count(); }
};

// What is tried until a time, while its clock is set: forward, and the one attempt under way is the last; back, and
// there is another, until the clock says so.
TEST_P(Time, TheClockIsSetDuringAnAttempt) {
  const auto attempts_if_set = [](std::chrono::hours by) {
    int attempts = 0;
    const set_clock::time_point t = set_clock::now() + 1h;
    EXPECT_FALSE(weft::detail::attempt_until(t, [&](std::int64_t deadline) {
      const auto ahead = t - set_clock::now();
      const std::int64_t left = deadline - clock::now().time_since_epoch().count();
      EXPECT_LE(left, ahead.count()) << "by the clock that was asked for";
      EXPECT_GT(left, (ahead - 30min).count());
      set_clock::set(++attempts == 1 ? by : 3h);
      return false;
    }));
    return attempts;
  };
  EXPECT_EQ(attempts_if_set(2h), 1);
  EXPECT_EQ(attempts_if_set(-1h), 2);
}

// A clock that is set forward wakes nobody: who waits for it waits for as long as he would have.
TEST_P(Time, AClockThatIsSetForwardMakesNoWaitShorter) {
  run([] {
    const weft::chan<int> c;
    std::atomic<bool> received{false}, slept{false};
    weft::wait_group wg;
    wg.go([&] {
      EXPECT_TRUE(c.recv_until(set_clock::now() + 1h)) << "it has waited in vain";
      received = true;
    });
    EXPECT_TRUE(eventually([] { return weft::test::somebody_waits_in("chan receive"); }));
    clock::time_point should, woke;
    wg.go([&] {
      should = clock::now() + 50ms;
      weft::this_thread::sleep_until(set_clock::now() + 50ms);  // sleep-ok: the subject
      woke = clock::now();
      slept = true;
    });
    // On a slow machine it may be over before it is seen, and says nothing.
    EXPECT_TRUE(eventually([&] { return slept || weft::test::somebody_waits_in("sleep"); }));
    // Deadlines are early by what passes between the readings of two clocks, the second of which was the last of this one.
    const set_clock::duration early(set_clock::last - set_clock::last_but_one);
    set_clock::set(2h);
    EXPECT_TRUE(eventually([&] { return slept.load(); }));
    EXPECT_GE(woke, should - early);
    EXPECT_FALSE(received) << "it was to wait for an hour";
    c.send(1);
    wg.wait();
  });
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
  signal(SIGUSR1, SIG_IGN);  // one may still be on its way
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

// 168: somebody sleeps for as long as can be said, and only a context ends that; others sleep meanwhile.
TEST_P(Time, LongestSleepIsForEver) {
  run([] {
    auto [ctx, cancel] = weft::with_cancel(weft::context::background());
    auto [short_ctx, cancel_short] = weft::with_timeout(weft::context::background(), 5ms);
    const std::uint64_t others = parked_goroutines();
    std::atomic<int> ended{0};
    weft::wait_group wg;
    const auto sleeps = [&ended](const weft::context& until, auto d, std::errc why) {
      EXPECT_EQ(weft::sleep_for(until, d), why);
      ++ended;
    };
    wg.go([&, c = ctx] {
      sleeps(c, std::chrono::nanoseconds::max(), std::errc::operation_canceled);
    });
    wg.go([&, c = ctx] { sleeps(c, std::chrono::hours::max(), std::errc::operation_canceled); });
    wg.go([&, c = ctx] {
      EXPECT_EQ(weft::sleep_until(c, clock::time_point::max()), std::errc::operation_canceled);
      ++ended;
    });
    EXPECT_TRUE(eventually([&] { return parked_goroutines() >= others + 3; }));
    sleeps(short_ctx, std::chrono::hours::max(), std::errc::timed_out);
    weft::this_thread::sleep_for(1ms);                        // sleep-ok: the subject
    weft::this_thread::sleep_for(-1ms);                       // sleep-ok: the subject
    weft::this_thread::sleep_for(std::chrono::hours::min());  // sleep-ok: the subject
    EXPECT_TRUE(weft::after(1ms).recv().has_value());
    EXPECT_EQ(ended, 1) << "nobody else";
    cancel();
    wg.wait();
    EXPECT_EQ(ended, 4);
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
    for (int i = 0; i < scaled(5000, 100); ++i) {
      wg.go([i] { weft::this_thread::sleep_for(1us * (i % 50'000)); });  // sleep-ok: the subject
    }
    weft::chan<int> c(1);
    for (int i = 0; i < scaled(1'000'000, 200); ++i) {
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
