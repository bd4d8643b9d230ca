// time/chan_timer.h: a timer that comes due while somebody holds its channel's lock; and receivers with a limit, whichever
// comes first.
#include "time/chan_timer.h"

#include <chrono>
#include <gtest/gtest.h>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "gmp/sched.h"
#include "os/clock.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

class ChanTimer : public weft::test::over_procs {};

bool timers_pending() {
  const inside here;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    if (sched.p(i)->timers.count() != 0) return true;
  }
  return false;
}

constexpr std::int64_t kMs = 1'000'000, kHour = 3'600'000'000'000;

// A timer's channel that somebody receives from, locked; the timer has been taken to fire and waits for the lock.
channel* on_its_way(wait_group& receivers) {
  channel* c = make_time_channel(nanotime() + kHour, 0);
  receivers.go([c] {
    clock::time_point t;
    EXPECT_TRUE(detail::chan_recv(c, &t));
  });
  EXPECT_TRUE(weft::test::eventually(timers_pending));  // only while somebody waits
  reset_time_channel(c, nanotime() + kMs, 0);
  {
    const inside here;
    c->lock();
  }
  EXPECT_TRUE(weft::test::eventually([] { return !timers_pending(); }));
  return c;
}

// The holder is switched out: the scheduler must let it run again, not wait for it.
TEST_P(ChanTimer, FiresWhileAGoroutineHoldsTheLock) {
  run([] {
    for (int i = 0; i < weft::test::scaled(20, 5); ++i) {
      wait_group wg;
      channel* c = on_its_way(wg);
      c->unlock();
      wg.wait();
      detail::chan_release(c);
    }
  });
}

// A timer that is on its way to fire when it is reset to later is pending, and a stop finds it.
TEST_P(ChanTimer, StoppedAfterAResetThatOvertookIt) {
  run([] {
    for (int i = 0; i < weft::test::scaled(20, 5); ++i) {
      wait_group wg;
      channel* c = on_its_way(wg);
      c->unlock();
      // With one P before it comes, otherwise perhaps.
      reset_time_channel(c, nanotime() + kHour, 0);
      gosched();
      stop_time_channel(c);
      EXPECT_TRUE(weft::test::eventually([] { return !timers_pending(); }));
      reset_time_channel(c, nanotime() + kMs, 0);
      wg.wait();
      detail::chan_release(c);
    }
  });
}

// Whoever waits with a limit counts as a receiver until he leaves: the timer rings for him, and for nobody afterwards.
void receive_with_limits() {
  using namespace std::chrono_literals;
  constexpr auto kLong = 30s;  // it ends the test, not the wait
  const auto none_rings = [] { return weft::test::eventually([] { return !timers_pending(); }); };
  timer soon(2ms);
  EXPECT_TRUE(soon.c().recv_for(kLong));
  timer sooner(2ms);
  EXPECT_TRUE(sooner.c().recv_until(clock::now() + kLong));
  auto [patient, give_up] = with_timeout(weft::context(), kLong);
  EXPECT_TRUE(after(2ms).recv(patient));
  give_up();
  EXPECT_TRUE(none_rings());

  timer far(1h);
  EXPECT_FALSE(far.c().recv_for(1ms));
  EXPECT_TRUE(none_rings());
  EXPECT_FALSE(far.c().recv_until(clock::now() + 1ms));
  EXPECT_TRUE(none_rings());
  EXPECT_TRUE(far.stop());

  ticker beat(1h);
  auto [hasty, cancel] = with_timeout(weft::context(), 1ms);
  EXPECT_FALSE(beat.c().recv(hasty));
  EXPECT_TRUE(none_rings());
  beat.reset(1us);
  EXPECT_TRUE(beat.c().recv_for(kLong));
  EXPECT_TRUE(beat.c().recv(weft::context()));
  beat.stop();
  cancel();
  EXPECT_TRUE(none_rings());
}

TEST_P(ChanTimer, RingsForWhoeverWaitsWithALimit) {
  run(receive_with_limits);
  receive_with_limits();  // a plain thread
}

WEFT_OVER_PROCS(ChanTimer);

}  // namespace
}  // namespace weft::rt
