// gmp/global_queue.h: FIFO, and the batch rule. [GQ-1], [GQ-3], X9
#include "gmp/global_queue.h"

#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "gmp/p.h"

namespace weft::rt {
namespace {

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
  EXPECT_EQ(q.pop(), nullptr);
  for (int i = 0; i < 3; ++i) q.push_back(&gs[i]);
  EXPECT_EQ(q.size(), 3u);
  EXPECT_EQ(q.pop(), &gs[0]);
  q.push_back(&gs[3]);
  for (const int i : {1, 2, 3}) {
    G* gp = q.pop();
    EXPECT_EQ(gp, &gs[i]);
    EXPECT_EQ(gp->schedlink, nullptr) << "on no list any more [RQ-11]";
  }
  EXPECT_TRUE(q.empty());
  EXPECT_EQ(q.pop(), nullptr);
  q.push_back(&gs[4]);
  EXPECT_EQ(q.pop(), &gs[4]) << "usable after having been empty";
}

TEST(GlobalQueue, ChainsKeepTheirOrder) {
  global_queue q;
  auto gs = make_gs(6);
  q.push_back(&gs[0]);
  for (int i = 1; i < 4; ++i) gs[i].schedlink = &gs[i + 1];
  gs[4].schedlink = &gs[5];  // whatever was behind the last one is cut off
  q.push_back(&gs[1], &gs[4], 4);
  EXPECT_EQ(q.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(q.pop(), &gs[i]);
  EXPECT_EQ(q.pop(), nullptr);
}

// Only a P that goes puts at the head, oldest last, so that the order stays. [MP-4]
TEST(GlobalQueue, PushFront) {
  global_queue q;
  auto gs = make_gs(4);
  q.push_back(&gs[2]);
  q.push_front(&gs[1]);
  q.push_front(&gs[0]);
  q.push_back(&gs[3]);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(q.pop(), &gs[i]);
  q.push_front(&gs[0]);
  q.push_back(&gs[1]);
  EXPECT_EQ(q.size(), 2u);
  EXPECT_EQ(q.pop(), &gs[0]);
  EXPECT_EQ(q.pop(), &gs[1]);
}

}  // namespace
}  // namespace weft::rt
