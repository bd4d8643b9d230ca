// sched/queue.cc: where a runnable goroutine goes. [RQ-1], [RQ-2], [GQ-3]; X8.
// No M exists here: the test plays the only one.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "gmp/sched.h"
#include "sched/sched_api.h"
#include "sched/switch.h"
#include "support/patience.h"

namespace weft::rt {
namespace {

constexpr std::int64_t kLate = 1'000'000'000;  // ns: whoever is frozen has waited for long

class Queue : public testing::Test {
 protected:
  // Runnable goroutines that nobody will run.
  std::vector<G*> make(std::size_t n) {
    std::vector<G*> out;
    for (std::size_t i = 0; i < n; ++i) {
      gs_.push_back(std::make_unique<G>());
      gs_.back()->transition<g_status::idle, g_status::dead>();
      gs_.back()->transition<g_status::dead, g_status::runnable>();
      out.push_back(gs_.back().get());
    }
    return out;
  }
  void put(G* gp, bool next = false) { queue_put(m_.get(), p_.get(), gp, next); }
  G* pop_global() {
    const scoped_lock held(sched.lock);
    return sched.runq.pop(kLate);
  }
  void TearDown() override {
    while (pop_global() != nullptr) {
    }
  }

  std::unique_ptr<M> m_ = std::make_unique<M>();
  std::unique_ptr<P> p_ = std::make_unique<P>();
  std::vector<std::unique_ptr<G>> gs_;
};

#ifndef WEFT_CHAOS  // which shuffles, and does without runnext half of the time
// X8. [RQ-2] the 257th put moves exactly the oldest 128 and itself, in order
TEST_F(Queue, OverflowMovesHalfAndItself) {
  const auto gs = make(kRunQueueSize + 1);
  for (std::uint32_t i = 0; i < kRunQueueSize; ++i) put(gs[i]);
  EXPECT_TRUE(sched.runq.empty()) << "they fit";
  EXPECT_EQ(p_->runq.size(), kRunQueueSize);
  put(gs[kRunQueueSize]);
  const std::uint32_t half = kRunQueueSize / 2;
  EXPECT_EQ(sched.runq.size(), half + 1);
  EXPECT_EQ(p_->runq.size(), half);
  for (std::uint32_t i = 0; i < half; ++i) ASSERT_EQ(pop_global(), gs[i]);
  EXPECT_EQ(pop_global(), gs[kRunQueueSize]);
  EXPECT_EQ(pop_global(), nullptr);
  for (std::uint32_t i = half; i < kRunQueueSize; ++i) ASSERT_EQ(p_->runq.pop(), gs[i]);
  EXPECT_TRUE(p_->runq.empty());
}

// Overflows follow each other at the tail of the global queue.
TEST_F(Queue, OverflowsKeepTheirOrder) {
  const std::size_t n = kRunQueueSize * 4;
  const auto gs = make(n);
  for (G* gp : gs) put(gp);
  std::size_t seen = 0;
  std::vector<G*> order;
  while (G* gp = pop_global()) order.push_back(gp);
  while (G* gp = p_->runq.pop()) order.push_back(gp);
  for (G* gp : order) {
    ++seen;
    EXPECT_EQ(gp->schedlink, nullptr);
  }
  EXPECT_EQ(seen, n);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(std::unique(order.begin(), order.end()), order.end()) << "each exactly once";
}

// [RQ-1] the newest is next; the one that it displaces goes to the tail
TEST_F(Queue, NextDisplacesToTheTail) {
  const auto gs = make(4);
  put(gs[0]);
  put(gs[1], true);
  put(gs[2], true);
  put(gs[3], true);
  EXPECT_EQ(p_->runq.peek_next(), gs[3]);
  bool inherit = false;
  EXPECT_EQ(take_local(p_.get(), &inherit), gs[0]) << "a slice begins with the ring";
  EXPECT_FALSE(inherit);
  // order: owner's own counter
  p_->switches.store(1, std::memory_order_relaxed);
  EXPECT_EQ(take_local(p_.get(), &inherit), gs[3]);
  EXPECT_TRUE(inherit) << "[RQ-5] the slice goes on";
  EXPECT_EQ(take_local(p_.get(), &inherit), gs[1]);
  EXPECT_FALSE(inherit);
  EXPECT_EQ(take_local(p_.get(), &inherit), gs[2]);
  EXPECT_EQ(take_local(p_.get(), &inherit), nullptr);
}

// A full ring and a full runnext: the displaced one overflows.
TEST_F(Queue, NextOverflows) {
  const auto gs = make(kRunQueueSize + 2);
  for (std::uint32_t i = 0; i < kRunQueueSize; ++i) put(gs[i]);
  put(gs[kRunQueueSize], true);
  EXPECT_TRUE(sched.runq.empty());
  put(gs[kRunQueueSize + 1], true);
  EXPECT_EQ(sched.runq.size(), kRunQueueSize / 2 + 1);
  EXPECT_EQ(p_->runq.peek_next(), gs[kRunQueueSize + 1]);
  for (std::uint32_t i = 0; i < kRunQueueSize / 2; ++i) ASSERT_EQ(pop_global(), gs[i]);
  EXPECT_EQ(pop_global(), gs[kRunQueueSize]);
}
#endif

// Every kLongestSlice switches the ring goes before runnext, so that a chain of hand-overs ends.
TEST_F(Queue, SlicesEnd) {
  const auto gs = make(2);
  for (const std::uint32_t switches :
       {0u, 1u, kLongestSlice - 1, kLongestSlice, 7 * kLongestSlice}) {
    put(gs[0]);
    EXPECT_EQ(p_->runq.put_next(gs[1]), nullptr);
    // order: owner's own counter
    p_->switches.store(switches, std::memory_order_relaxed);
    bool inherit = false;
    const bool over = switches % kLongestSlice == 0;
    EXPECT_EQ(take_local(p_.get(), &inherit), over ? gs[0] : gs[1]) << switches;
    EXPECT_EQ(inherit, !over);
    EXPECT_EQ(take_local(p_.get(), &inherit), over ? gs[1] : gs[0]) << switches;
    EXPECT_FALSE(inherit);
  }
}

// [GQ-3] the first is returned, the rest of the share goes to the ring, in order
TEST_F(Queue, GlobalBatch) {
  for (const std::int32_t procs : {1, 2, 4}) {
    const auto gs = make(10);
    const scoped_lock held(sched.lock);
    sched.ps.set_count(procs);
    for (G* gp : gs) sched.runq.push_back(gp);
    const std::uint32_t n = global_batch(10, static_cast<std::uint32_t>(procs), kRunQueueSize);
    EXPECT_EQ(global_batch_get(p_.get()), gs[0]);
    EXPECT_EQ(p_->runq.size(), n - 1);
    EXPECT_EQ(sched.runq.size(), 10 - n);
    for (std::uint32_t i = 1; i < n; ++i) EXPECT_EQ(p_->runq.pop(), gs[i]);
    for (std::uint32_t i = n; i < 10; ++i) EXPECT_EQ(sched.runq.pop(kLate), gs[i]);
  }
  sched.ps.set_count(0);
}

// The P goes to the M of one that is frozen: nobody else shall wait there.
TEST_F(Queue, NoBatchBehindOneThatIsFrozen) {
  const auto gs = make(20);
  const scoped_lock held(sched.lock);
  sched.ps.set_count(4);
  gs[0]->frozen = true;
  sched.runq.push_frozen(gs[0], 0);  // long ago
  for (std::size_t i = 1; i < gs.size(); ++i) sched.runq.push_back(gs[i]);
  for (int turn = 0; global_batch_get(p_.get()) != gs[0]; ++turn) {
    ASSERT_LT(turn, 3);
    EXPECT_FALSE(p_->runq.empty()) << "a free one brings others along";
    while (p_->runq.pop() != nullptr) {
    }
  }
  EXPECT_TRUE(p_->runq.empty());
  EXPECT_TRUE(sched.runq.has_free());
  while (sched.runq.pop_free() != nullptr) {
  }
  gs[0]->frozen = false;
  sched.ps.set_count(0);
}

// A goroutine that gives up its M may hold locks that others spin for, until its successor drops them: it sleeps for
// none itself. g0 takes the turn, as the switch counts none.
TEST_F(Queue, TheGlobalQueueIsNotWaitedForOnAGoroutinesStack) {
  const auto gs = make(1);
  std::atomic<int> answers{0};
  std::thread asker;
  {
    const scoped_lock held(sched.lock);
    sched.runq.push_back(gs[0]);
    asker = std::thread([&answers] {
      EXPECT_EQ(take_global(), nullptr);
      ++answers;
    });
    EXPECT_TRUE(weft::test::eventually([&answers] { return answers == 1; })) << "it waits";
  }
  asker.join();
  EXPECT_TRUE(global_is_due(p_.get()));
  EXPECT_EQ(take_global(), gs[0]);
}

// Those who are frozen go on on their own Ms: g0 decides whether it is their turn.
TEST_F(Queue, WhereFrozenOnesWaitG0Decides) {
  const auto gs = make(2);
  {
    const scoped_lock held(sched.lock);
    sched.runq.push_back(gs[0]);
    sched.runq.push_frozen(gs[1], 0);
  }
  EXPECT_EQ(take_global(), nullptr);
  EXPECT_EQ(sched.runq.size(), 2u);
  {
    const scoped_lock held(sched.lock);
    EXPECT_EQ(sched.runq.pop_frozen(kLate), gs[1]);
  }
  EXPECT_EQ(take_global(), gs[0]);
}

// One that belongs to another thread was taken out already: g0 gets it, and hands the P over.
TEST_F(Queue, ALockedOneFromTheGlobalQueueIsLeftToG0) {
  const auto gs = make(2);
  const auto its_m = std::make_unique<M>();
  gs[0]->locked_m = its_m.get();
  {
    const scoped_lock held(sched.lock);
    for (G* gp : gs) sched.runq.push_back(gp);
  }
  bool inherit = true;
  EXPECT_EQ(pick_local(m_.get(), p_.get(), &inherit), nullptr);
  EXPECT_EQ(m_->preselected, gs[0]);
  EXPECT_FALSE(inherit);
  EXPECT_EQ(pick_local(m_.get(), p_.get(), &inherit), gs[1]);
  EXPECT_EQ(pop_global(), nullptr);
}

// Only the arena's memory is known to be zero.
TEST(NewP, HasAnEmptyWheelWhereverItLies) {
  constexpr std::align_val_t kAlign{alignof(P)};
  void* const memory = ::operator new(sizeof(P), kAlign);
  std::memset(memory, 0xff, sizeof(P));
  P* const pp = ::new (memory) P;
  timer_event e;
  e.when = kLate;
  EXPECT_TRUE(pp->timers.start(e, 1));
  EXPECT_EQ(pp->timers.count(), 1u);
  EXPECT_EQ(pp->timers.next(), kLate);
  timer_run run(this, 10);
  EXPECT_EQ(pp->timers.take_due(run, kLate), &e);
  EXPECT_EQ(pp->timers.take_due(run, kLate), nullptr);
  pp->~P();
  ::operator delete(memory, kAlign);
}

}  // namespace
}  // namespace weft::rt
