// The slack of a set of timers: there is some as long as there is a crowd, and no longer. And what it knows of the time.
#include "timer/timer_set.h"

#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace weft::rt {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kHour = 3'600'000'000'000;
constexpr std::int64_t kNow =
    1'000 * (std::int64_t{1} << 22);  // a block of the finest level begins

// A set that has just looked ahead and has seen a crowd.
class TimerSlack : public testing::Test {
 protected:
  void crowd(std::size_t n) {
    timers.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      timers[i] = std::make_unique<timer_event>();
      timers[i]->when = kNow + kMs + static_cast<std::int64_t>(i) * 20 * kUs;
      set->start(*timers[i], kNow);
    }
    look(kNow + 500 * kUs);
  }
  // What an M does that finds nothing due.
  void look(std::int64_t now) {
    timer_run run(this, 100);
    EXPECT_EQ(set->take_due(run, now), nullptr);
  }
  // A time-out of another kind, which keeps the set from being empty.
  void far() {
    far_one.when = kNow + kHour;
    set->start(far_one, kNow);
  }

  std::unique_ptr<timer_set> set = std::make_unique<timer_set>();
  std::vector<std::unique_ptr<timer_event>> timers;
  timer_event far_one, lone;
};

TEST_F(TimerSlack, GrowsWithTheCrowd) {
  EXPECT_EQ(set->slack(), 0);
  crowd(2);
  EXPECT_EQ(set->slack(), 0);
  for (auto& e : timers) timer_set::stop(*e);
  crowd(3);
  EXPECT_EQ(set->slack(), 48 * kUs);
  for (auto& e : timers) timer_set::stop(*e);
  crowd(10);
  EXPECT_EQ(set->slack(), 288 * kUs);
}

TEST_F(TimerSlack, EndsWhenTheCrowdIsStopped) {
  crowd(10);
  for (auto& e : timers) EXPECT_TRUE(timer_set::stop(*e));
  EXPECT_EQ(set->slack(), 0);
  lone.when = kNow + 2 * kMs;
  EXPECT_TRUE(set->start(lone, kNow));
  EXPECT_EQ(set->slack(), 0);
}

TEST_F(TimerSlack, EndsBesideATimerThatStays) {
  far();
  crowd(10);
  for (auto& e : timers) EXPECT_TRUE(timer_set::stop(*e));
  EXPECT_EQ(set->slack(), 0);
}

// Whoever sleeps does so until the crowd's end: who starts something earlier is told to wake it.
TEST_F(TimerSlack, ALoneOneInTheStoppedCrowdsTimeIsNotOverslept) {
  far();
  crowd(10);
  for (auto& e : timers) EXPECT_TRUE(timer_set::stop(*e));
  lone.when = kNow + kMs + 100 * kUs;
  EXPECT_TRUE(set->start(lone, kNow));
  EXPECT_TRUE(timer_set::stop(lone));
  lone.when = kNow + 3 * kMs;
  EXPECT_FALSE(set->start(lone, kNow)) << "who sleeps wakes before that anyway";
}

// The crowd has fired, and a far one is next: nobody oversleeps that on the crowd's account.
TEST_F(TimerSlack, IsForgottenWithTheCrowdThatFired) {
  far();
  crowd(10);
  timer_run run(this, 100);
  int fired = 0;
  while (set->take_due(run, kNow + 2 * kMs) != nullptr) ++fired;
  EXPECT_EQ(fired, 10);
  EXPECT_EQ(set->next(), far_one.when);
  lone.when = far_one.when + 100 * kUs;
  EXPECT_FALSE(set->start(lone, kNow)) << "who sleeps wakes before that anyway";
}

// One that is due long before the crowd is not late for it; one that is due just before is of it.
TEST_F(TimerSlack, IsNotForThoseBeforeTheCrowd) {
  crowd(10);
  timer_event just_before;
  just_before.when = kNow + kMs - 100 * kUs;
  EXPECT_TRUE(set->start(just_before, kNow));
  EXPECT_EQ(set->slack(), 288 * kUs);
  lone.when = kNow + 600 * kUs;
  EXPECT_TRUE(set->start(lone, kNow));
  EXPECT_EQ(set->slack(), 0);
  EXPECT_TRUE(timer_set::stop(just_before));
  EXPECT_TRUE(timer_set::stop(lone));
  look(kNow + 700 * kUs);
  EXPECT_EQ(set->slack(), 288 * kUs);
}

// … also if it comes from another set, whose P goes out of use.
TEST_F(TimerSlack, IsNotForThoseThatMoveHere) {
  crowd(10);
  const auto other = std::make_unique<timer_set>();
  lone.when = kNow + 600 * kUs;
  EXPECT_TRUE(other->start(lone, kNow));
  EXPECT_TRUE(other->move_to(*set, kNow));
  EXPECT_EQ(set->next(), lone.when);
  EXPECT_EQ(set->slack(), 0);
  EXPECT_TRUE(timer_set::stop(lone));
}

// … nor for one that comes into the time of a crowd that was stopped, and for which somebody still sleeps.
TEST_F(TimerSlack, MovedIntoAStoppedCrowdsTime) {
  far();
  crowd(10);
  for (auto& e : timers) EXPECT_TRUE(timer_set::stop(*e));
  const auto other = std::make_unique<timer_set>();
  lone.when = kNow + kMs + 100 * kUs;
  EXPECT_TRUE(other->start(lone, kNow));
  ASSERT_LT(set->next(), lone.when);
  EXPECT_TRUE(other->move_to(*set, kNow)) << "nobody is told to wake earlier";
  EXPECT_TRUE(timer_set::stop(lone));
  lone.when = kNow + 3 * kMs;
  EXPECT_TRUE(other->start(lone, kNow));
  EXPECT_FALSE(other->move_to(*set, kNow)) << "who sleeps wakes before that anyway";
  EXPECT_TRUE(timer_set::stop(lone));
}

// Those that move here are of the crowd like all others: it is as large as it looks.
TEST_F(TimerSlack, CountsThoseThatMoveHere) {
  for (const bool moved_first : {true, false}) {
    set = std::make_unique<timer_set>();
    crowd(3);
    const auto other = std::make_unique<timer_set>();
    lone.when = kNow + kMs + 30 * kUs;
    EXPECT_TRUE(other->start(lone, kNow));
    EXPECT_FALSE(other->move_to(*set, kNow));
    EXPECT_EQ(set->slack(), 48 * kUs);
    EXPECT_TRUE(timer_set::stop(moved_first ? lone : *timers[2]));
    EXPECT_EQ(set->slack(), 48 * kUs) << "three are left";
    EXPECT_TRUE(timer_set::stop(*timers[1]));
    EXPECT_EQ(set->slack(), 0);
    timer_set::stop(lone);
    for (auto& e : timers) timer_set::stop(*e);
  }
}

// 0 has other meanings for those who sleep until a time.
TEST_F(TimerSlack, NoTimeIsZero) {
  for (const std::int64_t when : {std::int64_t{0}, -kHour}) {
    lone.when = when;
    EXPECT_TRUE(set->start(lone, kNow));
    EXPECT_EQ(set->next(), 1);
    EXPECT_TRUE(timer_set::stop(lone));
  }
}

TEST_F(TimerSlack, StaysWhileOthersComeAndGo) {
  crowd(10);
  for (int i = 0; i < 100; ++i) {
    lone.when = kNow + kMs + 50 * kUs;
    set->start(lone, kNow);
    EXPECT_TRUE(timer_set::stop(lone));
    EXPECT_EQ(set->slack(), 288 * kUs);
  }
}

TEST_F(TimerSlack, EndsWhenItsPGoesOutOfUse) {
  crowd(10);
  auto other = std::make_unique<timer_set>();
  EXPECT_TRUE(set->move_to(*other, kNow));
  EXPECT_EQ(set->slack(), 0);
  EXPECT_EQ(other->slack(), 0);
}

// More are due than one run may fire: nobody may wait for the others.
// Of two who run what is due, one stops early and tells of what the other is about to fire.
TEST_F(TimerSlack, NothingIsDueAfterTheLastOfTwoRuns) {
  far();
  crowd(3);
  const std::int64_t later = kNow + 2 * kMs;
  timer_run one(this, 1), other(&far_one, 100);
  EXPECT_EQ(set->take_due(one, later), timers[0].get());
  EXPECT_EQ(set->take_due(other, later), timers[1].get());
  EXPECT_EQ(set->take_due(one, later), nullptr);
  EXPECT_EQ(set->next(), timers[2]->when);
  EXPECT_EQ(set->take_due(other, later), timers[2].get());
  EXPECT_EQ(set->take_due(other, later), nullptr);
  EXPECT_GT(set->next(), later);
  EXPECT_LE(set->next(), far_one.when);
}

// Of two who run what is due the one that looked at the clock earlier takes what only the other one knows to be due: it is
// told a time at which it is. (A ticker would take itself for one that has been started anew, and never tick again.)
TEST_F(TimerSlack, FiresAtATimeAtWhichItIsDue) {
  crowd(3);
  const std::int64_t early = timers[0]->when, later = kNow + 2 * kMs;
  timer_run one(this, 100), other(&far_one, 1);
  EXPECT_EQ(set->take_due(one, early), timers[0].get());
  EXPECT_EQ(one.time(), early);
  EXPECT_EQ(set->take_due(other, later), timers[1].get());
  EXPECT_EQ(other.time(), later);
  EXPECT_EQ(set->take_due(one, early), timers[2].get());
  EXPECT_EQ(one.time(), timers[2]->when);
}

TEST_F(TimerSlack, EndsWhenTheCrowdIsOverdue) {
  crowd(10);
  timer_run run(this, 4);
  int fired = 0;
  while (set->take_due(run, kNow + 2 * kMs) != nullptr) ++fired;
  EXPECT_EQ(fired, 4);
  EXPECT_EQ(set->slack(), 0);
  EXPECT_LE(set->next(), kNow + 2 * kMs);
}

// What is started an hour later lies as near as it is: not in a slot of minutes, with all others of the next ones.
TEST(TimerSet, LearnsTheTimeWhenItIsEmpty) {
  const auto set = std::make_unique<timer_set>();
  const auto other = std::make_unique<timer_set>();
  timer_event first, second;
  first.when = kNow + 3 * kMs;
  set->start(first, kNow);
  EXPECT_EQ(set->knows(), kNow);
  second.when = kNow + 2 * kHour;
  set->start(second, kNow + kMs);
  EXPECT_EQ(set->knows(), kNow) << "the first one may be due before that";
  EXPECT_TRUE(timer_set::stop(first));
  EXPECT_TRUE(timer_set::stop(second));
  set->start(second, kNow + kHour);
  EXPECT_EQ(set->knows(), kNow + kHour);
  set->move_to(*other, kNow + kHour);
  EXPECT_EQ(other->knows(), kNow + kHour);
  EXPECT_TRUE(timer_set::stop(second));
}

}  // namespace
}  // namespace weft::rt
