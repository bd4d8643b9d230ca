// sched/timers.h: every event fires once or is cancelled, at its time or a little later, whoever
// started it and whichever P is busy. [T-4] to [T-11]
#include "sched/timers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "gmp/sched.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "support/cpu_time.h"
#include "support/fixture.h"
#include "support/seed.h"

namespace weft::rt {
namespace {

using weft::test::cpu_time;
using weft::test::eventually;
using weft::test::eventually_hogging;

constexpr std::int64_t kMs = 1'000'000, kHour = 3'600'000'000'000;

class Timers : public weft::test::over_procs {};

struct alarm : timer_event {
  std::atomic<int> fired{0};
  std::atomic<bool> early{false};

  alarm() {
    fire = [](timer_event* e, std::int64_t) {
      auto* a = static_cast<alarm*>(e);
      a->early = nanotime() < a->when;
      ++a->fired;
    };
  }
  void start_in(std::int64_t ns) {
    when = nanotime() + ns;
    timer_start(*this);
  }
};

std::uint64_t pending() {
  const inside here;
  std::uint64_t n = 0;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) n += sched.p(i)->timers.count();
  return n;
}

// Not later by the time that passes between two readings of the clock: whoever sleeps may lose its processor there. A busy
// machine may let nobody look before the time has come: then a longer one is tried.
TEST_P(Timers, SleepsEndAtTheirTime) {
  run([] {
    using clock = std::chrono::steady_clock;
    int seen = 0;
    for (int i = 0; i < 10 && seen < 3; ++i) {
      const clock::time_point due = clock::now() + std::chrono::milliseconds(std::min(5 << i, 200));
      std::atomic<bool> awake{false};
      weft::thread sleeper([&] {
        weft::this_thread::sleep_until(due);  // sleep-ok: the sleeper is what is tested
        awake = true;
      });
      std::int64_t next = kNever;
      while (next == kNever && !awake) {
        gosched();
        next = earliest_timer();
      }
      sleeper.join();
      if (next != kNever) {
        EXPECT_EQ(next, due.time_since_epoch().count());
        ++seen;
      }
    }
    EXPECT_GT(seen, 0);
  });
}

TEST_P(Timers, FireOnceAndNotEarly) {
  run([] {
    std::vector<alarm> alarms(100);
    for (std::size_t i = 0; i < alarms.size(); ++i) {
      alarms[i].start_in(static_cast<std::int64_t>(i * 7919 % 100) * 50'000);
    }
    for (alarm& a : alarms) {
      EXPECT_TRUE(eventually([&a] { return a.fired == 1; }));
      EXPECT_FALSE(a.early);
      EXPECT_FALSE(timer_cancel(a));
    }
    EXPECT_EQ(pending(), 0u);
  });
}

// While all sleep nobody notes the time. Whoever starts a timer then must not take it to be long ago.
TEST_P(Timers, APlainThreadAsksTheClock) {
  run([] {
    ASSERT_EQ(pending(), 0u);
    alarm a;
    const std::int64_t before = nanotime();
    std::thread([&a] {
      note_time(1);
      a.start_in(kHour);
    }).join();
    {
      const inside here;
      EXPECT_GE(sched.p(0)->timers.knows(), before);
    }
    EXPECT_TRUE(timer_cancel(a));
  });
}
TEST_P(Timers, WhoeverComesBackFromALongCallAsksTheClock) {
  run([] {
    const std::int64_t before = nanotime();
    runtime::blocking_for_long([] { note_time(1); });
    EXPECT_GE(coarse_time(), before);
  });
}

TEST_P(Timers, ACancelledOneDoesNotFire) {
  run([] {
    alarm a;
    for (int i = 0; i < 1000; ++i) {
      a.start_in(kHour + i);
      ASSERT_TRUE(timer_cancel(a));
      ASSERT_FALSE(timer_cancel(a));
    }
    EXPECT_EQ(a.fired, 0);
    EXPECT_EQ(pending(), 0u);
  });
}

// On a P that never comes to a scheduling point.
TEST_P(Timers, DoNotWaitForABusyP) {
  if (procs() == 1) GTEST_SKIP() << "needs a second P";
  run([] {
    for (int i = 0; i < 20; ++i) {
      alarm a;
      a.start_in(i * 20'000);
      EXPECT_TRUE(eventually_hogging([&a] { return a.fired == 1; }));
      EXPECT_FALSE(timer_cancel(a));
    }
  });
}

// An M sleeps until then, or until an earlier one, although no P is idle.
bool somebody_stands_in(std::int64_t when) {
  const std::int64_t until = sched.watched_until.load(std::memory_order_relaxed);
  return until != 0 && until <= when;
}

// All Ps compute, and nobody waits: sysmon sleeps for long, and is told of a timer that it would come too late to; or an M
// that stands in for it is, at once. start(a): a is due in a millisecond.
template <class Start>
void expect_sysmon_is_told(int procs, Start start) {
  std::atomic<bool> stop{false};
  std::atomic<int> computing{0};
  weft::wait_group hogs;
  for (int i = 1; i < procs; ++i) {
    hogs.go([&] {
      ++computing;
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  while (computing < procs - 1) weft::gosched();
  constexpr int kRounds = 10;
  int not_told = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto sleeps_for_long = [] { return !sysmon_rest.looks_before(nanotime() + 4 * kMs); };
    EXPECT_TRUE(eventually_hogging(sleeps_for_long));
    alarm a;
    start(a);
    const bool told = sysmon_rest.looks_before(a.when + kTimerGrace) || somebody_stands_in(a.when);
    not_told += told || nanotime() >= a.when ? 0 : 1;  // by then it may be over
    EXPECT_TRUE(eventually_hogging([&a] { return a.fired == 1; }));
    EXPECT_FALSE(timer_cancel(a));
  }
  EXPECT_LT(not_told, kRounds / 2);  // it may just have decided to sleep again
  stop = true;
  hogs.wait();
}

TEST_P(Timers, SysmonIsToldWhenAllAreBusy) {
  run([this] { expect_sysmon_is_told(procs(), [](alarm& a) { a.start_in(kMs); }); });
}

// An M has started it on g0, as tickers are, and looks for somebody who watches before it runs a goroutine: there is only
// sysmon. What else would have told it, the goroutine that became runnable, is left out here.
TEST_P(Timers, SysmonIsToldByWhoeverOwesALook) {
  run([this] {
    expect_sysmon_is_told(procs(), [](alarm& a) {
      const inside here;
      const std::int64_t now = nanotime();
      a.when = now + kMs;
      sched.p(0)->timers.start(a, now);
      find_timer_watcher();
    });
  });
}

TEST_P(Timers, FireWhileGoroutinesFollowEachOther) {
  run([] {
    std::atomic<bool> stop{false};
    weft::wait_group wg;
    // More than fit into a ring, but in proportion: each turn of the others is kFairnessTick switches.
    for (std::uint32_t i = 0; i < kRunQueueSize * 3 / 2; ++i) {
      wg.go([&stop] {
        while (!stop) weft::gosched();
      });
    }
    for (int i = 0; i < 5; ++i) {
      alarm a;
      a.start_in(kMs);
      EXPECT_TRUE(eventually([&a] { return a.fired == 1; }));
      EXPECT_FALSE(timer_cancel(a));
    }
    stop = true;
    wg.wait();
  });
}

// A goroutine that yields to nobody must let timers run all the same.
TEST_P(Timers, FireUnderALonelyYielder) {
  run([] {
    alarm a;
    a.start_in(kMs);
    EXPECT_TRUE(eventually([&a] { return a.fired == 1; }));
    EXPECT_FALSE(timer_cancel(a));
  });
}

TEST_P(Timers, OfPlainThreads) {
  run([] {});  // with so many Ps
  alarm a, b;
  a.start_in(2 * kMs);
  b.start_in(kHour);
  EXPECT_TRUE(eventually([&a] { return a.fired == 1; }));
  EXPECT_FALSE(timer_cancel(a));
  EXPECT_TRUE(timer_cancel(b));
  EXPECT_EQ(b.fired, 0);
}

TEST_P(Timers, SurviveThatTheirPGoes) {
  run([this] {
    weft::wait_group wg;
    std::vector<alarm> soon(64), late(64);
    for (std::size_t i = 0; i < soon.size(); ++i) {
      wg.go([&, i] {
        soon[i].start_in(static_cast<std::int64_t>(i) * 100'000);
        late[i].start_in(kHour);
        weft::gosched();
      });
    }
    wg.wait();
    weft::runtime::gomaxprocs(1);
    for (alarm& a : soon) {
      EXPECT_TRUE(eventually([&a] { return a.fired == 1; }));
      EXPECT_FALSE(timer_cancel(a));
    }
    for (alarm& a : late) EXPECT_TRUE(timer_cancel(a));
    EXPECT_EQ(pending(), 0u);
    weft::runtime::gomaxprocs(procs());
  });
}

// Nanoseconds of processor time for one of n timers to be started and cancelled beside the others, and for one that comes
// and goes beside all.
struct timer_costs {
  double each, beside;
};
timer_costs best(const timer_costs& a, const timer_costs& b) {
  return {std::min(a.each, b.each), std::min(a.beside, b.beside)};
}
double cost_beside() {
  alarm a;
  const int pairs = weft::test::scaled(100'000, 5'000);
  const std::int64_t when = nanotime() + kHour;
  const auto t0 = cpu_time();
  for (int i = 0; i < pairs; ++i) {
    a.when = when;
    timer_start(a);
    EXPECT_TRUE(timer_cancel(a));
  }
  const auto t1 = cpu_time();
  a.start_in(kMs);
  EXPECT_TRUE(eventually([&a] { return a.fired == 1; }));
  EXPECT_FALSE(timer_cancel(a));
  return static_cast<double>((t1 - t0).count()) / pairs;
}
// So many times over, or the few would be over in less time than whoever else wakes meanwhile uses.
timer_costs costs_with(int n, int times) {
  auto many = std::make_unique<alarm[]>(static_cast<std::size_t>(n));
  weft::test::random_source random(1);
  timer_costs costs{0, 0};
  for (int t = 0; t < times; ++t) {
    const std::int64_t now = nanotime();
    const auto t0 = cpu_time();
    for (int i = 0; i < n; ++i) {
      many[i].when = now + kHour + random.below(1 << 30) * 1000LL;
      timer_start(many[i]);
    }
    const auto t1 = cpu_time();
    if (t == times - 1) costs.beside = cost_beside();
    const auto t2 = cpu_time();
    for (int i = 0; i < n; ++i) EXPECT_TRUE(timer_cancel(many[i]));
    const auto t3 = cpu_time();
    EXPECT_EQ(pending(), 0u);
    costs.each += static_cast<double>((t1 - t0 + (t3 - t2)).count()) / n / times;
  }
  return costs;
}

// A million timers are not much dearer apiece than ten thousand: the caches may make a difference, and the rest is the same.
// If any of it looked at the others, they would be a hundred times as dear. The best of three, as others who use the
// processors' caches only ever add to them.
TEST_P(Timers, AMillionPending) {
  run([] {
    const int n = weft::test::scaled(1'000'000, 20'000);
    timer_costs few = costs_with(n / 100, 100), many = costs_with(n, 1);
    for (int i = 0; i < 2; ++i) {
      few = best(few, costs_with(n / 100, 100));
      many = best(many, costs_with(n, 1));
    }
    EXPECT_LE(many.each, 10 * few.each);
    EXPECT_LE(many.beside, 10 * few.beside);
  });
}

// Started, stopped and reset by goroutines and plain threads while Ms fire what is due.
TEST_P(Timers, Storm) {
  std::atomic<long> started{0}, stopped{0}, fired{0};
  const int rounds = weft::test::scaled(5000, 100);
  auto one = [&](std::uint64_t number) {
    weft::test::random_source random(number);
    std::vector<alarm> mine(8);
    for (int i = 0; i < rounds; ++i) {
      alarm& a = mine[static_cast<std::size_t>(random.below(8))];
      const bool was_pending = timer_cancel(a);
      stopped += was_pending ? 1 : 0;
      fired += a.fired.exchange(0);
      a.start_in(random.below(50) * 1000);
      ++started;
      if (random.one_in(20)) weft::gosched();
    }
    for (alarm& a : mine) {
      stopped += timer_cancel(a) ? 1 : 0;
      fired += a.fired.exchange(0);
      EXPECT_FALSE(a.early);
    }
  };
  run([&] {
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 4; ++i) wg.go([&, i] { one(i); });
    std::thread plain([&] { one(100); });
    wg.wait();
    plain.join();
  });
  EXPECT_EQ(started, stopped + fired);
  EXPECT_EQ(pending(), 0u);
}

WEFT_OVER_PROCS(Timers);

}  // namespace
}  // namespace weft::rt
