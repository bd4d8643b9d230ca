// A node may be used for one sleep after the other, by a plain thread as well: locks do so when somebody
// was woken in vain.
#include "sync/sleeper.h"

#include <atomic>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <thread>

#include "support/witness.h"

namespace weft::rt {
namespace {

TEST(Sleeper, APlainThreadSleepsAgain) {
  constexpr int kRounds = 5;
  constexpr int kPatience = 10'000;  // looks
  sleeper n;
  const std::string self = test::this_thread();
  for (int round = 0; round < kRounds; ++round) {
    n.reset();
    std::atomic<bool> roused{false};
    std::thread waker([&] {
      for (int i = 0; i < kPatience && !test::sleeps(self); ++i) sched_yield();
      roused = true;
      rouse(&n);
    });
    sleep(n, wait_reason::mutex_lock);
    EXPECT_TRUE(roused) << "round " << round;
    waker.join();
  }
}

}  // namespace
}  // namespace weft::rt
