// What an M takes over with a P, and what it does not.
#include <gtest/gtest.h>
#include <memory>

#include "gmp/m.h"
#include "gmp/p.h"
#include "os/clock.h"
#include "sched/sched_api.h"
#include "sched/switch.h"
#include "sched/sysmon.h"

namespace weft::rt {
namespace {

class Holding : public testing::Test {
 protected:
  // True: whoever leaves the runtime on this M now is not asked to make room.
  bool leaves_undisturbed() {
    m_->border.set_depth(1);
    return m_->border.leave();
  }

  std::unique_ptr<M> m_ = std::make_unique<M>();
  std::unique_ptr<P> first_ = std::make_unique<P>();
  std::unique_ptr<P> second_ = std::make_unique<P>();
};

// It concerned the P that it had then. Otherwise whoever it runs next, and has waited for, is frozen at once.
TEST_F(Holding, ARequestEndsWithTheP) {
  acquire_p(m_.get(), first_.get());
  m_->border.ask();
  EXPECT_FALSE(leaves_undisturbed());
  release_p(m_.get(), p_status::idle);
  acquire_p(m_.get(), second_.get());
  EXPECT_TRUE(leaves_undisturbed());
  m_->border.ask();
  EXPECT_FALSE(leaves_undisturbed());
  release_p(m_.get(), p_status::idle);
}

// Whoever runs first there has had the P since it was taken; whoever comes later has not, nor after a look that did not see
// him. The words of two holders do not belong together.
TEST_F(Holding, SinceWhenASliceLasts) {
  acquire_p(m_.get(), first_.get());
  const std::int64_t taken = first_->held_since.load(std::memory_order_relaxed);
  const std::int64_t now = taken + 5'000'000;
  EXPECT_EQ(slice_began(first_.get(), 0, now), now);  // nobody runs yet
  EXPECT_TRUE(is_untouched(first_.get()));
  count_slice(first_.get());
  EXPECT_FALSE(is_untouched(first_.get()));
  EXPECT_EQ(slice_began(first_.get(), 0, now), taken);
  EXPECT_EQ(slice_began(first_.get(), taken + 1'000'000, now), taken + 1'000'000);
  count_slice(first_.get());
  EXPECT_EQ(slice_began(first_.get(), 0, now), now);
  release_p(m_.get(), p_status::idle);
  EXPECT_EQ(slice_began(second_.get(), 0, now), now);  // nobody has ever taken it
}

// sysmon, which looks later, need not take that for the beginning.
TEST_F(Holding, SinceWhen) {
  const std::int64_t before = nanotime();
  acquire_p(m_.get(), first_.get());
  EXPECT_GE(first_->held_since.load(std::memory_order_relaxed), before);
  EXPECT_LE(first_->held_since.load(std::memory_order_relaxed), nanotime());
  EXPECT_EQ(first_->first_slice.load(std::memory_order_relaxed), slice_of(first_.get()));
  const std::uint32_t slice = slice_of(first_.get());
  release_p(m_.get(), p_status::idle);
  acquire_p(m_.get(), first_.get());
  EXPECT_NE(slice_of(first_.get()), slice);  // not the one that somebody may have been asked to end
  release_p(m_.get(), p_status::idle);
}

}  // namespace
}  // namespace weft::rt
