// What run() orders, and what plain threads and goroutines order between them. [MM] 1, 15, and 3, 7, 11 from thread to
// goroutine and back
//
// Each edge has two programs that differ in one step, as in sync_order_test.cc: the first is silent under
// ThreadSanitizer, its racy twin is not.
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <thread>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "support/edges.h"
#include "support/in_turn.h"
#include "support/thread_state.h"

extern long plain_order_shared;
long plain_order_shared = 0;  // visible elsewhere, or the compiler would know its values

namespace {

using weft::test::both;
using weft::test::edge_case;
using weft::test::edge_name;
using weft::test::expect_needed;
using weft::test::expect_ordered;
using weft::test::expect_race;

void set() { plain_order_shared = 1; }
void use() {
  if (plain_order_shared > 1) std::abort();
}

// An order in time and in nothing else.
class signal_flag {
 public:
  void raise() { raised_.store(true, std::memory_order_relaxed); }
  void wait() const {  // on a goroutine, or on a plain thread that has not set anything
    while (!raised_.load(std::memory_order_relaxed)) {
      weft::gosched();
      sched_yield();
    }
  }
  // On a plain thread that has: TSan knows the last steps only of each thread, and reports no race with one before those. So
  // these are none to it.
  WEFT_TEST_OF_THE_THREAD void wait_unseen() const {
    while (!raised_.load(std::memory_order_relaxed)) sched_yield();
  }

 private:
  std::atomic<bool> raised_{false};
};

// body() on a plain thread while the runtime is up and its only P is in use: run() cannot take that, and the goroutine
// of another thread runs it.
template <class Body>
int beside_a_goroutine(Body body) {
  signal_flag over;
  std::thread plain;
  return weft::run(
      [&] {
        plain = std::thread([&] {
          body();
          over.raise();
        });
        over.wait();
        plain.join();
      },
      {.max_procs = 1});
}

// (15) What comes before run() → its function. In the twin it is another thread's, and comes after that one's own go():
// that starts something, but nothing of run()'s.
int starts(bool in_time) {
  signal_flag raised, over;
  std::thread other;
  if (in_time) {
    set();
  } else {
    other = std::thread([&] {
      weft::go([] {});
      set();
      raised.raise();
      over.wait_unseen();  // a thread that ends, and has used weft, comes to locks of the scheduler's again
    });
    raised.wait();
  }
  weft::run(use);
  over.raise();
  if (other.joinable()) other.join();
  return 0;
}

// The end of run()'s function → the return of run(). In the twin another goroutine has done it, for which run() does not
// wait.
int returns(bool of_the_function) {
  weft::run([=] {
    if (of_the_function) {
      set();
      return;
    }
    signal_flag raised;
    weft::go([&] {
      set();
      raised.raise();
    });
    raised.wait();
  });
  use();
  return 0;
}

// (1) A plain thread's go() → the start of its goroutine.
int goes(bool in_time) {
  signal_flag go_on, over;
  std::thread([&] {
    if (in_time) set();
    weft::go([&] {
      go_on.wait();
      use();
      over.raise();
    });
    if (!in_time) set();
    go_on.raise();
    over.wait_unseen();
  }).join();
  return 0;
}

// A goroutine waits in acquire(), and a plain thread wakes it by release().
template <class Release, class Acquire>
int woken_by_thread(bool in_time, Release release, Acquire acquire) {
  signal_flag waits;
  std::thread plain([&] {
    waits.wait();
    if (in_time) set();
    release();
    if (!in_time) set();
  });
  const int status = both(
      [&] {
        acquire();
        use();
      },
      [&] { waits.raise(); });
  plain.join();
  return status;
}

// The reverse. That the thread sleeps already when release() comes is likely, not certain; it is an edge either way.
template <class Release, class Acquire>
int wakes_thread(bool in_time, Release release, Acquire acquire) {
  signal_flag waits;
  std::thread plain([&] {
    waits.raise();
    acquire();
    use();
  });
  const int status = weft::run(
      [&] {
        waits.wait();
        for (int i = 0; i < 50; ++i) sched_yield();
        if (in_time) set();
        release();
        if (!in_time) set();
      },
      {.max_procs = 1});
  plain.join();
  return status;
}

}  // namespace

#define WEFT_EDGE(name, ...)                                                     \
  static int name##_edge(bool in_time){__VA_ARGS__} WEFT_CHILD(name##_ordered) { \
    return name##_edge(true);                                                    \
  }                                                                              \
  WEFT_CHILD(name##_racy) { return name##_edge(false); }

WEFT_EDGE(run_start, return starts(in_time);)
WEFT_EDGE(run_start_beside, return beside_a_goroutine([=] { starts(in_time); });)
WEFT_EDGE(run_return, return returns(in_time);)
WEFT_EDGE(run_return_beside, return beside_a_goroutine([=] { returns(in_time); });)
WEFT_EDGE(run_return_nested, return weft::run([=] { returns(in_time); }, {.max_procs = 1});)
WEFT_EDGE(go_from_thread, return goes(in_time);)
WEFT_EDGE(go_from_thread_beside, return beside_a_goroutine([=] { goes(in_time); });)

// (7) unlock → lock
WEFT_EDGE(mutex_from_thread, {
  weft::mutex m;
  m.lock();
  return woken_by_thread(
      in_time, [&] { m.unlock(); }, [&] { m.lock(); });
})
WEFT_EDGE(mutex_to_thread, {
  weft::mutex m;
  m.lock();
  return wakes_thread(
      in_time, [&] { m.unlock(); }, [&] { m.lock(); });
})
// (3) send → receive
WEFT_EDGE(send_from_thread, {
  const weft::chan<int> c;
  return woken_by_thread(
      in_time, [&] { c.send(1); }, [&] { c.recv(); });
})
WEFT_EDGE(send_to_thread, {
  const weft::chan<int> c;
  return wakes_thread(
      in_time, [&] { c.send(1); }, [&] { c.recv(); });
})
// (11) done → wait
WEFT_EDGE(wait_group_from_thread, {
  weft::wait_group wg;
  wg.add();
  return woken_by_thread(
      in_time, [&] { wg.done(); }, [&] { wg.wait(); });
})
WEFT_EDGE(wait_group_to_thread, {
  weft::wait_group wg;
  wg.add();
  return wakes_thread(
      in_time, [&] { wg.done(); }, [&] { wg.wait(); });
})

namespace {

constexpr edge_case kEdges[] = {
    {"run_start", "GO,BIRTH"},
    {"run_start_beside", "GO,BIRTH"},
    {"run_return", "CP*"},
    {"run_return_beside", "CP*,NO*"},
    {"run_return_nested", "CP*,WAKE"},
    {"go_from_thread", "GO,BIRTH"},
    {"go_from_thread_beside", "GO,BIRTH"},
    {"mutex_from_thread", "MX*,CP*,WAKE"},
    {"mutex_to_thread", "MX*,CP*,NO*"},
    {"send_from_thread", "SLOT,CH*,CP*,WAKE"},
    {"send_to_thread", "SLOT,CH*,CP*,NO*"},
    {"wait_group_from_thread", "WG*,CP*,WAKE"},
    {"wait_group_to_thread", "WG*,CP*,NO*"},
};

class PlainOrder : public testing::TestWithParam<edge_case> {};
TEST_P(PlainOrder, IsWhatWasPromised) { expect_ordered(GetParam().name); }
TEST_P(PlainOrder, IsNeeded) { expect_needed(GetParam(), "plain_order_shared"); }
TEST_P(PlainOrder, ItsAbsenceIsReported) { expect_race(GetParam().name); }

// Not only by what a new fiber knows of its maker, the M, which knows all that plain threads have done before they came to
// the scheduler's locks (fiber_tools::attach()).
TEST(PlainGo, StartsAreOrderedByThemselves) {
#ifdef WEFT_TSAN_MUTANTS
  for (const char* name :
       {"run_start", "run_start_beside", "go_from_thread", "go_from_thread_beside"}) {
    const auto child =
        weft::test::run_child(std::string(name) + "_ordered", {"WEFT_TSAN_MUTANT=BIRTH"});
    EXPECT_EQ(child.output.find(weft::test::kRaceReport), std::string::npos) << child.output;
    EXPECT_EQ(child.status, 0) << name << child.output;
  }
#else
  GTEST_SKIP() << "needs ThreadSanitizer and WEFT_TSAN_MUTANTS";
#endif
}

INSTANTIATE_TEST_SUITE_P(, PlainOrder, testing::ValuesIn(kEdges), edge_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
