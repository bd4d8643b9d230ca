// fiber/sanitizer.h: how many fibers a tool has room for. That weft says so where there is no more is a matter of builds by
// g++ with ThreadSanitizer (crash/sanitizer_test.cc).
#include "fiber/sanitizer.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace weft::rt {
namespace {

TEST(FiberRoom, ForSoManyAtOnce) {
  fiber_room room{3};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(room.take());
  EXPECT_FALSE(room.take());
  EXPECT_FALSE(room.take()) << "one that was refused takes no room, and leaves none";
  room.give_back();
  EXPECT_TRUE(room.take());
  EXPECT_FALSE(room.take());
}

TEST(FiberRoom, IsForThoseWhoAreAlive) {
  fiber_room room{2};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(room.take());
    ASSERT_TRUE(room.take());
    room.give_back();
    room.give_back();
  }
}

TEST(FiberRoom, OfManyThreads) {
  constexpr int kThreads = 4, kMost = 10'000;
  fiber_room room{kMost};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kMost; ++n) taken += room.take() ? 1 : 0;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken, kMost);
}

}  // namespace
}  // namespace weft::rt
