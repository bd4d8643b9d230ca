// The chaos build: decisions follow the seed, and they are taken.
#include "sched/chaos.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/wait_group.h>

#include "os/test_hooks.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

std::vector<std::int64_t> decisions() {
  M m;
  m.random.seed(scheduling_seed());
  std::vector<std::int64_t> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back(chaos_coin(&m));
    all.push_back(chaos_seldom(&m));
    all.push_back(chaos_nap(&m));
  }
  return all;
}

TEST(Chaos, FollowsTheSeed) {
  setenv("WEFT_TEST_SEED", "7", 1);
  const auto first = decisions();
  EXPECT_EQ(decisions(), first);
  setenv("WEFT_TEST_SEED", "8", 1);
  EXPECT_NE(decisions(), first);
}

// Three goroutines fit into the ring. With and without runnext they would run in one of four orders. Without sysmon, so
// that on one P nobody is preempted in the middle of writing down that it was there.
TEST(Chaos, ShufflesQueues) {
  os::test_hooks.no_sysmon.set(1);
  std::vector<std::vector<int>> orders;
  weft::run(
      [&orders] {
        for (int round = 0; round < 2000; ++round) {
          std::vector<int> order;
          wait_group done;
          for (int i = 0; i < 3; ++i) done.go([&order, i] { order.push_back(i); });
          done.wait();
          if (std::find(orders.begin(), orders.end(), order) == orders.end()) {
            orders.push_back(order);
          }
        }
      },
      {.max_procs = 1});
  EXPECT_EQ(orders.size(), 6u);
}

}  // namespace
}  // namespace weft::rt
