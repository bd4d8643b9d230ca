// The counters behind lock_os_thread() and pin_to_thread(): sched/os_thread.cc, sched/staying.cc.
#include <cstdint>
#include <limits>
#include <thread>

#include <weft/go.h>
#include <weft/panic.h>
#include <weft/runtime.h>

#include "base/tls.h"
#include "gmp/m.h"
#include "sched/sched_api.h"
#include "sched/staying.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

using runtime::lock_os_thread;
using runtime::unlock_os_thread;

class OsThread : public test::over_procs {};

struct counts {
  std::uint32_t user, runtime;
  bool linked;
  bool operator==(const counts&) const = default;
};

counts now() {
  M* mp = enter_runtime();
  const counts c{mp->locked_by_user, mp->locked_by_runtime, mp->locked_g == mp->curg};
  EXPECT_EQ(mp->curg->locked_m, c.linked ? mp : nullptr);
  leave_runtime(mp);
  return c;
}

// Go: TestLockOSThreadNesting
TEST_P(OsThread, Counts) {
  run([] {
    gosched();  // from here on no thread is lent to it
    EXPECT_EQ(now(), (counts{0, 0, false}));
    lock_os_thread();
    lock_os_thread();
    EXPECT_EQ(now(), (counts{2, 0, true}));
    unlock_os_thread();
    EXPECT_EQ(now(), (counts{1, 0, true}));
    unlock_os_thread();
    EXPECT_EQ(now(), (counts{0, 0, false}));
    unlock_os_thread();
    EXPECT_EQ(now(), (counts{0, 0, false}));
  });
}

TEST_P(OsThread, PinsAreIndependent) {
  run([] {
    gosched();
    ASSERT_TRUE(pin_to_thread());
    lock_os_thread();
    ASSERT_TRUE(pin_to_thread());
    EXPECT_EQ(now(), (counts{1, 2, true}));
    unpin_from_thread();
    unpin_from_thread();
    EXPECT_EQ(now(), (counts{1, 0, true})) << "the user's lock outlives the pin";
    ASSERT_TRUE(pin_to_thread());
    unlock_os_thread();
    unlock_os_thread();
    EXPECT_EQ(now(), (counts{0, 1, true})) << "the user cannot undo the pin";
    unpin_from_thread();
    EXPECT_EQ(now(), (counts{0, 0, false}));
  });
}

// [LK-1]
TEST_P(OsThread, Overflow) {
  run([] {
    lock_os_thread();
    current_m()->locked_by_user = std::numeric_limits<std::uint32_t>::max();
    try {
      lock_os_thread();
      ADD_FAILURE() << "no overflow";
    } catch (const panic_error& e) {
      EXPECT_STREQ(e.what(), "LockOSThread nesting overflow");
    }
    EXPECT_EQ(now(), (counts{std::numeric_limits<std::uint32_t>::max(), 0, true}));
    current_m()->locked_by_user = 1;
    unlock_os_thread();
    EXPECT_EQ(now(), (counts{0, 0, false}));
  });
}

// Go: TestEnsureDropM. [EX-3] Records of threads that have left are used again.
TEST_P(OsThread, RecordsAreReused) {
  const auto records = [] {
    const scoped_lock held(sched.lock);
    int n = 0;
    for (const M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) ++n;
    return n;
  };
  const auto all_idle = [] {
    const scoped_lock held(sched.lock);
    return sched.idle_m_count == sched.m_count;
  };
  const auto come_and_go = [&](int n) {
    for (int i = 0; i < n; ++i) {
      std::thread([] { weft::run([] {}, {.lock_main_thread = true}); }).join();
      weft::run([] { lock_os_thread(); });
      EXPECT_TRUE(test::eventually(all_idle));  // its thread may be on its way still
    }
  };
  come_and_go(10);
  const int before = records();
  come_and_go(test::scaled(200, 10));
  EXPECT_LE(records(), before + procs() + 2);
}

// Go: TestEnsureBindM. A thread that lends itself to a goroutine runs it itself, every time.
TEST_P(OsThread, ALentThreadIsAlwaysTheSame) {
  std::thread([] {
    const int self = gettid();
    for (int i = 0; i < 20; ++i) {
      weft::run(
          [self] {
            EXPECT_EQ(gettid(), self);
            weft::gosched();
            EXPECT_EQ(gettid(), self);
          },
          {.lock_main_thread = true});
    }
  }).join();
}

WEFT_OVER_PROCS(OsThread);

}  // namespace
}  // namespace weft::rt
