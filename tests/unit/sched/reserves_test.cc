// What goroutines cost: stacks only when they run, records reused, caches bounded. D4, [L-6]
#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <set>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "fiber/stack.h"
#include "gmp/inside.h"
#include "gmp/sched.h"
#include "os/test_hooks.h"
#include "sched/sched_api.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

class Reserves : public weft::test::over_procs {};

// Nobody watches: who runs when is decided by the goroutines alone.
class OneP : public weft::test::runtime_test {
 protected:
  static void SetUpTestSuite() { os::test_hooks.no_sysmon.set(1); }
  template <class F>
  void run(F&& f) {
    weft::run(std::forward<F>(f), {.max_procs = 1});
  }
};

std::size_t stacks_out() {
  const inside here;
  return the_stacks.stats().live;
}

// All of n have begun, and have stacks. Whoever looked for that in a loop of yields would keep them in the global queue for
// long: it is their turn there at every 61st.
void let_wait(int n) {
  weft::wait_group begun, gate, ended;
  begun.add(n);
  gate.add(1);
  for (int i = 0; i < n; ++i) {
    ended.go([&] {
      begun.done();
      gate.wait();
    });
  }
  begun.wait();
  EXPECT_GE(stacks_out(), static_cast<std::size_t>(n));
  gate.done();
  ended.wait();
}

// "a G that has not run has no stack"
TEST_F(OneP, NoStackBeforeTheFirstRun) {
  run([] {
    const std::size_t before = stacks_out();
    weft::wait_group wg;
    for (int i = 0; i < 1000; ++i) wg.go([] {});
    EXPECT_EQ(stacks_out(), before);
    wg.wait();
  });
}

#if !WEFT_TSAN  // under which stacks rest before they are used again
// "LIFO reuse": those that end without parking run one after the other on one warm stack
TEST_F(OneP, ABatchRunsOnOneStack) {
  run([] {
    std::set<std::uintptr_t> stacks;
    weft::wait_group wg;
    for (int i = 0; i < 1000; ++i) {
      wg.go([&stacks] {
        char here = 0;
        stacks.insert(reinterpret_cast<std::uintptr_t>(&here) / page_size());
      });
    }
    wg.wait();
    EXPECT_LE(stacks.size(), 2u);
  });
}
#endif

// A P keeps a few stacks and gives the others to everybody.
TEST_P(Reserves, StackCachesAreBounded) {
  run([] {
    const int n = weft::test::scaled(3000, 500);
    let_wait(n);
  });
  EXPECT_EQ(weft::test::leaks(), "");
  const std::size_t bound = static_cast<std::size_t>(procs()) * P::kStackCache;
  EXPECT_LE(stacks_out(), bound);
}

// [L-6] between 31 and 64 records per P, the rest on the shared list
TEST_P(Reserves, RecordCachesAreBounded) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < weft::test::scaled(5000, 500); ++i) wg.go([] {});
    wg.wait();
  });
  EXPECT_EQ(weft::test::leaks(), "");
  weft::runtime::stop_the_world([] {
    for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
      EXPECT_LT(sched.p(i)->free_count, P::kFreeHigh);
    }
  });
}

// Retired Ps give everything back.
TEST_P(Reserves, RetiredPsKeepNothing) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < 2000; ++i) wg.go([] { weft::gosched(); });
    wg.wait();
    weft::runtime::gomaxprocs(1);
    weft::runtime::stop_the_world([] {
      for (std::int32_t i = 1; i < kMaxProcs && sched.p(i) != nullptr; ++i) {
        EXPECT_EQ(sched.p(i)->free_count, 0u) << i;
        EXPECT_EQ(sched.p(i)->stack_count, 0u) << i;
        EXPECT_TRUE(sched.p(i)->runq.empty()) << i;
      }
    });
  });
}

// runtime::gc() leaves no idle stack its pages, not even those that the Ps keep warm.
TEST_P(Reserves, GcReturnsIdleStacks) {
  run([] {
    // More than the Ps keep for themselves.
    const int many = 200 + static_cast<int>(P::kStackCache) * weft::runtime::gomaxprocs();
    let_wait(many);
  });
  EXPECT_EQ(weft::test::leaks(), "");
  EXPECT_LT(the_stacks.stats().clean, the_stacks.stats().idle);
  weft::runtime::gc();
  EXPECT_EQ(stacks_out(), 0u);
  EXPECT_EQ(the_stacks.stats().clean, the_stacks.stats().idle);
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < 200; ++i) wg.go([] { weft::gosched(); });
    weft::runtime::gc();  // beside those who use theirs
    wg.wait();
  });
}

WEFT_OVER_PROCS(Reserves);

}  // namespace
}  // namespace weft::rt
