// sched/max_procs.h: following the default while the program runs. sysmon is told to look at nothing, and the
// tests look in its place; a default that changes is pretended.
#include "sched/max_procs.h"

#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <thread>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>

#include "gmp/sched.h"
#include "os/clock.h"
#include "os/test_hooks.h"
#include "support/fixture.h"
#include "support/seed.h"
#include "unit/sched/follow_procs.h"

namespace weft::rt {
namespace {

using runtime::gomaxprocs;
using runtime::set_default_gomaxprocs;

class MaxProcs : public test::runtime_test {
 protected:
  void SetUp() override {
    runtime_test::SetUp();
    weft::thread([] {}).join();  // there is an M
    ASSERT_TRUE(no_helper());    // whose goroutine may still be ending
    pretend(4);
    set_default_gomaxprocs();
    ASSERT_EQ(gomaxprocs(), 4);
  }
  void TearDown() override {
    EXPECT_TRUE(no_helper());
    pretend(0);
    runtime_test::TearDown();
  }
};

TEST(MaxProcsPace, OnceASecond) {
  once_a_second pace;
  const std::int64_t start = 123'456'789;
  EXPECT_TRUE(pace.due(start));
  EXPECT_FALSE(pace.due(start));
  EXPECT_FALSE(pace.due(start + 999'999'999));
  EXPECT_TRUE(pace.due(start + 1'000'000'000));
  EXPECT_FALSE(pace.due(start + 1'999'999'999));
  EXPECT_TRUE(pace.due(start + 60'000'000'000));  // who has slept does not catch up
  EXPECT_FALSE(pace.due(start + 60'999'999'999));
}

TEST_F(MaxProcs, Follows) {
  for (int n : {3, 7, 1, 2, 16, 4}) {
    pretend(n);
    std::int32_t seen = 0;
    EXPECT_TRUE(default_procs_changed(&seen));
    EXPECT_EQ(seen, n);
    EXPECT_NE(gomaxprocs(), n);
    sysmon_looks();
    EXPECT_TRUE(becomes(n));
    EXPECT_TRUE(no_helper());
    EXPECT_FALSE(default_procs_changed(&seen));
  }
}

// [MP-1] "even if n equals the current value"
TEST_F(MaxProcs, ANumberStaysUntilTheDefaultIsAskedFor) {
  for (int n : {4, 6}) {
    EXPECT_EQ(gomaxprocs(n), 4);
    pretend(3);
    std::int32_t ignored = 0;
    EXPECT_FALSE(default_procs_changed(&ignored));
    sysmon_looks();
    EXPECT_EQ(helpers(), 0);
    settle();
    EXPECT_EQ(gomaxprocs(), n);
    set_default_gomaxprocs();
    EXPECT_EQ(gomaxprocs(), 3);
    pretend(4);
    sysmon_looks();
    EXPECT_TRUE(becomes(4));
    EXPECT_TRUE(no_helper());
  }
}

TEST_F(MaxProcs, AskingIsNotSetting) {
  gomaxprocs();
  gomaxprocs(0);
  gomaxprocs(-3);
  pretend(3);
  sysmon_looks();
  EXPECT_TRUE(becomes(3));
}

// [CG-8]
TEST_F(MaxProcs, UpdatesCanBeSwitchedOff) {
  pretend(3);
  update_default_procs(nanotime());
  settle();
  EXPECT_EQ(gomaxprocs(), 4);
  set_default_gomaxprocs();  // is not an update
  EXPECT_EQ(gomaxprocs(), 3);
}

// "If the helper is still busy the round is skipped." [CG-7] Nobody can run it while the world is stopped.
TEST_F(MaxProcs, OneHelperAtATime) {
  runtime::stop_the_world([] {
    pretend(5);
    sysmon_looks();
    pretend(6);
    sysmon_looks();
    sysmon_looks();
    EXPECT_EQ(helpers(), 1);
    EXPECT_EQ(runtime::num_goroutine(), 0) << "it is the runtime's own affair";
  });
  EXPECT_TRUE(becomes(5));  // as it was when the helper was sent
  EXPECT_TRUE(no_helper());
  sysmon_looks();
  EXPECT_TRUE(becomes(6));
}

// keeps X2
TEST_F(MaxProcs, TheHelperBringsTheLatest) {
  std::thread asks;
  runtime::stop_the_world([&asks] {
    pretend(5);
    sysmon_looks();
    pretend(6);
    asks = std::thread(set_default_gomaxprocs);  // stops the world before or after the helper
  });
  asks.join();
  EXPECT_TRUE(no_helper());
  EXPECT_EQ(gomaxprocs(), 6);
}

// The helper looks again once the world is stopped.
TEST_F(MaxProcs, ANumberBeatsAHelperThatIsOnItsWay) {
  std::thread says;
  runtime::stop_the_world([&says] {
    pretend(5);
    sysmon_looks();
    says = std::thread([] { gomaxprocs(4); });  // what it is already
  });
  says.join();
  EXPECT_EQ(gomaxprocs(), 4);
  EXPECT_TRUE(no_helper());
  EXPECT_EQ(gomaxprocs(), 4);
}

// keeps X1, where it is delicate: the number is there already, and the helper about to change it.
TEST_F(MaxProcs, ANumberIsSaidWhileAHelperWorks) {
  test::random_source random(1);
  for (test::budget b(20000); b.next();) {
    pretend(5);
    sysmon_looks();
    for (int spins = random.below(4000); spins > 0; --spins) cpu_pause();
    const int n = gomaxprocs();
    gomaxprocs(n);
    settle();
    ASSERT_EQ(gomaxprocs(), n) << "in round " << b.round();
    pretend(4);
    set_default_gomaxprocs();
  }
}

int stoppers_waiting() {
  const scoped_lock held(sched.lock);
  int n = 0;
  for (waiter* w = sched.world_first; w != nullptr; w = w->next) ++n;
  return n;
}

// Of a number and the default, the one that comes last counts, and decides what is followed.
TEST_F(MaxProcs, ANumberAfterTheDefault) {
  gomaxprocs(6);
  std::thread first;
  std::thread last;
  runtime::stop_the_world([&] {
    first = std::thread(set_default_gomaxprocs);
    while (stoppers_waiting() < 1) std::this_thread::yield();
    last = std::thread([] { gomaxprocs(5); });
    while (stoppers_waiting() < 2) std::this_thread::yield();
  });
  first.join();
  last.join();
  EXPECT_EQ(gomaxprocs(), 5);
  sysmon_looks();
  EXPECT_EQ(helpers(), 0);
  settle();
  EXPECT_EQ(gomaxprocs(), 5);
}

// keeps X1, for plain threads and goroutines, while sysmon looks all the time.
TEST_F(MaxProcs, NothingChangesAfterANumberWasSaid) {
  std::atomic<bool> stop{false};
  std::thread sysmon([&stop] {
    for (int i = 0; !stop; ++i) {
      pretend(1 + i % 5);
      sysmon_looks();
      std::this_thread::yield();
    }
  });
  test::random_source random(2);
  const auto says = [&random](int rounds) {
    for (test::budget b(rounds); b.next();) {
      const int n = random.one_in(2) ? gomaxprocs() : 1 + random.below(5);
      gomaxprocs(n);
      for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(gomaxprocs(), n);
        gosched();
      }
      set_default_gomaxprocs();
      for (int i = random.below(20); i > 0; --i) gosched();
    }
  };
  says(2000);
  weft::run([&says] { says(2000); });
  stop = true;
  sysmon.join();
}

TEST_F(MaxProcs, LookingAllocatesNothing) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  runtime::stop_the_world([] {  // so that nobody else does
    pretend(5);
    const auto before = mallinfo2();
    sysmon_looks();
    EXPECT_EQ(mallinfo2().uordblks, before.uordblks);
  });
  EXPECT_TRUE(becomes(5));
#endif
}
}  // namespace
}  // namespace weft::rt

int main(int argc, char** argv) {
  setenv("WEFTDEBUG", "updatemaxprocs=0,containermaxprocs=0", /*overwrite=*/1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
