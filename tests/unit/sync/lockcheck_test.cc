// sync/lockcheck.h: what its tables of fixed size keep, and what they must not take for something else.
#include "sync/lockcheck.h"

#include <array>
#include <cstddef>
#include <gtest/gtest.h>
#include <thread>

#include "sync/made_word.h"

namespace weft::rt {
namespace {

constexpr std::size_t kMany = 200'000;     // far more than are remembered at a time
constexpr std::size_t kHeldAtOnce = 5000;  // more than there is room for

int inversions = 0;
const int here = 0;  // a place in the program

class Lockcheck : public testing::Test {
 protected:
  struct object : made_word {
    object() = default;
  };

  void SetUp() override {
    inversions = 0;
    lock_reports counting;
    counting.inverted = [](const lock_reports::inversion&) { ++inversions; };
    set_lock_reports(counting);
    for (object& o : objects_) o = {};
  }
  // Nothing is left in the tables.
  void TearDown() override {
    for (object& o : objects_) make_anew(o);
    for (object& o : others_) make_anew(o);
    set_lock_reports({});
  }

  // Another one at its address, which is locked once.
  static void make_anew(object& o) {
    o = {};
    lock(o);
    unlock(o);
    o = {};
  }

  static void lock(const object& o, lock_mode mode = lock_mode::exclusive) {
    lockcheck_wants(&o, &here, mode);
    lockcheck_got(&o, &here, mode);
  }
  static void unlock(const object& o, lock_mode mode = lock_mode::exclusive) {
    lockcheck_releases(&o, mode);
  }
  static void lock_in_turn(const object& first, const object& second) {
    lock(first);
    lock(second);
    unlock(second);
    unlock(first);
  }
  static int owners(const object& o) {
    std::size_t at = 0;
    int n = 0;
    while (lockcheck_next_owner(&o, at).owner != 0) ++n;
    return n;
  }

  // Fills the table of those who hold something, until it is emptied again.
  static void hold_too_many() {
    for (std::size_t i = 0; i < kHeldAtOnce; ++i) lockcheck_got(&b_, &here);
  }
  static void unhold_too_many() {
    for (std::size_t i = 0; i < kHeldAtOnce; ++i) unlock(b_);
  }

  // Of all tests, at the same addresses.
  static inline std::array<object, 2> objects_;
  static inline object& a_ = objects_[0];
  static inline object& b_ = objects_[1];
  static inline std::array<object, 2> others_;
};

TEST_F(Lockcheck, OfALockThatIsGoneNoOrderIsLeft) {
  lock_in_turn(a_, b_);
  a_ = {};
  lock_in_turn(b_, a_);
  EXPECT_EQ(inversions, 0);
  lock_in_turn(a_, b_);
  EXPECT_EQ(inversions, 1);
}

TEST_F(Lockcheck, ALockKnowsWhoMadeItOrElseWhoLockedItFirst) {
  lock(a_);
  EXPECT_EQ(a_.made_by(), nullptr);
  EXPECT_EQ(a_.first_lock(), &here);
  unlock(a_);
}

TEST_F(Lockcheck, OrdersOfLocksThatAreGoneTakeNoRoom) {
  for (std::size_t i = 0; i < kMany; ++i) {
    a_ = {};
    lock_in_turn(i % 2 == 0 ? a_ : b_, i % 2 == 0 ? b_ : a_);
  }
  ASSERT_EQ(inversions, 0);
  lock_in_turn(a_, b_);
  EXPECT_EQ(inversions, 1) << "the last one was taken in the other order";
}

// A ring of three, one of whom goes: the others' order is as it was.
TEST_F(Lockcheck, OnlyTheOrdersOfOneThatIsGoneAreForgotten) {
  object& c = others_[0];
  object& d = others_[1];
  lock_in_turn(a_, b_);
  lock_in_turn(b_, c);
  lock_in_turn(c, d);
  make_anew(b_);
  lock_in_turn(c, a_);
  EXPECT_EQ(inversions, 0) << "the way from a to c led over b";
  lock_in_turn(d, c);
  EXPECT_EQ(inversions, 1);
}

TEST_F(Lockcheck, AReaderWhoFoundNoRoomLeavesTheOthersThere) {
  std::thread([] {
    lock(a_, lock_mode::shared);
    hold_too_many();
  }).join();
  ASSERT_EQ(owners(a_), 1);
  lock(a_, lock_mode::shared);
  ASSERT_EQ(owners(a_), 1) << "the table is too large for this test";
  unlock(a_, lock_mode::shared);
  EXPECT_EQ(owners(a_), 1);
  unhold_too_many();
  unlock(a_, lock_mode::shared);  // one may lock and another unlock
  EXPECT_EQ(owners(a_), 0);
}

// … and is counted off when it goes, though nobody else reads: who unlocks later for somebody else is not taken for it.
TEST_F(Lockcheck, AReaderWhoFoundNoRoomIsForgottenWhenItGoes) {
  std::thread(hold_too_many).join();
  lock(a_, lock_mode::shared);
  ASSERT_EQ(owners(a_), 0) << "the table is too large for this test";
  unlock(a_, lock_mode::shared);
  unhold_too_many();
  std::thread([] { lock(a_, lock_mode::shared); }).join();
  ASSERT_EQ(owners(a_), 1);
  unlock(a_, lock_mode::shared);
  EXPECT_EQ(owners(a_), 0);
}

TEST_F(Lockcheck, AWriterWhoFoundNoRoomToQueueLeavesTheOthersThere) {
  std::thread([] {
    lockcheck_got(&a_, &here, lock_mode::queued);
    hold_too_many();
  }).join();
  lockcheck_got(&a_, &here, lock_mode::queued);
  unlock(a_, lock_mode::queued);
  EXPECT_EQ(owners(a_), 1);
  unhold_too_many();
  make_anew(a_);
  EXPECT_EQ(owners(a_), 0) << "it is another one now";
}

}  // namespace
}  // namespace weft::rt
