// See fixture.h.
//
// A goroutine that has woken its waiter may still be on its way out, so the number of goroutines is
// waited for. Once it is zero, nothing else can change, but for a helper of the runtime's own that may
// be about (start_helper()), and the books must balance exactly: every stack that the pool has handed out
// lies in a P's cache, every record on a free list.
#include "support/fixture.h"

#include <sstream>
#include <string>

#include <weft/runtime.h>

#ifdef WEFT_TEST_INTERNALS
#include "fiber/stack.h"
#include "gmp/arena.h"
#include "gmp/inside.h"
#include "gmp/sched.h"
#endif

namespace weft::test {

#ifdef WEFT_TEST_INTERNALS

namespace {

struct books {
  std::size_t cached_stacks = 0;
  std::size_t free_records = 0;
  std::size_t records = 0;
  std::size_t not_dead = 0;
};

void count_record(rt::G& g, void* arg) {
  auto* b = static_cast<books*>(arg);
  ++b->records;
  b->not_dead += g.in(rt::g_status::dead) ? 0 : 1;
}

// Requires: the world is stopped.
books look_through() {
  books b;
  for (std::int32_t i = 0; i < rt::kMaxProcs && rt::sched.p(i) != nullptr; ++i) {
    b.cached_stacks += rt::sched.p(i)->stack_count;
    b.free_records += rt::sched.p(i)->free_count;
  }
  const rt::scoped_lock held(rt::sched.gfree_lock);
  b.free_records += rt::sched.free_g_count;
  rt::for_each_g(count_record, &b);
  return b;
}

}  // namespace

bool somebody_was_robbed() {
  const rt::inside here;
  const rt::scoped_lock held(rt::sched.lock);
  return rt::sched.robbed_count != 0;
}

static void check_books(std::ostringstream& out) {
  const books b = runtime::stop_the_world(look_through);
  const rt::stack_stats stacks = rt::the_stacks.stats();
  if (stacks.live != b.cached_stacks) {
    out << stacks.live << " stacks are out, " << b.cached_stacks << " of them in caches of Ps\n";
  }
  if (stacks.sized != 0) {
    out << stacks.sized << " stacks of other sizes are out\n";
  }
  if (b.not_dead != 0) {
    out << b.not_dead << " goroutine records are not dead\n";
  }
  if (b.records != b.free_records) {
    out << b.records << " goroutine records exist, " << b.free_records << " are on free lists\n";
  }
  // order: a statistic; nobody blocks any more
  if (const auto n = rt::sched.foreign.blocked(); n != 0) {
    out << n << " plain threads are counted as blocked\n";
  }
  // order: a statistic, likewise
  if (const auto n = rt::sched.io_waiters.load(std::memory_order_relaxed); n != 0) {
    out << n << " goroutines are counted as waiting for descriptors\n";
  }
}

#else

bool somebody_was_robbed() { return true; }

static void check_books(std::ostringstream&) {}

#endif

std::string leaks() {
  std::ostringstream out;
  if (!eventually([] { return runtime::num_goroutine() == 0; })) {
    out << runtime::num_goroutine() << " goroutines still exist\n";
    return out.str();
  }
  static_cast<void>(eventually(
      [&out] {
        out.str("");
        check_books(out);
        return out.str().empty();
      },
      std::chrono::seconds(2)));
  return out.str();
}

void runtime_test::SetUp() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  watchdog_.emplace(std::string(info->test_suite_name()) + "." + info->name());
  ASSERT_EQ(leaks(), "") << "before the test";
}

void runtime_test::TearDown() {
  EXPECT_EQ(leaks(), "");
  watchdog_.reset();
}

void over_procs::SetUp() {
  runtime::gomaxprocs(procs());
  runtime_test::SetUp();
}

}  // namespace weft::test
