// base/lock_rank.h: the order itself is checked by the compiler, the bookkeeping here.
#include "base/lock_rank.h"

#include <gtest/gtest.h>
#include <thread>

namespace weft::rt {
namespace {

// The closure: what is reachable over several edges is allowed, the way back is not.
static_assert(may_acquire(lock_rank_bit(lock_rank::sysmon), lock_rank::stack_pool));
static_assert(!may_acquire(lock_rank_bit(lock_rank::stack_pool), lock_rank::sysmon));
static_assert(may_acquire(lock_rank_bit(lock_rank::chan), lock_rank::chan), "select takes several");
static_assert(!may_acquire(lock_rank_bit(lock_rank::timers), lock_rank::timers));
// Unrelated locks are not ordered by accident.
static_assert(!may_acquire(lock_rank_bit(lock_rank::poll_desc), lock_rank::chan));
static_assert(!may_acquire(lock_rank_bit(lock_rank::chan), lock_rank::poll_desc));

TEST(LockRank, EveryRankHasAName) {
  for (const char* name : kLockRankNames) ASSERT_NE(name, nullptr);
  EXPECT_STREQ(lock_rank_name(lock_rank::sysmon), "sysmon");
  EXPECT_STREQ(lock_rank_name(lock_rank::sched), "sched");
  EXPECT_STREQ(lock_rank_name(lock_rank::leaf), "leaf");
}

TEST(LockRank, HeldSetIsPerThread) {
  note_lock_acquired(lock_rank::sched);
  note_lock_acquired(lock_rank::all_g);
  EXPECT_TRUE(lock_rank_held(lock_rank::sched));
  EXPECT_EQ(held_lock_ranks(), lock_rank_bit(lock_rank::sched) | lock_rank_bit(lock_rank::all_g));
  std::thread([] { EXPECT_EQ(held_lock_ranks(), 0u); }).join();
  note_lock_released(lock_rank::sched);  // not nested like scopes: fine
  EXPECT_FALSE(lock_rank_held(lock_rank::sched));
  note_lock_released(lock_rank::all_g);
  EXPECT_EQ(held_lock_ranks(), 0u);
}

TEST(LockRank, SeveralChannels) {
  note_lock_acquired(lock_rank::chan);
  note_lock_acquired(lock_rank::chan);
  note_lock_released(lock_rank::chan);
  EXPECT_TRUE(lock_rank_held(lock_rank::chan)) << "one is still held";
  note_lock_released(lock_rank::chan);
  EXPECT_FALSE(lock_rank_held(lock_rank::chan));
}

TEST(LockRank, TryLockMayComeInAnyOrder) {
  note_lock_acquired(lock_rank::sched);
  note_lock_acquired(lock_rank::chan, /*waits=*/false);
  EXPECT_TRUE(lock_rank_held(lock_rank::chan));
  note_lock_released(lock_rank::chan);
  note_lock_released(lock_rank::sched);
}

TEST(LockRankDeathTest, NamesBothLocks) {
  EXPECT_EXIT(
      {
        note_lock_acquired(lock_rank::all_g);
        note_lock_acquired(lock_rank::sched);
      },
      testing::ExitedWithCode(2), "lock \"sched\" acquired while holding \"all_g\"");
  EXPECT_EXIT(
      {
        note_lock_acquired(lock_rank::sched);
        note_lock_acquired(lock_rank::sched);
      },
      testing::ExitedWithCode(2), "lock \"sched\" acquired while holding \"sched\"");
  EXPECT_EXIT(note_lock_released(lock_rank::sched), testing::ExitedWithCode(2), "not held");
}

}  // namespace
}  // namespace weft::rt
