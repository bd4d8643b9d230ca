// sched/world.cc: who is watched while the world stands still.
#include <array>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weft/runtime.h>
#include <weft/thread.h>

#include "base/lock.h"
#include "gmp/inside.h"
#include "gmp/sched.h"
#include "gmp/waiter.h"
#include "sched/pauses.h"
#include "sched/sysmon.h"
#include "sched/world.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

using weft::test::eventually;

class WorldWatch : public weft::test::over_procs {};

std::int32_t robbed() {
  const inside here;
  const scoped_lock held(sched.lock);
  return sched.robbed_count;
}

// stop_world() without the park by which it waits for its turn: a park that ends at once may wake sysmon, too.
bool sysmon_sleeps_in_a_stopped_world() {
  waiter turn;
  {
    const inside here;
    if (queue_for_world(&turn, nullptr)) return true;  // nobody else stops the world here
  }
  pause_clock pause;
  stop_world_in_turn();
  pause.stopped(/*for_gc=*/false);
  const bool sleeps = sysmon_sleeps();
  start_world();
  return sleeps;
}

// Somebody without a P may come back from its call at any time, and compute until sysmon stops it. With one P nobody is
// busy, and nothing else wakes sysmon; it would come after 10 ms.
TEST_P(WorldWatch, SysmonIsAwakeWhileSomebodyMayComeBack) {
  run([] {
    std::array<int, 2> fd{};
    ASSERT_EQ(pipe(fd.data()), 0);
    thread away([&fd] {
      runtime::blocking_for_long([&fd] {
        char byte = 0;
        EXPECT_EQ(read(fd[0], &byte, 1), 1);
      });
    });
    EXPECT_TRUE(eventually([] { return robbed() == 1; }));
    constexpr int kRounds = 20;
    int awake = 0;
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(eventually([] { return sysmon_sleeps(); }));
      awake += sysmon_sleeps_in_a_stopped_world() ? 0 : 1;
    }
    // It may have been about to fall asleep, and has not seen yet that it must not.
    EXPECT_GE(awake, kRounds / 2);
    EXPECT_EQ(write(fd[1], "x", 1), 1);
    away.join();
    for (const int end : fd) close(end);
  });
}
WEFT_OVER_PROCS(WorldWatch);

}  // namespace
}  // namespace weft::rt
