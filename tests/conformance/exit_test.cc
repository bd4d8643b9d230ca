// The end of the process: goroutines are frozen before the destructors of statics run, also of those
// constructed while weft ran. design.md 2.1 "Process exit".
//
// Each child has goroutines that count as long as they run, and a static whose destructor looks
// whether they do (support/witness.h).
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/condition_variable.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/child_suite.h"
#include "support/patience.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace {

using weft::test::child_result;
using weft::test::count_for_ever;
using weft::test::start_counting;
using weft::test::ticks;

// --- how a process ends ---------------------------------------------------------------------------

WEFT_CHILD(main_returns) {
  WITNESS(early);
  weft::run([] {
    start_counting();
    WITNESS(meanwhile);
  });
  WITNESS(late);
  return 3;
}

WEFT_CHILD(main_returns_after_go_only) {
  WITNESS(early);
  start_counting();
  WITNESS(late);
  return 3;
}

void sleep_for_ever() {
  weft::this_thread::sleep_for(std::chrono::hours::max());  // sleep-ok: the subject
  std::fputs("woke", stderr);
}

// Row 168: sleeps that never end keep nobody from leaving; when main returns they have begun.
WEFT_CHILD(main_returns_beside_endless_sleeps) {
  WITNESS(early);
  weft::run([] {
    start_counting();
    for (int i = 0; i < 3; ++i) weft::go(sleep_for_ever);
    weft::gosched();
  });
  weft::go(sleep_for_ever);
  static std::atomic<long> plain{0};
  std::thread([] {
    plain = syscall(SYS_gettid);
    sleep_for_ever();
  }).detach();
  while (plain == 0 || !weft::test::sleeps(std::to_string(plain)) ||
         weft::test::parked_goroutines() < 4) {  // the last: it stops the world
    weft::test::give_way();
  }
  WITNESS(late);
  return 3;
}

WEFT_CHILD(exit_in_goroutine) {
  WITNESS(early);
  return weft::run([] {
    start_counting();
    WITNESS(meanwhile);
    std::exit(4);
  });
}

WEFT_CHILD(exit_in_other_goroutine) {
  WITNESS(early);
  return weft::run([] {
    start_counting();
    weft::go([] {
      WITNESS(meanwhile);
      weft::gosched();
      std::exit(4);
    });
    weft::wait_group forever;
    forever.add(1);
    forever.wait();
  });
}

WEFT_CHILD(exit_on_locked_main) {
  WITNESS(early);
  return weft::run(
      [] {
        start_counting();
        WITNESS(meanwhile);
        std::exit(5);
      },
      {.lock_main_thread = true});
}

// A thread that weft never saw: atexit order, so what was constructed before weft started.
WEFT_CHILD(exit_on_unknown_thread) {
  WITNESS(early);
  weft::run([] { start_counting(); });
  std::thread([] { std::exit(6); }).join();
  return 1;
}

WEFT_CHILD(exit_while_stopped) {
  static std::atomic<bool> stopped{false}, go_on{false};
  struct lets_go_on {
    ~lets_go_on() { go_on = true; }
  };
  WITNESS(early);
  static const lets_go_on first;
  weft::run([] {
    start_counting();
    weft::go([] {
      weft::runtime::stop_the_world([] {
        stopped = true;
        while (!go_on) sched_yield();
      });
      count_for_ever();
    });
  });
  while (!stopped) sched_yield();
  return 7;
}

WEFT_CHILD(exit_in_stopped_world) {
  WITNESS(early);
  return weft::run([] {
    start_counting();
    weft::runtime::stop_the_world([] { std::exit(8); });
  });
}

WEFT_CHILD(exit_under_stoppers) {
  WITNESS(early);
  weft::run([] {
    start_counting();
    for (int i = 0; i < 3; ++i) {
      weft::go([i] {
        for (int k = 0;; ++k) {
          weft::runtime::gomaxprocs(1 + (k + i) % 5);
          weft::runtime::stop_the_world([] {});
        }
      });
    }
    for (int i = 0; i < 50; ++i) weft::gosched();
  });
  return 9;
}

// Destructors of statics may still ask weft things, and start what will never run.
WEFT_CHILD(statics_use_weft) {
  struct asks {
    ~asks() {
      weft::go([] { ticks += 1'000'000; });
      weft::gosched();
      weft::runtime::stop_the_world([] {});
      weft::runtime::gomaxprocs(2);
      std::printf("asked %d\n", weft::runtime::num_goroutine() >= 8 ? 1 : 0);
    }
  };
  WITNESS(early);
  static const asks last;
  weft::run([] { start_counting(); }, {.max_procs = 4});
  return 10;
}

// The same on a goroutine's stack: whoever is in exit() gives way to nobody any more.
WEFT_CHILD(statics_use_weft_on_a_goroutine) {
  struct asks {
    ~asks() {
      weft::go([] { ticks += 1'000'000; });
      weft::gosched();
      weft::runtime::stop_the_world([] {});
      weft::gosched();
      const weft::no_preempt scope;
      weft::runtime::blocking([] { sched_yield(); });
      weft::runtime::blocking_for_long([] { sched_yield(); });
      std::printf("asked\n");
    }
  };
  WITNESS(early);
  static const asks last;
  return weft::run([] {
    start_counting();
    std::exit(16);
  });
}

// Plain threads that wait for goroutines, and goroutines that wait, are simply left.
WEFT_CHILD(exit_beside_waiters) {
  WITNESS(early);
  static weft::wait_group never;
  never.add(1);
  weft::run([] {
    start_counting();
    for (int i = 0; i < 100; ++i) weft::go([] { never.wait(); });
  });
  for (int i = 0; i < 3; ++i) std::thread([] { never.wait(); }).detach();
  std::thread([] { weft::run([] { never.wait(); }); }).detach();
  return 11;
}

WEFT_CHILD(quick_ways_out) {
  weft::run([] {
    start_counting();
    std::printf("quick\n");
    std::fflush(stdout);
    std::quick_exit(12);
  });
  return 1;
}

// A process that has only looked at weft.
WEFT_CHILD(hardly_used) { return weft::runtime::num_goroutine() == 0 ? 13 : 1; }

// The child of a fork has none of the runtime's threads, and may leave by exit() all the same.
WEFT_CHILD(exit_in_forked_child) {
  return weft::run([] {
    start_counting();
    for (int i = 0; i < 5; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        std::exit(0);
      }
      int status = 1;
      if (waitpid(child, &status, 0) != child || status != 0) {
        return 1;
      }
    }
    return 14;
  });
}

// A static whose destructor waits for a goroutine: it says so instead of hanging.
WEFT_CHILD(static_waits) {
  static weft::wait_group* never = new weft::wait_group;
  never->add(1);
  std::atexit([] { never->wait(); });
  weft::run([] {});
  return 15;
}

// … but not while a thread of the program may still do what it waits for.
WEFT_CHILD(static_waits_for_a_thread) {
  static weft::wait_group* done = new weft::wait_group;
  done->add(1);
  std::atexit([] {
    done->wait();
    std::printf("released\n");
  });
  weft::run([] {});
  std::thread([] {
    // Longer than it takes to suspect that nobody will come.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // sleep-ok: the subject
    done->done();
  }).detach();
  return 17;
}

// Whoever yields in exit() until something has happened lets those go on who were stopped before they could
// do it.
void yield_for_a_goroutine() {
  static std::atomic<bool> exits{false};
  static std::atomic<bool> seen{false};
  static std::atomic<bool> computes{false};
  std::atexit([] {
    exits = true;
    while (!seen) weft::gosched();
    std::printf("seen\n");
  });
  weft::go([] {
    computes = true;
    while (!exits) sched_yield();  // the thread's: no scheduling point
    seen = true;
  });
  while (!computes) sched_yield();
}
WEFT_CHILD(static_yields_for_a_goroutine) {
  yield_for_a_goroutine();
  return 18;
}
WEFT_CHILD(static_yields_on_a_goroutine) {
  return weft::run(
      [] {
        yield_for_a_goroutine();
        std::exit(19);
      },
      {.max_procs = weft::runtime::gomaxprocs() + 1});
}

// … also if each of its yields lasts, since there are more threads than processors.
WEFT_CHILD(static_yields_on_a_busy_machine) {
  for (int i = 0; i < 4 * weft::runtime::num_cpu(); ++i) {
    std::thread([] {
      static std::atomic<int> never{0};
      while (never == 0) {
      }
    }).detach();
  }
  yield_for_a_goroutine();
  return 20;
}

// Whoever waits for a condition in exit(), but not for ever, has the mutex again afterwards: nobody gets it meanwhile
// who has been stopped.
void wait_beside_a_locker() {
  static weft::mutex m;
  static weft::condition_variable never;
  m.lock();
  std::atexit([] {
    weft::unique_lock<weft::mutex> l(m, std::adopt_lock);
    const auto end = never.wait_for(l, std::chrono::milliseconds(1));
    std::printf("%s\n", end == weft::cv_status::timeout ? "waited" : "notified");
  });
  weft::go([] { m.lock(); });
  while (weft::test::parked_goroutines() == 0) weft::test::give_way();
}
WEFT_CHILD(static_waits_beside_a_locker) {
  wait_beside_a_locker();
  return 21;
}
WEFT_CHILD(static_waits_beside_a_locker_on_a_goroutine) {
  return weft::run([] {
    wait_beside_a_locker();
    std::exit(22);
  });
}

class Exit : public weft::test::children_over_procs {};

TEST_P(Exit, MainReturns) {
  expect("main_returns", 3, "late: frozen\nmeanwhile: frozen\nearly: frozen\n");
}
TEST_P(Exit, MainReturnsAfterGoOnly) {
  expect("main_returns_after_go_only", 3, "late: frozen\nearly: frozen\n");
}
TEST_P(Exit, MainReturnsBesideEndlessSleeps) {
  expect("main_returns_beside_endless_sleeps", 3, "late: frozen\nearly: frozen\n");
}
TEST_P(Exit, InAGoroutine) { expect("exit_in_goroutine", 4, "meanwhile: frozen\nearly: frozen\n"); }
TEST_P(Exit, InAnotherGoroutine) {
  expect("exit_in_other_goroutine", 4, "meanwhile: frozen\nearly: frozen\n");
}
TEST_P(Exit, OnTheLockedMainThread) {
  expect("exit_on_locked_main", 5, "meanwhile: frozen\nearly: frozen\n");
}
TEST_P(Exit, OnAThreadThatWeftNeverSaw) { expect("exit_on_unknown_thread", 6, "early: frozen\n"); }
TEST_P(Exit, WhileTheWorldIsStopped) { expect("exit_while_stopped", 7, "early: frozen\n"); }
TEST_P(Exit, InAStoppedWorld) { expect("exit_in_stopped_world", 8, "early: frozen\n"); }
TEST_P(Exit, UnderStoppers) { expect("exit_under_stoppers", 9, "early: frozen\n"); }
TEST_P(Exit, StaticsMayUseWeft) { expect("statics_use_weft", 10, "asked 1\nearly: frozen\n"); }
TEST_P(Exit, StaticsMayUseWeftOnAGoroutine) {
  expect("statics_use_weft_on_a_goroutine", 16, "asked\nearly: frozen\n");
}
TEST_P(Exit, BesideWaiters) { expect("exit_beside_waiters", 11, "early: frozen\n"); }
TEST_P(Exit, QuickExit) { expect("quick_ways_out", 12, "quick\n"); }
TEST_P(Exit, HardlyUsed) { expect("hardly_used", 13, ""); }

TEST_P(Exit, InAForkedChild) {
  const child_result r =
      run("exit_in_forked_child",
          {"ASAN_OPTIONS=detect_leaks=0"});  // in a copy without its threads all is a leak
  EXPECT_EQ(r.status, 14) << r.output;
}
TEST_P(Exit, AStaticThatWaits) {
  const child_result r = run("static_waits");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.output.find("fatal error: exit waits for a goroutine"), std::string::npos)
      << r.output;
}

TEST_P(Exit, AStaticThatWaitsForAThread) {
  const child_result r = run("static_waits_for_a_thread");
  EXPECT_EQ(r.status, 17);
  EXPECT_EQ(r.output, "released\n");
}

TEST_P(Exit, AStaticThatWaitsBesideALocker) {
  expect("static_waits_beside_a_locker", 21, "waited\n");
  expect("static_waits_beside_a_locker_on_a_goroutine", 22, "waited\n");
}

TEST_P(Exit, AStaticThatYields) {
  expect("static_yields_for_a_goroutine", 18, "seen\n");
  expect("static_yields_on_a_goroutine", 19, "seen\n");
  expect("static_yields_on_a_busy_machine", 20, "seen\n");
}

WEFT_OVER_PROCS(Exit);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
