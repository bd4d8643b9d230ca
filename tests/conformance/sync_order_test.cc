// What locks and their kin order, and nothing else. [MM] 7 to 13
//
// Each edge has two programs that differ in one step. In the first the edge orders two accesses to a
// plain variable: under ThreadSanitizer it must be silent. In its racy twin the access comes after
// the step that should publish it: there must be a report, or the runtime orders more than it promises
// and hides the users' races. In other builds the first ones just run.
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <weft/barrier.h>
#include <weft/condition_variable.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/once.h>
#include <weft/pool.h>
#include <weft/run.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/child.h"
#include "support/fixture.h"
#include "support/in_turn.h"

extern long sync_order_shared;
long sync_order_shared = 0;  // visible elsewhere, or the compiler would know its values

namespace {

using weft::test::both;
using weft::test::run_child;

void set() { sync_order_shared = 1; }
void use() {
  if (sync_order_shared > 1) std::abort();
}

// release() by the first, then acquire() by the second; in the twin it is set too late.
template <class Release, class Acquire>
int edge(bool in_time, Release release, Acquire acquire) {
  return both(
      [&] {
        if (in_time) set();
        release();
        if (!in_time) set();
      },
      [&] {
        acquire();
        use();
      });
}

// acquire() waits before release() comes.
template <class Release, class Acquire>
int waited_edge(bool in_time, Release release, Acquire acquire) {
  return both(
      [&] {
        acquire();
        use();
      },
      [&] {
        if (in_time) set();
        release();
        if (!in_time) set();
      });
}

}  // namespace

#define WEFT_EDGE(name, ...)                                                     \
  static int name##_edge(bool in_time){__VA_ARGS__} WEFT_CHILD(name##_ordered) { \
    return name##_edge(true);                                                    \
  }                                                                              \
  WEFT_CHILD(name##_racy) { return name##_edge(false); }

// (7) unlock → lock
WEFT_EDGE(mutex, {
  weft::mutex m;
  m.lock();
  return edge(
      in_time, [&] { m.unlock(); }, [&] { m.lock(); });
})
WEFT_EDGE(mutex_waited, {
  weft::mutex m;
  m.lock();
  return waited_edge(
      in_time, [&] { m.unlock(); }, [&] { m.lock(); });
})
WEFT_EDGE(timed_mutex_waited, {
  weft::timed_mutex m;
  m.lock();
  return waited_edge(
      in_time, [&] { m.unlock(); }, [&] { m.try_lock_for(std::chrono::hours(1)); });
})
// (9) a successful try_lock is a lock
WEFT_EDGE(try_lock, {
  weft::mutex m;
  m.lock();
  return edge(
      in_time, [&] { m.unlock(); },
      [&] {
        if (!m.try_lock()) std::abort();
      });
})
// (8) unlock → lock_shared, unlock_shared → lock
WEFT_EDGE(shared_mutex_read, {
  weft::shared_mutex m;
  m.lock();
  return edge(
      in_time, [&] { m.unlock(); }, [&] { m.lock_shared(); });
})
WEFT_EDGE(shared_mutex_read_waited, {
  weft::shared_mutex m;
  m.lock();
  return waited_edge(
      in_time, [&] { m.unlock(); }, [&] { m.lock_shared(); });
})
WEFT_EDGE(shared_mutex_write, {
  weft::shared_mutex m;
  m.lock_shared();
  return edge(
      in_time, [&] { m.unlock_shared(); }, [&] { m.lock(); });
})
WEFT_EDGE(shared_mutex_write_waited, {
  weft::shared_mutex m;
  m.lock_shared();
  return waited_edge(
      in_time, [&] { m.unlock_shared(); }, [&] { m.lock(); });
})
// (10) the end of f → the return of any call
WEFT_EDGE(once, {
  weft::once_flag flag;
  return both(
      [&] {
        weft::call_once(flag, [&] {
          if (in_time) set();
        });
        if (!in_time) set();
      },
      [&] {
        weft::call_once(flag, [] {});
        use();
      });
})
// (11) done → wait
WEFT_EDGE(wait_group, {
  weft::wait_group wg;
  wg.add();
  return edge(
      in_time, [&] { wg.done(); }, [&] { wg.wait(); });
})
WEFT_EDGE(wait_group_waited, {
  weft::wait_group wg;
  wg.add();
  return waited_edge(
      in_time, [&] { wg.done(); }, [&] { wg.wait(); });
})
WEFT_EDGE(wait_group_limited, {
  weft::wait_group wg;
  wg.add();
  return waited_edge(
      in_time, [&] { wg.done(); }, [&] { wg.wait_for(std::chrono::hours(1)); });
})
// (12) notify → wait; a lock of one's own, so that it is not the mutex that orders
struct no_lock {
  void lock() {}
  void unlock() {}
};
WEFT_EDGE(notify_one, {
  weft::condition_variable_any cv;
  no_lock l;
  return waited_edge(
      in_time, [&] { cv.notify_one(); }, [&] { cv.wait(l); });
})
WEFT_EDGE(notify_all, {
  weft::condition_variable_any cv;
  no_lock l;
  return waited_edge(
      in_time, [&] { cv.notify_all(); }, [&] { cv.wait(l); });
})
WEFT_EDGE(condition_variable, {
  weft::condition_variable cv;
  weft::mutex m;
  return waited_edge(
      in_time, [&] { cv.notify_all(); },
      [&] {
        weft::unique_lock<weft::mutex> l(m);
        cv.wait(l);
      });
})
// (13) put → get
WEFT_EDGE(pool, {
  weft::pool<int> p;
  return edge(
      in_time, [&] { p.put(1); },
      [&] {
        if (p.get() != 1) std::abort();
      });
})
// and what std adds
WEFT_EDGE(semaphore, {
  weft::binary_semaphore s(0);
  return edge(
      in_time, [&] { s.release(); }, [&] { s.acquire(); });
})
WEFT_EDGE(semaphore_waited, {
  weft::binary_semaphore s(0);
  return waited_edge(
      in_time, [&] { s.release(); }, [&] { s.acquire(); });
})
WEFT_EDGE(latch, {
  weft::latch l(1);
  return waited_edge(
      in_time, [&] { l.count_down(); }, [&] { l.wait(); });
})
WEFT_EDGE(barrier, {
  weft::barrier b(2);
  return waited_edge(
      in_time, [&] { static_cast<void>(b.arrive()); }, [&] { b.arrive_and_wait(); });
})
WEFT_EDGE(future, {
  weft::promise<int> p;
  auto f = p.get_future();
  return edge(
      in_time, [&] { p.set_value(1); }, [&] { f.get(); });
})
WEFT_EDGE(future_waited, {
  weft::promise<int> p;
  auto f = p.get_future();
  return waited_edge(
      in_time, [&] { p.set_value(1); }, [&] { f.get(); });
})

// (9) A try_lock that fails orders nothing.
WEFT_CHILD(failed_try_lock_racy) {
  weft::mutex m;
  return both(
      [&] {
        m.lock();
        set();
      },
      [&] {
        if (m.try_lock()) std::abort();
        use();
      });
}
// A goroutine that ends orders nothing but its join.
WEFT_CHILD(join_ordered) {
  return weft::run(
      [] {
        weft::thread t(set);
        t.join();
        use();
      },
      {.max_procs = 1});
}
WEFT_CHILD(join_racy) {
  return weft::run(
      [] {
        weft::thread t(set);
        weft::gosched();
        use();
        t.join();
      },
      {.max_procs = 1});
}

namespace {

constexpr const char* kReport = "WARNING: ThreadSanitizer: data race";

class SyncOrder : public testing::TestWithParam<const char*> {};

TEST_P(SyncOrder, IsWhatWasPromised) {
  const auto ordered = run_child(std::string(GetParam()) + "_ordered");
  EXPECT_EQ(ordered.output.find(kReport), std::string::npos) << ordered.output;
  EXPECT_EQ(ordered.status, 0) << ordered.output;
}

class SyncRace : public testing::TestWithParam<const char*> {};

TEST_P(SyncRace, IsReported) {
  if (!WEFT_TEST_TSAN) GTEST_SKIP() << "needs ThreadSanitizer";
  const auto racy = run_child(std::string(GetParam()) + "_racy");
  EXPECT_NE(racy.output.find(kReport), std::string::npos) << "the twin has a race that is hidden\n"
                                                          << racy.output;
}

std::string plain_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

#define WEFT_EDGES                                                                                 \
  "mutex", "mutex_waited", "timed_mutex_waited", "try_lock", "shared_mutex_read",                  \
      "shared_mutex_read_waited", "shared_mutex_write", "shared_mutex_write_waited", "once",       \
      "wait_group", "wait_group_waited", "wait_group_limited", "notify_one", "notify_all",         \
      "condition_variable", "pool", "semaphore", "semaphore_waited", "latch", "barrier", "future", \
      "future_waited", "join"

INSTANTIATE_TEST_SUITE_P(, SyncOrder, testing::Values(WEFT_EDGES), plain_name);
INSTANTIATE_TEST_SUITE_P(, SyncRace, testing::Values(WEFT_EDGES, "failed_try_lock"), plain_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
