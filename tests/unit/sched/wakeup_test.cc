// X3 and X5: hunters of lost wake-ups. [SP-1], [SP-2], [SP-7], [SP-10]
//
// A submitter keeps its P and never comes to a scheduling point; what it has made runnable can only
// run if somebody else is awake, or is woken. If the wake-up was lost, nothing else will happen, and
// the submitter sees it. The pauses vary around the time that an M looks for work before it sleeps,
// since that is where the protocol is delicate. Exhaustive proof: tests/model.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "gmp/sched.h"
#include "sched/park.h"
#include "support/fixture.h"
#include "support/seed.h"

namespace weft::rt {
namespace {

using weft::test::budget;
using weft::test::random_source;
using weft::test::test_clock;

constexpr auto kPerProcs = std::chrono::milliseconds(1000);

class WakeUp : public weft::test::runtime_test, public testing::WithParamInterface<int> {};

void pause_for(int us) {
  const auto until = test_clock::now() + std::chrono::microseconds(us);
  while (test_clock::now() < until) cpu_pause();
}

// Somebody who parks until woken, again and again.
class sleeper {
 public:
  void start(weft::wait_group& wg) {
    wg.go([this] {
      while (!stop_) {
        waiter w;
        block(w, publish, this, &waiting_, wait_reason::semacquire);
        ++runs_;
      }
    });
  }
  bool asleep() const { return waiting_.load(std::memory_order_acquire) != nullptr; }
  void rouse() { wake(waiting_.exchange(nullptr, std::memory_order_acquire)); }
  void stop() {
    stop_ = true;
    rouse();
  }
  long runs() const { return runs_; }

 private:
  static bool publish(waiter* w, void* self) {
    auto* s = static_cast<sleeper*>(self);
    s->waiting_.store(w, WEFT_COMMIT_ORDER(WT1, release));  // order: WT1 release to rouse()
    return true;
  }
  std::atomic<waiter*> waiting_{nullptr};
  std::atomic<bool> stop_{false};
  std::atomic<long> runs_{0};
};

// Submits in one of four ways and waits, without giving up the P, until it has run.
class submitter {
 public:
  submitter(std::uint64_t number, weft::wait_group& wg) : random_(number) { s_.start(wg); }

  bool hunt(int rounds) {
    bool good = weft::test::eventually([this] { return s_.asleep(); });
    for (budget b(rounds, kPerProcs); good && b.next();) {
      pause_for(random_.below(60));
      good = one_round(random_.below(4));
    }
    s_.stop();
    return good;
  }

 private:
  bool one_round(int way) {
    const long runs = s_.runs();
    int started = 0;
    std::atomic<int> ended{0};
    switch (way) {
      case 0:  // ready: into runnext
        s_.rouse();
        break;
      case 1:  // spawn: into runnext
        weft::go([&ended] { ++ended; });
        started = 1;
        break;
      case 2:  // the first one is pushed out to the ring
        weft::go([&ended] { ++ended; });
        weft::go([&ended] { ++ended; });
        started = 2;
        break;
      default:  // both
        s_.rouse();
        weft::go([&ended] { ++ended; });
        started = 1;
        break;
    }
    const bool roused = way == 0 || way == 3;
    return weft::test::eventually_hogging(
        [&] { return ended == started && (!roused || (s_.runs() > runs && s_.asleep())); });
  }

  random_source random_;
  sleeper s_;
};

// X3: one submitter, all other Ps free to sleep.
TEST_P(WakeUp, NoneIsLostByOneSubmitter) {
  weft::run(
      [] {
        weft::wait_group wg;
        submitter s(1, wg);
        EXPECT_TRUE(s.hunt(20000)) << "a lost wake-up";
        wg.wait();
      },
      {.max_procs = GetParam()});
}

// X5: as many submitters as leave one P free: now and then nobody is idle when work is submitted, and
// the last searcher is just going to sleep (needspinning).
TEST_P(WakeUp, NoneIsLostByManySubmitters) {
  weft::run(
      [] {
        std::atomic<bool> good{true};
        weft::wait_group wg, sleepers;
        for (int i = 0; i < GetParam() - 1; ++i) {
          wg.go([&, i] {
            submitter s(10 + static_cast<std::uint64_t>(i), sleepers);
            if (!s.hunt(20000)) good = false;
            sleepers.wait();
          });
        }
        wg.wait();
        EXPECT_TRUE(good) << "a lost wake-up";
      },
      {.max_procs = GetParam()});
}

// A plain thread submits; every M may be asleep, or on the way there. [IJ]
TEST_P(WakeUp, NoneIsLostByAPlainThread) {
  weft::runtime::gomaxprocs(GetParam());
  random_source random(20);
  for (budget b(20000, kPerProcs); b.next();) {
    pause_for(random.below(60));
    std::atomic<int> ended{0};
    const int n = 1 + random.below(3);
    for (int i = 0; i < n; ++i) weft::go([&ended] { ++ended; });
    ASSERT_TRUE(weft::test::eventually_hogging([&] { return ended == n; })) << "a lost wake-up";
  }
}

// After all that, nobody pretends to look for work, and every P is idle.
TEST_P(WakeUp, EverythingFallsAsleep) {
  weft::run(
      [] {
        weft::wait_group wg;
        for (int i = 0; i < 1000; ++i) wg.go([] { weft::gosched(); });
        wg.wait();
      },
      {.max_procs = GetParam()});
  EXPECT_TRUE(weft::test::eventually_hogging([] {
    return sched.idle.spinning() == 0 && sched.idle.idle() == GetParam();
  })) << sched.idle.spinning()
      << " spinning, " << sched.idle.idle() << " idle of " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(, WakeUp, testing::Values(2, 4, 16), weft::test::procs_name);

}  // namespace
}  // namespace weft::rt
