// sched/world.cc: where those who were stopped go on.
#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "gmp/m.h"
#include "gmp/p.h"
#include "support/fixture.h"
#include "support/thread_state.h"

namespace weft::rt {
namespace {

constexpr int kRounds = 40;

struct place {
  int thread = 0;
  std::int32_t p = 0;
  bool operator==(const place&) const = default;
};

WEFT_TEST_OF_THE_THREAD place place_now() {
  const inside here;
  const M* mp = current_m();
  return {mp->tid, mp->p->id};
}

// Computes, and says where it is whenever it is asked.
struct computing {
  std::atomic<int> answered{0};
  place where;

  void run(const std::atomic<int>& asked, const std::atomic<bool>& over) {
    while (!over) {
      if (answered != asked) {
        where = place_now();
        answered = asked.load();
      }
    }
  }
};

class WorldPlace : public weft::test::runtime_test {};

// Go: TestTraceSTW. Nobody else wants their Ps, so those who compute find them again, and are on their threads anyway.
TEST_F(WorldPlace, WhoComputesGoesOnWhereItWas) {
  weft::run(
      [] {
        std::array<computing, 2> both;
        std::atomic<int> asked{0};
        std::atomic<bool> over{false};
        weft::wait_group ended;
        for (computing& c : both) ended.go([&] { c.run(asked, over); });
        const auto places = [&] {
          ++asked;
          std::array<place, 2> now;
          for (std::size_t i = 0; i < both.size(); ++i) {
            EXPECT_TRUE(weft::test::eventually_hogging([&] { return both[i].answered == asked; }));
            now[i] = both[i].where;
          }
          return now;
        };
        int same = 0, same_thread = 0;
        for (int i = 0; i < kRounds; ++i) {
          const auto before = places();
          runtime::stop_the_world([] {});
          const auto after = places();
          same += before == after ? 1 : 0;
          same_thread += before[0].thread == after[0].thread && before[1].thread == after[1].thread;
        }
        over = true;
        ended.wait();
        EXPECT_EQ(same_thread, kRounds);
        EXPECT_GE(same, kRounds * 3 / 4);
      },
      {.max_procs = 4});
}

}  // namespace
}  // namespace weft::rt
