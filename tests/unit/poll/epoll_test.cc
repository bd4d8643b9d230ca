// The poller by itself, without anybody to schedule. [NP-9]
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

#include "os/clock.h"
#include "poll/poller.h"
#include "support/patience.h"

namespace weft::rt {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kTenSeconds = 10'000'000'000;

class Poller : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(poller_start()); }
};

// Go: TestNetpollBreak. Each ends a long wait, that has begun or is about to, at once.
TEST_F(Poller, BreaksEndLongWaits) {
  constexpr int kRounds = 200;
  std::atomic<int> waits{0}, news_seen{0};
  std::atomic<bool> lost{false};
  const auto began = test::test_clock::now();
  std::thread waiter([&] {
    poll_news news[kMostNews];
    while (waits < kRounds && !lost) {
      news_seen += poller_wait(news, nanotime() + kTenSeconds);
      ++waits;
    }
  });
  for (int before = 0; before < kRounds && !lost; before = waits) {
    for (int i = before % 3; i >= 0; --i) poller_break();
    while (waits == before && !lost) {
      lost = test::test_clock::now() - began > 8s;
    }
  }
  waiter.join();
  EXPECT_FALSE(lost) << "after " << waits;
  EXPECT_EQ(news_seen, 0);
}

// One that came while nobody waited is for the next one who does.
TEST_F(Poller, BreaksAreKept) {
  poll_news news[kMostNews];
  const auto began = test::test_clock::now();
  poller_break();
  EXPECT_EQ(poller_wait(news, nanotime() + kTenSeconds), 0);
  EXPECT_LT(test::test_clock::now() - began, 8s);
  EXPECT_EQ(poller_wait(news, 0), 0);
  EXPECT_EQ(poller_wait(news, nanotime() + 1'000'000), 0);
}

}  // namespace
}  // namespace weft::rt
