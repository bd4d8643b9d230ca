// What locks and their kin order, and nothing else. [MM] 7 to 13
//
// Each edge has two programs that differ in one step. In the first the edge orders two accesses to a
// plain variable: under ThreadSanitizer it must be silent. In its racy twin the access comes after
// the step that should publish it: there must be a report, or the runtime orders more than it promises
// and hides the users' races. In other builds the first ones just run.
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <weft/barrier.h>
#include <weft/condition_variable.h>
#include <weft/context.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/once.h>
#include <weft/pool.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/edges.h"
#include "support/in_turn.h"

extern long sync_order_shared;
long sync_order_shared = 0;  // visible elsewhere, or the compiler would know its values

namespace {

using weft::test::both;
using weft::test::edge_case;
using weft::test::edge_name;
using weft::test::expect_needed;
using weft::test::expect_ordered;
using weft::test::expect_race;
using weft::test::one_then_the_other;
using weft::test::one_waits_for_the_other;

void set() { sync_order_shared = 1; }
void use() {
  if (sync_order_shared > 1) std::abort();
}

// release() by the first, then acquire() by the second; in the twin it is set too late.
template <class Release, class Acquire>
int edge(bool in_time, Release release, Acquire acquire) {
  return one_then_the_other(
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
  return one_waits_for_the_other(
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
WEFT_EDGE(recursive_mutex, {
  weft::recursive_mutex m;
  return edge(
      in_time,
      [&] {
        m.lock();
        m.lock();
        m.unlock();
        m.unlock();
      },
      [&] { m.lock(); });
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
WEFT_EDGE(shared_try_lock_shared, {
  weft::shared_mutex m;
  m.lock();
  return edge(
      in_time, [&] { m.unlock(); },
      [&] {
        if (!m.try_lock_shared()) std::abort();
      });
})
WEFT_EDGE(shared_try_lock, {
  weft::shared_mutex m;
  m.lock_shared();
  return edge(
      in_time, [&] { m.unlock_shared(); },
      [&] {
        if (!m.try_lock()) std::abort();
      });
})
// (10) the end of f → the return of any call
WEFT_EDGE(once, {
  weft::once_flag flag;
  return one_then_the_other(
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
WEFT_EDGE(once_func, {
  const auto f = weft::once_func([&] {
    if (in_time) set();
  });
  return one_then_the_other(
      [&] {
        f();
        if (!in_time) set();
      },
      [&] {
        f();
        use();
      });
})
WEFT_EDGE(once_value, {
  const auto f = weft::once_value([&] {
    if (in_time) set();
    return 1;
  });
  return one_then_the_other(
      [&] {
        f();
        if (!in_time) set();
      },
      [&] {
        f();
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
// unlock → the return of a wait, where the unlocker waits next and so hands the mutex over: whoever is given it does not
// lock it
WEFT_EDGE(mutex_handed_over, {
  weft::condition_variable cv;
  weft::mutex m;
  return waited_edge(
      in_time,
      [&] {
        weft::unique_lock<weft::mutex> l(m);
        cv.notify_one();
        cv.wait(l);
      },
      [&] {
        weft::unique_lock<weft::mutex> l(m);
        cv.wait(l);
        cv.notify_one();
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
      in_time, [&] { p.set_value(1); }, [&] { f.wait(); });
})
WEFT_EDGE(future_waited, {
  weft::promise<int> p;
  auto f = p.get_future();
  return waited_edge(
      in_time, [&] { p.set_value(1); }, [&] { f.wait(); });
})

// (9) A try_lock that fails orders nothing.
WEFT_CHILD(failed_try_lock_racy) {
  weft::mutex m;
  return one_then_the_other(
      [&] {
        m.lock();
        set();
      },
      [&] {
        if (m.try_lock()) std::abort();
        use();
      });
}
WEFT_CHILD(failed_shared_try_lock_racy) {
  weft::shared_mutex m;
  return one_then_the_other(
      [&] {
        m.lock();
        set();
      },
      [&] {
        if (m.try_lock()) std::abort();
        use();
      });
}
WEFT_CHILD(failed_try_lock_shared_racy) {
  weft::shared_mutex m;
  return one_then_the_other(
      [&] {
        m.lock();
        set();
      },
      [&] {
        if (m.try_lock_shared()) std::abort();
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

// (1) go → the start of the goroutine
static int goes(bool in_time) {
  return weft::run(
      [=] {
        std::atomic<bool> ran{false};  // relaxed: it orders nothing
        if (in_time) set();
        weft::go([&ran] {
          use();
          ran.store(true, std::memory_order_relaxed);
        });
        if (!in_time) set();
        while (!ran.load(std::memory_order_relaxed)) weft::gosched();
      },
      {.max_procs = 1});
}
WEFT_CHILD(go_ordered) { return goes(true); }
WEFT_CHILD(go_racy) { return goes(false); }
// (11) the return of a wait group's function → wait; of another's function it says nothing
static int group_goes(bool of_the_group) {
  return weft::run(
      [=] {
        weft::wait_group wg;
        std::atomic<bool> ran{false};  // as in goes()
        const auto work = [&ran] {
          set();
          ran.store(true, std::memory_order_relaxed);
        };
        if (of_the_group) {
          wg.go(work);
        } else {
          wg.go([] {});
          weft::go(work);
        }
        while (!ran.load(std::memory_order_relaxed)) weft::gosched();
        wg.wait();
        use();
      },
      {.max_procs = 1});
}
WEFT_CHILD(wait_group_go_ordered) { return group_goes(true); }
WEFT_CHILD(wait_group_go_racy) { return group_goes(false); }
// (17) what precedes a park precedes what follows it, and what others do meanwhile is ordered by nothing
static int parks(bool alone) {
  return both(
      [=] {
        set();
        weft::gosched();
        use();
      },
      [=] {
        if (!alone) use();
      });
}
WEFT_CHILD(park_ordered) { return parks(true); }
WEFT_CHILD(park_racy) { return parks(false); }
// (16) cancel → who sees it: by done, by err, by a wait that ends, in an after_func
WEFT_EDGE(cancel_done, {
  auto [ctx, cancel] = weft::with_cancel(weft::context());
  const auto done = ctx.done();
  return edge(in_time, cancel, [&] { done.recv(); });
})
WEFT_EDGE(cancel_done_waited, {
  auto [ctx, cancel] = weft::with_cancel(weft::context());
  const auto done = ctx.done();
  return waited_edge(in_time, cancel, [&] { done.recv(); });
})
WEFT_EDGE(cancel_error, {
  auto [ctx, cancel] = weft::with_cancel(weft::context());
  return edge(in_time, cancel, [&c = ctx] {
    if (!c.err()) std::abort();
  });
})
WEFT_EDGE(cancel_sleep, {
  auto [ctx, cancel] = weft::with_cancel(weft::context());
  return waited_edge(in_time, cancel, [&c = ctx] { weft::sleep_for(c, std::chrono::hours(1)); });
})
static int calls_after(bool in_time) {
  return weft::run(
      [=] {
        auto [ctx, cancel] = weft::with_cancel(weft::context());
        std::atomic<bool> ran{false};  // as in goes()
        weft::after_func(ctx, [&ran] {
          use();
          ran.store(true, std::memory_order_relaxed);
        });
        if (in_time) set();
        cancel();
        if (!in_time) set();
        while (!ran.load(std::memory_order_relaxed)) weft::gosched();
      },
      {.max_procs = 1});
}
WEFT_CHILD(cancel_after_func_ordered) { return calls_after(true); }
WEFT_CHILD(cancel_after_func_racy) { return calls_after(false); }

namespace {

constexpr edge_case kEdges[] = {
    {"mutex", "MX*"},
    {"mutex_waited", "MX*,CP*,WAKE"},
    {"timed_mutex_waited", "MX*,CP*,WAKE"},
    {"try_lock", "MX*"},
    {"recursive_mutex", "MX*"},
    {"shared_mutex_read", "RX*"},
    {"shared_mutex_read_waited", "RX*,CP*,WAKE"},
    {"shared_mutex_write", "RX*"},
    {"shared_mutex_write_waited", "RX*,CP*,WAKE"},
    {"shared_try_lock_shared", "RX*"},
    {"shared_try_lock", "RX*"},
    {"once", "ON1,MX*"},
    {"once_func", "ON1,MX*"},
    {"once_value", "ON1,MX*"},
    {"wait_group", "WG*"},
    {"wait_group_waited", "WG*,CP*,WAKE"},
    {"wait_group_limited", "WG*,CP*,WAKE"},
    {"notify_one", "CV*,CP*,WAKE"},
    {"notify_all", "CV*,CP*,WAKE"},
    {"condition_variable", "CV*,MX*,CP*,WAKE"},
    {"mutex_handed_over", "CV*,MX*,CP*,WAKE"},
    {"pool", "PL*"},
    {"semaphore", "SE*"},
    {"semaphore_waited", "SE*,CP*,WAKE"},
    {"latch", "WG*,CP*,WAKE"},
    {"barrier", "BA*,CP*,WAKE"},
    {"future", "WG*"},
    {"future_waited", "WG*,CP*,WAKE"},
    {"join", "END,CP*"},
    {"go", "GO"},
    {"wait_group_go", "WG*,CP*,WAKE"},
    {"park", "FIBER"},
    {"cancel_done", "CLOSE"},
    {"cancel_done_waited", "WAKE"},
    {"cancel_error", "CN*,CX*,LK*"},
    {"cancel_sleep", "CN*,CX*,LK*,WAKE"},
    {"cancel_after_func", "GO"},
};

class SyncOrder : public testing::TestWithParam<edge_case> {};
TEST_P(SyncOrder, IsWhatWasPromised) { expect_ordered(GetParam().name); }
TEST_P(SyncOrder, IsNeeded) { expect_needed(GetParam(), "sync_order_shared"); }
TEST_P(SyncOrder, ItsAbsenceIsReported) { expect_race(GetParam().name); }
TEST(SyncRace, FailedTryLock) {
  expect_race("failed_try_lock");
  expect_race("failed_shared_try_lock");
  expect_race("failed_try_lock_shared");
}

INSTANTIATE_TEST_SUITE_P(, SyncOrder, testing::ValuesIn(kEdges), edge_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
