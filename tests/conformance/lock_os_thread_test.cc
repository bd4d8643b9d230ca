// runtime::lock_os_thread. design.md 2; spec [LK-1] … [LK-7]; Go: runtime/proc_test.go, testprog/lockosthread.go
#include <atomic>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/child_suite.h"
#include "support/tasks.h"
#include "support/thread_state.h"

namespace {

using weft::runtime::lock_os_thread;
using weft::runtime::unlock_os_thread;
using weft::test::eventually;
using weft::test::scaled;
using weft::test::task_exists;
using weft::test::thread_now;

class LockOsThread : public weft::test::over_procs {};

// Starts goroutines until one has run on thread `tid`. False: none does.
bool somebody_runs_on(long tid, int attempts) {
  std::atomic<bool> found{false};
  for (int i = 0; i < attempts && !found; ++i) {
    weft::wait_group wg;
    for (int k = 0; k < 8; ++k) {
      wg.go([&, tid] {
        weft::gosched();
        if (thread_now() == tid) found = true;
      });
    }
    wg.wait();
  }
  return found;
}

// [LK-2] the goroutine runs only there, and the thread runs only it
TEST_P(LockOsThread, KeepsTheThreadForItself) {
  run([] {
    lock_os_thread();
    const long mine = thread_now();
    for (int i = 0; i < scaled(50, 4); ++i) {
      weft::gosched();
      EXPECT_EQ(thread_now(), mine) << "after a yield";
      weft::wait_group wg;
      for (int k = 0; k < 4; ++k) {
        wg.go([mine] {
          weft::gosched();
          EXPECT_NE(thread_now(), mine) << "[LK-3] those it starts are not locked";
        });
      }
      wg.wait();
      EXPECT_EQ(thread_now(), mine) << "after a park";
      weft::thread([mine] { EXPECT_NE(thread_now(), mine); }).join();
      EXPECT_EQ(thread_now(), mine) << "after a join";
      EXPECT_EQ(weft::run([mine] { return thread_now() != mine; }), 1);
      EXPECT_EQ(thread_now(), mine) << "after a nested run";
      weft::runtime::stop_the_world([] {});
      EXPECT_EQ(thread_now(), mine) << "after stopping the world";
    }
    unlock_os_thread();
  });
}

// Go: TestLockOSThreadNesting. [LK-1] n locks need n unlocks
TEST_P(LockOsThread, Nests) {
  run([] {
    const long mine = (lock_os_thread(), thread_now());
    lock_os_thread();
    lock_os_thread();
    for (int depth = 3; depth > 0; --depth) {
      EXPECT_FALSE(somebody_runs_on(mine, 5)) << "locked " << depth << " times";
      EXPECT_EQ(thread_now(), mine);
      unlock_os_thread();
    }
    EXPECT_TRUE(eventually([mine] { return somebody_runs_on(mine, 100); })) << "unlocked";
  });
}

// [LK-1] an unlock too many does nothing
TEST_P(LockOsThread, UnlockWithoutLock) {
  run([] {
    unlock_os_thread();
    lock_os_thread();
    unlock_os_thread();
    unlock_os_thread();
    const long mine = thread_now();
    lock_os_thread();
    EXPECT_EQ(thread_now(), mine);
    EXPECT_FALSE(somebody_runs_on(mine, 5));
    unlock_os_thread();
  });
}

// A plain thread is always on its own thread.
TEST_P(LockOsThread, DoesNothingOnPlainThreads) {
  lock_os_thread();
  EXPECT_EQ(run([mine = thread_now()] { return thread_now() == mine ? 1 : 0; }), 0);
  unlock_os_thread();
  unlock_os_thread();
}

// Go: TestYieldLockedProgress
TEST_P(LockOsThread, YieldsToOthers) {
  run([] {
    const weft::chan<bool> c(1), stop(1);
    weft::wait_group ended;
    ended.go([=] {
      lock_os_thread();
      for (int i = 0; !stop.try_recv(); ++i) {
        if (i == 10) c.send(true);
        weft::gosched();
      }
      unlock_os_thread();
    });
    c.recv();
    stop.send(true);
    ended.wait();
  });
}

// Go: TestYieldLocked. [LK-4] it may end without unlocking
TEST_P(LockOsThread, YieldsAndSleepsAndEndsLocked) {
  run([] {
    const weft::chan<bool> c;
    weft::go([c] {
      lock_os_thread();
      for (int i = 0; i < 10; ++i) {
        weft::gosched();
        weft::this_thread::sleep_for(std::chrono::milliseconds(1));  // sleep-ok: the subject
      }
      c.send(true);
    });
    c.recv();
  });
}

// Go: TestBlockLocked
TEST_P(LockOsThread, IsWokenEveryTime) {
  run([] {
    const weft::chan<int> c;
    const int n = scaled(1000, 20);
    weft::wait_group ended;
    ended.go([=] {
      lock_os_thread();
      const long mine = thread_now();
      for (int i = 0; i < n; ++i) {
        c.send(i);
        EXPECT_EQ(thread_now(), mine);
      }
      unlock_os_thread();
    });
    for (int i = 0; i < n; ++i) EXPECT_EQ(c.recv().value(), i);
    ended.wait();
  });
}

// Two that are locked and hand over to each other, while others compete for the Ps.
TEST_P(LockOsThread, TwoLockedPlayPingPong) {
  run([] {
    const weft::chan<int> there, back;
    const int n = scaled(500, 20);
    weft::wait_group ended;
    std::atomic<bool> over{false};
    for (int i = 0; i < 3; ++i) {
      ended.go([&] {
        while (!over) weft::gosched();
      });
    }
    ended.go([=] {
      lock_os_thread();
      for (int i = 0; i < n; ++i) back.send(there.recv().value() + 1);
      unlock_os_thread();
    });
    lock_os_thread();
    for (int i = 0; i < n; ++i) {
      there.send(i);
      EXPECT_EQ(back.recv().value(), i + 1);
    }
    unlock_os_thread();
    over = true;
    ended.wait();
  });
}

// --- the end ----------------------------------------------------------------------------------

// Go: TestLockOSThreadExit/LockOSThreadAlt. [LK-4] the thread goes, and nobody else ever runs on it
TEST_P(LockOsThread, EndingLockedEndsTheThread) {
  run([] {
    for (int i = 0; i < scaled(20, 3); ++i) {
      long tid = 0;
      weft::thread([&tid] {
        lock_os_thread();
        lock_os_thread();
        tid = thread_now();
      }).join();
      EXPECT_TRUE(eventually([tid] { return !task_exists(tid); })) << tid;
      EXPECT_FALSE(somebody_runs_on(tid, 2));
    }
  });
}

TEST_P(LockOsThread, GoexitLockedEndsTheThread) {
  run([] {
    std::atomic<long> tid{0};
    weft::wait_group ended;
    ended.add(1);
    weft::go([&] {
      struct last {
        weft::wait_group& wg;
        ~last() { wg.done(); }
      } const at_end{ended};
      lock_os_thread();
      tid = thread_now();
      weft::goexit();
    });
    ended.wait();
    EXPECT_TRUE(eventually([&tid] { return !task_exists(tid); }));
  });
}

TEST_P(LockOsThread, EndingUnlockedKeepsTheThread) {
  run([] {
    long tid = 0;
    weft::thread([&tid] {
      lock_os_thread();
      lock_os_thread();
      tid = thread_now();
      unlock_os_thread();
      unlock_os_thread();
    }).join();
    EXPECT_TRUE(eventually([tid] { return somebody_runs_on(tid, 100); }));
  });
}

// Go: TestCgoLockOSThreadExit: what belongs to the thread is destroyed, and may still use weft.
std::atomic<int> keys_destroyed{0}, locals_destroyed{0};

struct thread_owned {
  int value = 0;
  ~thread_owned() {
    weft::thread([] { ++locals_destroyed; }).join();
  }
};

WEFT_TEST_OF_THE_THREAD void touch_thread_local() {
  static thread_local thread_owned owned;
  owned.value = 1;
}

pthread_key_t key() {
  static const pthread_key_t made = [] {
    pthread_key_t k;
    pthread_key_create(&k, [](void*) {
      weft::thread([] { ++keys_destroyed; }).join();  // a plain thread's last breath
    });
    return k;
  }();
  return made;
}

TEST_P(LockOsThread, WhatBelongsToTheThreadIsDestroyed) {
  keys_destroyed = locals_destroyed = 0;
  run([] {
    weft::thread([] {
      lock_os_thread();
      touch_thread_local();
      static int something;
      pthread_setspecific(key(), &something);
    }).join();
    EXPECT_TRUE(eventually([] { return keys_destroyed == 1 && locals_destroyed == 1; }));
  });
}

// A goroutine that runs on its joiner's stack may lock and end, too: the joiner goes on elsewhere.
TEST_P(LockOsThread, EndsLockedOnTheJoinersStack) {
  run([] {
    for (int i = 0; i < scaled(200, 10); ++i) {
      long tid = 0;
      int depth = 0;
      weft::thread([&] {
        weft::thread([&] {
          lock_os_thread();
          tid = thread_now();
          ++depth;
        }).join();
        EXPECT_NE(thread_now(), tid);
        ++depth;
      }).join();
      EXPECT_NE(thread_now(), tid);
      EXPECT_EQ(depth, 2);
    }
  });
}

// Many at once, with others about; nothing is left of them.
TEST_P(LockOsThread, ManyEndLocked) {
  const int before = weft::test::task_count();
  run([] {
    std::atomic<int> n{0};
    const int each = scaled(40, 4);
    for (int round = 0; round < 3; ++round) {
      weft::wait_group wg;
      for (int i = 0; i < each; ++i) {
        wg.go([&n] {
          lock_os_thread();
          weft::gosched();
          weft::thread([&n] { ++n; }).join();
          weft::gosched();
        });
      }
      wg.wait();
    }
    EXPECT_EQ(n, 3 * each);
  });
  EXPECT_TRUE(eventually([&] { return weft::test::task_count() <= before + procs() + 8; }))
      << weft::test::task_count() << " threads, before " << before;
}

// Go: TestMexitSTW
TEST_P(LockOsThread, ThreadsEndWhileTheWorldStops) {
  run([] {
    std::atomic<bool> over{false};
    weft::wait_group stoppers;
    for (int i = 0; i < 2; ++i) {
      stoppers.go([&over] {
        while (!over) {
          weft::runtime::stop_the_world([] {});
          weft::gosched();
        }
      });
    }
    for (int i = 0; i < scaled(100, 10); ++i) {
      weft::thread([] {
        lock_os_thread();
        weft::gosched();
      }).join();
    }
    over = true;
    stoppers.wait();
  });
}

// Go: TestGetgThreadSwitch: who am I, after another has locked the thread on which I was.
TEST_P(LockOsThread, OthersLockTheThreadIWasOn) {
  run([] {
    const weft::chan<int> c, done;
    weft::wait_group ended;
    ended.go([=] {
      for (auto i : c) {
        lock_os_thread();  // mostly on the thread of the receiver, who has to go on elsewhere
        done.send(i);
        unlock_os_thread();
      }
    });
    const std::uint64_t self = weft::runtime::goid();
    for (int i = 0; i < scaled(1000, 20); ++i) {
      c.send(i);
      EXPECT_EQ(done.recv().value(), i);
      EXPECT_EQ(weft::runtime::goid(), self);
    }
    c.close();
    ended.wait();
  });
}

WEFT_OVER_PROCS(LockOsThread);

// --- lock_main_thread -------------------------------------------------------------------------

class LockedMain : public weft::test::over_procs {
 protected:
  template <class F>
  int run_locked(F&& f) {
    return weft::run(std::forward<F>(f), {.max_procs = procs(), .lock_main_thread = true});
  }
};

// The two locks are independent of each other.
TEST_P(LockedMain, UnlockingDoesNotUnlockIt) {
  const long mine = thread_now();
  run_locked([mine] {
    unlock_os_thread();
    lock_os_thread();
    unlock_os_thread();
    unlock_os_thread();
    EXPECT_FALSE(somebody_runs_on(mine, 5));
    EXPECT_EQ(thread_now(), mine);
  });
}

// The thread is the caller's: it gets it back.
TEST_P(LockedMain, EndingLockedGivesTheThreadBack) {
  const long mine = thread_now();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run_locked([] {
                lock_os_thread();
                return 7;
              }),
              7);
    EXPECT_EQ(thread_now(), mine);
    EXPECT_EQ(run([mine] { return thread_now() == mine ? 1 : 0; }), 0);
  }
}

WEFT_OVER_PROCS(LockedMain);

// --- processes of their own -------------------------------------------------------------------

class LockProcess : public weft::test::children_over_procs {};

// Go: TestLockOSThreadExit/LockOSThreadMain. The main goroutine ends, locked to the main thread, which is
// never used again; the program goes on, until somebody exits.
WEFT_CHILD(main_ends_locked) {
  return weft::run(
      [main = thread_now()] {
        weft::go([main] {
          while (weft::runtime::num_goroutine() > 1) weft::gosched();
          const bool used = somebody_runs_on(main, 20);
          std::exit(used || !task_exists(main) ? 1 : 5);
        });
        lock_os_thread();
        weft::goexit();
      },
      {.lock_main_thread = true});
}
TEST_P(LockProcess, MainEndsLocked) { expect("main_ends_locked", 5, ""); }

// Go: TestLockOSThreadTemplateThreadRace: the first two locks of a process, while the world stops.
WEFT_CHILD(first_locks_race) {
  weft::run([] {
    weft::wait_group wg;
    for (int i = 0; i < 2; ++i) {
      wg.go([] {
        lock_os_thread();
        weft::runtime::stop_the_world([] {});
        unlock_os_thread();
      });
    }
    weft::runtime::stop_the_world([] {});
    wg.wait();
  });
  return 3;
}
TEST_P(LockProcess, FirstLocksRace) {
  for (int i = 0; i < scaled(25, 2); ++i) ASSERT_EQ(run("first_locks_race").status, 3);
}

// Go: TestLockOSThreadAvoidsStatePropagation. What the kernel hands from thread to thread: a root directory and umask
// of its own, affinity, policy, niceness, name, mask.
struct thread_state {
  std::string directory, name, umask;
  int cpus, policy, niceness;
  bool blocks_usr1;
  bool operator==(const thread_state&) const = default;

  static thread_state now() {
    thread_state s;
    char buffer[4096];
    s.directory = getcwd(buffer, sizeof buffer) != nullptr ? buffer : "?";
    prctl(PR_GET_NAME, buffer);
    s.name = buffer;
    s.umask =
        weft::test::task_status(thread_now(), "Umask:");  // asking umask() itself would change it
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    s.cpus = CPU_COUNT(&set);
    s.policy = sched_getscheduler(0);
    s.niceness = getpriority(PRIO_PROCESS, static_cast<id_t>(thread_now()));
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    s.blocks_usr1 = sigismember(&blocked, SIGUSR1) == 1;
    return s;
  }

  // False: not allowed here.
  static bool spoil() {
    if (unshare(CLONE_FS) != 0 || chdir("/proc") != 0) return false;
    ::umask(0123);
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
    const sched_param none{};
    sched_setscheduler(0, SCHED_BATCH, &none);
    setpriority(PRIO_PROCESS, static_cast<id_t>(thread_now()), 5);
    prctl(PR_SET_NAME, "spoilt");
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
    return true;
  }
};

// Goroutines on so many threads at once; most of these are made by whoever runs here.
int spoilt_among(int threads, const thread_state& clean) {
  std::atomic<int> spoilt{0};
  weft::wait_group here, gate, ended;
  here.add(threads);
  gate.add(1);
  for (int i = 0; i < threads; ++i) {
    ended.go([&] {
      lock_os_thread();
      if (thread_state::now() != clean) ++spoilt;
      here.done();
      gate.wait();
      unlock_os_thread();
    });
  }
  here.wait();
  gate.done();
  ended.wait();
  return spoilt;
}

int inherits_nothing(bool main) {
  return weft::run(
      [] {
        thread_state clean;
        weft::thread([&clean] { clean = thread_state::now(); }).join();
        lock_os_thread();
        if (!thread_state::spoil()) return 77;
        if (thread_state::now() == clean) return 1;
        weft::thread([&clean] { EXPECT_EQ(spoilt_among(20, clean), 0); }).join();
        return spoilt_among(20, clean) == 0 ? 3 : 2;
      },
      {.lock_main_thread = main});
}
WEFT_CHILD(nobody_inherits) { return inherits_nothing(false); }
WEFT_CHILD(nobody_inherits_from_main) { return inherits_nothing(true); }
// A plain thread, once there is a template.
WEFT_CHILD(nobody_inherits_from_plain_threads) {
  const thread_state clean = thread_state::now();
  weft::run([] {
    lock_os_thread();
    unlock_os_thread();
  });
  int status = 0;
  std::thread([&] {
    if (!thread_state::spoil()) {
      status = 77;
      return;
    }
    std::atomic<int> spoilt{0};
    weft::wait_group ended, gate;
    gate.add(1);
    for (int i = 0; i < 20; ++i) {
      ended.go([&] {
        lock_os_thread();  // so that the next one needs another thread
        if (thread_state::now() != clean) ++spoilt;
        gate.wait();
      });
    }
    gate.done();
    ended.wait();
    status = spoilt == 0 ? 3 : 2;
  }).join();
  return status;
}
TEST_P(LockProcess, NobodyInheritsItsState) {
  const int allowed = run("nobody_inherits").status;
  if (allowed == 77) GTEST_SKIP() << "a thread may not unshare its directory here";
  expect("nobody_inherits", 3, "");
  expect("nobody_inherits_from_main", 3, "");
  expect("nobody_inherits_from_plain_threads", 3, "");
}

// The last thread goes, and what is left must still be found dead or alive.
WEFT_CHILD(only_thread_ends) {
  std::atomic<int> n{0};
  for (int i = 0; i < 20; ++i) {
    weft::run([&n] {
      lock_os_thread();
      ++n;
    });
    std::thread([&n] { weft::run([&n] { ++n; }); }).join();
  }
  return n == 40 ? 3 : 1;
}
TEST_P(LockProcess, OnlyThreadEnds) { expect("only_thread_ends", 3, ""); }

WEFT_OVER_PROCS(LockProcess);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
