// sync/sleeper.h: sleeping, rousing, limits, on goroutines and plain threads.
#include "sync/sleeper.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include <weft/go.h>
#include <weft/wait_group.h>

#include "os/clock.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

constexpr auto kReason = wait_reason::semacquire;
constexpr std::int64_t kHour = 3'600'000'000'000;

class Sleeper : public test::over_procs {
 protected:
  // On a goroutine, and on a plain thread.
  template <class F>
  void both(F f) {
    run(f);
    f();
  }
};

// One node, many sleeps: what a contended lock does.
TEST_P(Sleeper, AgainAndAgain) {
  both([] {
    sleeper n;
    std::atomic<int> rounds{0};
    std::thread waker([&] {
      for (int i = 1; i <= 100; ++i) {
        while (rounds != i) std::this_thread::yield();
        rouse(&n);
      }
    });
    for (int i = 1; i <= 100; ++i) {
      n.reset();
      rounds = i;
      sleep(n, kReason);
    }
    waker.join();
  });
}

TEST_P(Sleeper, RousedBeforeItSleeps) {
  both([] {
    sleeper n;
    rouse(&n);
    sleep(n, kReason);
    n.reset();
    rouse(&n);
    EXPECT_TRUE(sleep_until(n, kReason, {nanotime() + kHour, nullptr}));
  });
}

TEST_P(Sleeper, Limits) {
  both([] {
    sleeper n;
    EXPECT_FALSE(sleep_until(n, kReason, {nanotime() + 1'000'000, nullptr}));
    n.reset();
    EXPECT_FALSE(sleep_until(n, kReason, {0, nullptr})) << "in the past";
    n.reset();
    std::thread waker([&n] { rouse(&n); });
    EXPECT_TRUE(sleep_until(n, kReason, {nanotime() + kHour, nullptr}));
    waker.join();
  });
}

// The limit came first, but it had been chosen: it waits for the waker to be done with it.
TEST_P(Sleeper, ChosenTooLate) {
  both([] {
    for (int i = 0; i < 50; ++i) {
      sleeper n;
      EXPECT_FALSE(sleep_until(n, kReason, {nanotime() + 1'000, nullptr}));
      std::thread waker([&n] { rouse(&n); });
      settle(n, kReason);
      waker.join();
    }
  });
}

WEFT_OVER_PROCS(Sleeper);

}  // namespace
}  // namespace weft::rt
