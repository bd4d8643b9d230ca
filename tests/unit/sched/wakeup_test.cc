// X3 and X5: hunters of lost wake-ups. [SP-1], [SP-2], [SP-7], [SP-10] Exhaustive proof: tests/model.
//
// Would they fail? A missing fence on x86 seldom loses anything, so that no hunt is sure to show it: that each fence is
// needed the models show, which take them away one by one (idle_model.cc, nap_model.cc, netpoll_model.cc, timer_watch_model.cc).
// That each of these hunts notices a wake-up which is lost lost_wakeup_process_test.cc shows, which drops FUTEX_WAKE.
#include <gtest/gtest.h>

#include <weft/run.h>
#include <weft/wait_group.h>

#include "gmp/sched.h"
#include "support/fixture.h"
#include "unit/sched/wakeup_hunts.h"

namespace weft::rt {
namespace {

class WakeUp : public weft::test::runtime_test, public testing::WithParamInterface<int> {
 protected:
  static hunts::terms all_ways() { return {.procs = GetParam()}; }
};

TEST_P(WakeUp, NoneIsLostByOneSubmitter) {
  EXPECT_TRUE(hunts::by_one_submitter(all_ways())) << "a lost wake-up";
}

TEST_P(WakeUp, NoneIsLostByManySubmitters) {
  EXPECT_TRUE(hunts::by_many_submitters(all_ways())) << "a lost wake-up";
}

TEST_P(WakeUp, NoneIsLostByAPlainThread) {
  EXPECT_TRUE(hunts::by_a_plain_thread(all_ways())) << "a lost wake-up";
}

TEST_P(WakeUp, NoneIsLostByThePoller) {
  EXPECT_TRUE(hunts::by_the_poller(all_ways())) << "a lost wake-up";
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
