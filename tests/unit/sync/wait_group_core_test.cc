// sync/wait_group_core.h: the protocol by itself, with waiters that are only names.
#include "sync/wait_group_core.h"

#include <atomic>
#include <climits>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "fiber/sanitizer.h"
#include "support/patience.h"
#include "sync/withdrawal.h"

namespace weft::rt {
namespace {

struct fake {
  fake* next = nullptr;
  fake* prev = nullptr;
  bool linked = false;
  withdrawal leaves;
};
using core = wait_group_core<fake, fake>;

std::vector<fake*> list_of(fake* first) {
  std::vector<fake*> all;
  for (; first != nullptr; first = first->next) all.push_back(first);
  return all;
}

TEST(WaitGroupCore, CountsUpAndDown) {
  core c;
  EXPECT_TRUE(c.zero());
  EXPECT_FALSE(c.add(3).negative);
  EXPECT_FALSE(c.zero());
  c.add(-1);
  c.add(-1);
  EXPECT_FALSE(c.zero());
  const core::outcome last = c.add(-1);
  EXPECT_FALSE(last.negative);
  EXPECT_EQ(last.wake, nullptr) << "nobody waits";
  EXPECT_TRUE(c.zero());
}

TEST(WaitGroupCore, RefusesBelowZeroAndAboveTheRange) {
  core c;
  EXPECT_TRUE(c.add(-1).negative);
  EXPECT_TRUE(c.zero());
  c.add(2);
  EXPECT_TRUE(c.add(-3).negative);
  EXPECT_FALSE(c.add(INT_MAX - 2).negative);
  EXPECT_TRUE(c.add(1).negative) << "does not wrap";
  EXPECT_FALSE(c.add(-INT_MAX).negative);
  EXPECT_TRUE(c.zero());
}

TEST(WaitGroupCore, TheLastOneGetsAllWaiters) {
  core c;
  fake a, b, d;
  EXPECT_FALSE(c.push(&a)) << "nothing to wait for";
  c.add(2);
  for (fake* w : {&a, &b, &d}) ASSERT_TRUE(c.push(w));
  EXPECT_EQ(c.add(-1).wake, nullptr);
  EXPECT_EQ(list_of(c.add(-1).wake), (std::vector<fake*>{&d, &b, &a})) << "newest first";
  EXPECT_TRUE(c.zero());
  // As new.
  c.add(1);
  ASSERT_TRUE(c.push(&b));
  EXPECT_EQ(list_of(c.add(-1).wake), std::vector<fake*>{&b});
}

// A refused add leaves waiters and counter as they were, although it had taken the lock bit.
TEST(WaitGroupCore, NegativeWithWaiters) {
  core c;
  fake a;
  c.add(1);
  ASSERT_TRUE(c.push(&a));
  EXPECT_EQ(c.add(2).wake, nullptr);
  EXPECT_EQ(c.add(-2).wake, nullptr);
  EXPECT_TRUE(c.add(-2).negative);
  EXPECT_FALSE(c.zero());
  EXPECT_EQ(list_of(c.add(-1).wake), std::vector<fake*>{&a});
}

// Threads: every waiter is handed out exactly once, and the object is not touched once it is zero.
TEST(WaitGroupCore, ManyThreads) {
  constexpr int kThreads = 4;
  for (int round = 0; round < weft::test::scaled(2000, 50); ++round) {
    auto c = std::make_unique<core>();
    c->add(kThreads);
    std::atomic<int> woken{0}, refused{0};
    std::vector<fake> waiters(kThreads);
    std::vector<std::thread> threads;
    std::atomic<int> start{0};
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        ++start;
        while (start < kThreads) sched_yield();
        if (t % 2 == 0) {
          tsan_ignore_begin();  // as in a section, where commits run: sched/section.h
          const bool pushed = c->push(&waiters[static_cast<std::size_t>(t)]);
          tsan_ignore_end();
          if (!pushed) ++refused;
        }
        const core::outcome o = c->add(-1);
        ASSERT_FALSE(o.negative);
        woken += static_cast<int>(list_of(o.wake).size());
      });
    }
    for (auto& t : threads) t.join();
    ASSERT_EQ(woken + refused, kThreads / 2);
    ASSERT_TRUE(c->zero());
  }
}

}  // namespace
}  // namespace weft::rt
