// gmp/global_queue.h: FIFO, and the batch rule. [GQ-1], [GQ-3], X9
#include "gmp/global_queue.h"

#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "gmp/p.h"

namespace weft::rt {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kLate = 1'000 * kMillisecond;  // all have waited for long

std::unique_ptr<G[]> make_gs(std::size_t n) { return std::make_unique<G[]>(n); }

// X9: the table, worked out by another route.
TEST(GlobalQueue, BatchTable) {
  for (std::uint32_t size = 1; size <= 1000; ++size) {
    for (std::uint32_t procs = 1; procs <= 64; ++procs) {
      const std::uint32_t n = global_batch(size, procs, 256);
      std::uint32_t expected = 1;  // a share each, and one more, but never more than there are
      while (expected * procs <= size && expected < size) ++expected;
      if (expected > 128) expected = 128;
      ASSERT_EQ(n, expected) << size << " queued, " << procs << " Ps";
      ASSERT_GE(n, 1u);
      ASSERT_LE(n, size);
    }
  }
  EXPECT_EQ(global_batch(1, 1, 256), 1u);
  EXPECT_EQ(global_batch(10, 4, 256), 3u);
  EXPECT_EQ(global_batch(1000, 4, 256), 128u);
  EXPECT_EQ(global_batch(1000, 64, 256), 16u);
  EXPECT_EQ(global_batch(7, 1, 4), 2u) << "half of a tiny ring";
}

// However many Ps ask one after the other, nobody gets more than half a ring and all is given out.
TEST(GlobalQueue, BatchesUseEverythingUp) {
  for (const std::uint32_t procs : {1u, 2u, 3u, 16u, 64u}) {
    std::uint32_t left = 1000;
    int asked = 0;
    while (left > 0) {
      left -= global_batch(left, procs, 256);
      ASSERT_LT(++asked, 1000);
    }
  }
}

TEST(GlobalQueue, FirstInFirstOut) {
  global_queue q;
  auto gs = make_gs(5);
  EXPECT_TRUE(q.empty());
  EXPECT_EQ(q.pop(kLate), nullptr);
  for (int i = 0; i < 3; ++i) q.push_back(&gs[i]);
  EXPECT_EQ(q.size(), 3u);
  EXPECT_EQ(q.pop(kLate), &gs[0]);
  q.push_back(&gs[3]);
  for (const int i : {1, 2, 3}) {
    G* gp = q.pop(kLate);
    EXPECT_EQ(gp, &gs[i]);
    EXPECT_EQ(gp->schedlink, nullptr) << "on no list any more [RQ-11]";
  }
  EXPECT_TRUE(q.empty());
  EXPECT_EQ(q.pop(kLate), nullptr);
  q.push_back(&gs[4]);
  EXPECT_EQ(q.pop(kLate), &gs[4]) << "usable after having been empty";
}

TEST(GlobalQueue, ChainsKeepTheirOrder) {
  global_queue q;
  auto gs = make_gs(6);
  q.push_back(&gs[0]);
  for (int i = 1; i < 4; ++i) gs[i].schedlink = &gs[i + 1];
  gs[4].schedlink = &gs[5];  // whatever was behind the last one is cut off
  q.push_back(&gs[1], &gs[4], 4);
  EXPECT_EQ(q.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(q.pop(kLate), &gs[i]);
  EXPECT_EQ(q.pop(kLate), nullptr);
}

// Only a P that goes puts at the head, oldest last, so that the order stays. [MP-4]
TEST(GlobalQueue, PushFront) {
  global_queue q;
  auto gs = make_gs(4);
  q.push_back(&gs[2]);
  q.push_front(&gs[1]);
  q.push_front(&gs[0]);
  q.push_back(&gs[3]);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(q.pop(kLate), &gs[i]);
  q.push_front(&gs[0]);
  q.push_back(&gs[1]);
  EXPECT_EQ(q.size(), 2u);
  EXPECT_EQ(q.pop(kLate), &gs[0]);
  EXPECT_EQ(q.pop(kLate), &gs[1]);
}

// Three lists: who is free, who has come back from a call, who was stopped.
struct three_lists {
  global_queue q;
  std::unique_ptr<G[]> free = make_gs(3), returned = make_gs(3), frozen = make_gs(3);
  explicit three_lists(int n) {
    for (int i = 0; i < n; ++i) {
      q.push_frozen(&frozen[i], 0);
      q.push_returned(&returned[i], 0);
      q.push_back(&free[i]);
    }
  }
};

TEST(GlobalQueue, ListsTakeTurns) {
  three_lists l(3);
  EXPECT_EQ(l.q.size(), 9u);
  EXPECT_EQ(l.q.free(), 3u);
  EXPECT_EQ(l.q.returned(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(l.q.pop(kLate), &l.frozen[i]);
    EXPECT_EQ(l.q.pop(kLate), &l.free[i]);
    EXPECT_EQ(l.q.pop(kLate), &l.returned[i]);
  }
  EXPECT_TRUE(l.q.empty());
  EXPECT_EQ(l.q.free() + l.q.returned(), 0u);
  EXPECT_FALSE(l.q.has_frozen());
}

// Who was stopped has had a slice, and waits for a while.
TEST(GlobalQueue, OthersGoBeforeThoseWhoWereStopped) {
  three_lists l(2);
  for (G* gp :
       {&l.free[0], &l.returned[0], &l.free[1], &l.returned[1], &l.frozen[0], &l.frozen[1]}) {
    EXPECT_EQ(l.q.pop(5 * kMillisecond - 1), gp);
  }
}

// A P that has other work.
TEST(GlobalQueue, WhoWasStoppedJustNowCanWait) {
  three_lists l(1);
  EXPECT_EQ(l.q.pop_in_turn(kMillisecond - 1), &l.free[0]);
  EXPECT_EQ(l.q.pop_in_turn(kMillisecond - 1), &l.returned[0]);
  EXPECT_EQ(l.q.pop_in_turn(kMillisecond - 1), nullptr);
  EXPECT_EQ(l.q.pop_in_turn(kMillisecond), &l.frozen[0]);
  EXPECT_EQ(l.q.pop_in_turn(kMillisecond), nullptr);
}

// Who has come back goes first.
TEST(GlobalQueue, WhoHasComeBackGoesFirst) {
  three_lists l(2);
  for (G* gp : {&l.returned[0], &l.returned[1], &l.frozen[0], &l.frozen[1]}) {
    EXPECT_EQ(l.q.pop_frozen(1), gp);
  }
  EXPECT_EQ(l.q.pop_frozen(1), nullptr);
  EXPECT_TRUE(l.q.has_free());
}

// Somebody waits for a lock: one who was stopped may hold it.
TEST(GlobalQueue, HoldersGoFirst) {
  three_lists l(1);
  EXPECT_EQ(l.q.pop_frozen(1, /*holder=*/true), &l.frozen[0]);
  EXPECT_EQ(l.q.pop_frozen(1, /*holder=*/true), &l.returned[0]);
  EXPECT_EQ(l.q.pop_frozen(1, /*holder=*/true), nullptr);
}

// However many were stopped long ago, and are stopped again at once.
TEST(GlobalQueue, WhoHasComeBackDoesNotStarve) {
  global_queue q;
  auto hogs = make_gs(12);
  auto back = make_gs(1);
  for (int i = 0; i < 12; ++i) q.push_frozen(&hogs[i], i * kMillisecond);
  std::int64_t now = 12 * kMillisecond;
  q.push_returned(&back[0], now);
  for (int turn = 0;; ++turn) {
    ASSERT_LT(turn, 2);
    G* gp = q.pop_frozen(now += kMillisecond);
    if (gp == &back[0]) break;
    q.push_frozen(gp, now);
  }
}

// … and those who were stopped do not, beside others who come back all the time.
TEST(GlobalQueue, WhoWasStoppedWaitsNoLongerThanNeeded) {
  three_lists l(1);
  for (int turn = 0;; ++turn) {
    ASSERT_LT(turn, 12);
    G* gp = l.q.pop_frozen(turn * kMillisecond);
    if (gp == &l.frozen[0]) break;
    l.q.push_returned(gp, turn * kMillisecond);
  }
}

// A P that may go to anybody.
TEST(GlobalQueue, FrozenAndFreshTakeTurns) {
  three_lists l(1);
  EXPECT_TRUE(l.q.frozen_are_next(/*fresh=*/false, 1));
  int frozen = 0;
  for (int i = 0; i < 12; ++i) frozen += l.q.frozen_are_next(/*fresh=*/true, 1) ? 1 : 0;
  EXPECT_EQ(frozen, 9) << "somebody has come back";
  EXPECT_EQ(l.q.pop_frozen(1), &l.returned[0]);
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(l.q.frozen_are_next(/*fresh=*/true, 5 * kMillisecond - 1));
  for (int i = 0; i < 12; ++i)
    frozen += l.q.frozen_are_next(/*fresh=*/true, 5 * kMillisecond) ? 1 : 0;
  EXPECT_EQ(frozen, 18) << "who was stopped has waited for long";
  EXPECT_EQ(l.q.pop_frozen(1), &l.frozen[0]);
  EXPECT_FALSE(l.q.frozen_are_next(/*fresh=*/false, 1)) << "there are none";
}

// It has been stopped before those behind it: they are not made younger by that.
TEST(GlobalQueue, TheFirstIsTheOldest) {
  global_queue q;
  auto gs = make_gs(3);
  q.push_frozen(&gs[0], 0);
  q.push_frozen_front(&gs[1], 5 * kMillisecond);
  q.push_back(&gs[2]);
  EXPECT_EQ(q.pop_in_turn(5 * kMillisecond), &gs[1]) << "as old as the one behind";
}

}  // namespace
}  // namespace weft::rt
