// The wheel against a sorted list: whatever is inserted, removed and advanced over, the same events
// come out in the same order.
#include "timer/timer_wheel.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "support/patience.h"
#include "support/seed.h"

namespace weft::rt {
namespace {

template <class Wheel>
class tester {
 public:
  timer_event* insert(std::int64_t when) {
    auto e = std::make_unique<timer_event>();
    e->when = when;
    timer_event* p = e.get();
    wheel_->insert(*p);
    pending_.emplace(p, std::move(e));
    return p;
  }
  void remove(timer_event* e) {
    wheel_->remove(*e);
    pending_.erase(e);
  }
  // All that was due, and nothing else, in the order of time.
  void advance(std::int64_t now) {
    wheel_->advance(now);
    std::int64_t last = -1;
    while (timer_event* e = wheel_->pop_due()) {
      ASSERT_LE(e->when, now) << "fires early";
      ASSERT_GE(e->when, last) << "out of order";
      last = e->when;
      ASSERT_EQ(pending_.erase(e), 1u);
    }
    for (const auto& [e, owner] : pending_) ASSERT_GT(e->when, now) << "overdue";
    const std::int64_t next = wheel_->next();
    ASSERT_EQ(next == kNever, pending_.empty());
    for (const auto& [e, owner] : pending_) ASSERT_LE(next, e->when);
  }
  std::int64_t next() { return wheel_->next(); }
  timer_event* any(std::uint64_t n) {
    auto it = pending_.begin();
    std::advance(it, static_cast<long>(n % pending_.size()));
    return it->first;
  }
  std::size_t size() const { return pending_.size(); }

 private:
  std::unique_ptr<Wheel> wheel_ = std::make_unique<Wheel>();
  std::map<timer_event*, std::unique_ptr<timer_event>> pending_;
};

template <class Wheel>
class TimerWheel : public testing::Test {};
using wheels = testing::Types<timer_wheel<14, 8>, timer_wheel<10, 6>, timer_wheel<2, 2>,
                              timer_wheel<61, 1>, timer_wheel<1, 1>>;
TYPED_TEST_SUITE(TimerWheel, wheels);

TYPED_TEST(TimerWheel, IsEmptyAtFirst) {
  tester<TypeParam> t;
  EXPECT_EQ(t.next(), kNever);
  t.advance(1'000'000'000);
}

TYPED_TEST(TimerWheel, NextIsExactWithoutRemovals) {
  tester<TypeParam> t;
  t.insert(700'000'000'000);
  EXPECT_EQ(t.next(), 700'000'000'000);
  t.insert(5'000'000);
  t.insert(90'000);
  EXPECT_EQ(t.next(), 90'000);
  t.insert(123);
  EXPECT_EQ(t.next(), 123);
  t.advance(123);
  EXPECT_EQ(t.next(), 90'000);
}

TYPED_TEST(TimerWheel, ThePastIsDue) {
  tester<TypeParam> t;
  t.advance(1'000'000);
  t.insert(0);
  t.insert(999'999);
  t.insert(1'000'000);
  EXPECT_EQ(t.next(), 0);
  t.advance(1'000'000);
  EXPECT_EQ(t.size(), 0u);
}

TYPED_TEST(TimerWheel, TheFarFutureKeeps) {
  tester<TypeParam> t;
  t.insert(kNever - 1);
  t.insert(kNever - 2);
  t.advance(kNever - 3);
  EXPECT_EQ(t.size(), 2u);
  t.advance(kNever - 2);
  EXPECT_EQ(t.size(), 1u);
  t.advance(kNever - 1);
  EXPECT_EQ(t.size(), 0u);
}

TYPED_TEST(TimerWheel, EveryDigitCarries) {
  tester<TypeParam> t;
  std::int64_t now = 0;
  for (int bit = 0; bit < 62; ++bit) {
    const std::int64_t edge = std::int64_t{1} << bit;
    for (const int d : {-1, 0, 1}) t.insert(std::max(edge + d, now));
    t.advance(now = std::max(edge - 1, now));
    t.advance(now = std::max(edge, now));
  }
  t.advance(kNever - 1);
  EXPECT_EQ(t.size(), 0u);
}

TYPED_TEST(TimerWheel, RandomlyAgreesWithASortedList) {
  weft::test::random_source random(1);
  for (int round = 0; round < 30; ++round) {
    tester<TypeParam> t;
    std::int64_t now = random.below(1000) * 1'000'000'000LL;
    t.advance(now);
    for (int step = 0; step < 400; ++step) {
      const int magnitude = random.below(45);
      const std::int64_t d = (std::int64_t{1} << magnitude) + random.below(1 << 20);
      switch (random.below(4)) {
        case 0:
        case 1: t.insert(std::max<std::int64_t>(now + d - (1 << 19), 0)); break;
        case 2:
          if (t.size() != 0) t.remove(t.any(static_cast<std::uint64_t>(random.below(1 << 20))));
          break;
        default: t.advance(now += random.below(3) == 0 ? d : random.below(100'000)); break;
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// However many there are, and wherever the time stands: few are touched at once, some are stopped meanwhile, and all
// others come out when they are due.
TEST(TimerWheelAll, FewAtOnce) {
  weft::test::random_source random(2);
  constexpr std::int64_t kMs = 1'000'000;
  for (int round = 0; round < weft::test::scaled(8, 2); ++round) {
    auto wheel = std::make_unique<timer_wheel<14, 8>>();
    const std::int64_t began = random.below(1'000'000) * kMs;
    const bool often = round % 2 == 0;
    const std::int64_t step = often ? kMs / 4 : 1100 * kMs + random.below(200) * kMs;
    wheel->advance(began);
    std::vector<timer_event> events(20'000);  // within six seconds
    std::multiset<std::int64_t> pending;
    for (timer_event& e : events) {
      e.when = began + random.below(6000) * kMs + random.below(kMs);
      wheel->insert(e);
      pending.insert(e.when);
    }
    std::size_t over = 0;
    unsigned most = 0;
    for (std::int64_t now = began; !pending.empty(); now += step) {
      ASSERT_LE(now, began + 6000 * kMs + step);
      most = std::max(most, wheel->advance(now));
      while (timer_event* e = wheel->pop_due()) {
        ASSERT_LE(e->when, now);
        ASSERT_GT(e->when, now - step);
        pending.erase(pending.find(e->when));
        ++over;
      }
      ASSERT_LE(wheel->next(), pending.empty() ? kNever : *pending.begin());
      ASSERT_EQ(wheel->next() == kNever, pending.empty());
      auto& any = events[static_cast<std::size_t>(random.below(20'000))];
      if (any.link != nullptr && random.below(4) == 0) {
        wheel->remove(any);
        pending.erase(pending.find(any.when));
        ++over;
      }
    }
    EXPECT_EQ(over, events.size());
    EXPECT_TRUE(!often || most < 300u)
        << most;  // 14 in 4 ms on average, and the wheel's own allowance
  }
}

// A wheel that was empty for long, or always, knows what time it is when it is used again.
TEST(TimerWheelAll, AnEmptyOneSkipsTime) {
  constexpr std::int64_t kMs = 1'000'000, kNow = 3'600'000 * kMs;
  auto wheel = std::make_unique<timer_wheel<14, 8>>();
  for (int turn = 0; turn < 3; ++turn) {
    const std::int64_t began = kNow * (turn + 1);
    wheel->skip_to(began);
    std::vector<timer_event> events(2000);
    for (std::size_t i = 0; i < events.size(); ++i) {
      events[i].when = began + static_cast<std::int64_t>(i) * kMs;
      wheel->insert(events[i]);
    }
    EXPECT_EQ(wheel->next(), began);
    EXPECT_LT(wheel->advance(began), 300u) << "they came down in one piece";
    wheel->skip_to(began - kNow);  // it never goes back
    std::size_t n = 0;
    for (std::int64_t now = began; now <= began + 2000 * kMs; now += kMs) {
      wheel->advance(now);
      while (timer_event* e = wheel->pop_due()) {
        EXPECT_EQ(e, &events[n]);
        ++n;
      }
    }
    EXPECT_EQ(n, events.size());
  }
}

TEST(TimerWheelAll, TakesEverything) {
  auto wheel = std::make_unique<timer_wheel<14, 8>>();
  std::vector<timer_event> events(1000);
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].when = static_cast<std::int64_t>(i * i * i * 1000);
    wheel->insert(events[i]);
  }
  wheel->advance(1'000'000);
  std::size_t n = 0;
  for (timer_event* e = wheel->take_all(); e != nullptr; e = e->next) ++n;
  EXPECT_EQ(n, events.size());
  EXPECT_EQ(wheel->next(), kNever);
  EXPECT_EQ(wheel->pop_due(), nullptr);
}

}  // namespace
}  // namespace weft::rt
