// Many timers due at almost the same time: the runtime saves wake-ups there, but those who are woken run
// at the same time on all Ps all the same.
//
// Each of those woken waits, without a scheduling point, until another one runs as well: with two Ps
// or more that is a matter of a millisecond, and otherwise never.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::eventually_hogging;
using weft::test::scaled;
using clock = weft::clock;

class TimerCrowd : public weft::test::over_procs {};

constexpr int kCrowd = 20;

// Some time from now, so that all of the crowd is in one block of the wheel's finest level, in the
// middle: then it is known in time that it is a crowd.
clock::time_point meeting_time() {
  const auto block = clock::duration(std::chrono::nanoseconds(1 << 22));
  const auto now = clock::now().time_since_epoch();
  return clock::time_point((now / block + 3) * block + block / 2);
}

class company {
 public:
  void arrive() {
    ++here_;
    EXPECT_TRUE(eventually_hogging([this] { return here_ > 1; })) << "nobody else is run";
  }

 private:
  std::atomic<int> here_{0};
};

TEST_P(TimerCrowd, SleepersRunAtTheSameTime) {
  if (procs() == 1) GTEST_SKIP() << "needs a second P";
  run([] {
    for (int round = 0; round < scaled(20, 5); ++round) {
      const clock::time_point t = meeting_time();
      company here;
      weft::wait_group wg;
      for (int i = 1; i <= 3; ++i) {  // so that somebody looks ahead shortly before
        wg.go([=] { weft::this_thread::sleep_until(t - i * 300us); });  // sleep-ok: the subject
      }
      for (int i = 0; i < kCrowd; ++i) {
        wg.go([=, &here] {
          weft::this_thread::sleep_until(t + i * 1us);  // sleep-ok: the subject
          here.arrive();
        });
      }
      wg.wait();
    }
  });
}

// The P on which they were started is busy until just before they are due, and then runs them itself.
TEST_P(TimerCrowd, CallbacksRunAtTheSameTime) {
  if (procs() == 1) GTEST_SKIP() << "needs a second P";
  run([] {
    for (int round = 0; round < scaled(20, 5); ++round) {
      const clock::time_point t = meeting_time();
      company here;
      weft::wait_group wg;
      wg.add(kCrowd);
      std::vector<weft::timer> timers;
      for (int i = 1; i <= 3; ++i) {
        timers.push_back(weft::after_func(t - i * 300us - clock::now(), [] {}));
      }
      for (int i = 0; i < kCrowd; ++i) {
        timers.push_back(weft::after_func(t + i * 500ns - clock::now(), [&] {
          here.arrive();
          wg.done();
        }));
      }
      while (clock::now() < t + 240us) {
      }
      wg.wait();
    }
  });
}

WEFT_OVER_PROCS(TimerCrowd);

}  // namespace
