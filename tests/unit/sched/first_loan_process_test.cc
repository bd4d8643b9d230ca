// The first goroutine of a process begins on the thread of run()'s caller, and nobody else is there yet (locked.cc). Whatever it
// does then, and others beside it: who is needed comes. Each in a process of its own.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <mutex>
#include <semaphore.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <weft/net.h>
#include <weft/weft.h>

#include "os/process.h"
#include "sched/netpoll.h"
#include "sched/sched_api.h"
#include "support/child_suite.h"
#include "support/patience.h"

namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using weft::test::eventually_hogging;

constexpr int kRight = 3;

class FirstLoan : public testing::Test {
 protected:
  // Where the lent thread has the only P, and where it has not.
  static void expect(const char* child, int status = kRight, const std::string& output = "") {
    for (const char* procs : {"1", "2"}) {
      const auto r = weft::test::run_child(child, {std::string("WEFTMAXPROCS=") + procs});
      EXPECT_EQ(r.status, status) << r.output;
      EXPECT_NE(r.output.find(output), std::string::npos) << r.output;
    }
  }
};

bool on_main_thread() { return gettid() == getpid(); }

bool nobody_else() { return !weft::rt::system_threads_begun(); }

// -- alone

WEFT_CHILD(alone) {
  const int before = weft::rt::count_tasks();  // a sanitizer may have its own
  bool right = false;
  weft::run([&] {
    right = on_main_thread() && weft::runtime::goid() == 1 && nobody_else() &&
            weft::rt::count_tasks() == before;
  });
  return right && weft::rt::count_tasks() == before && on_main_thread() ? kRight : 1;
}
TEST_F(FirstLoan, NeedsNoOtherThread) { expect("alone"); }

WEFT_CHILD(again) {
  int calls = 0;
  for (int i = 0; i < 3; ++i) weft::run([&] { calls += nobody_else() ? 1 : 0; });
  return calls == 3 ? kRight : 1;
}
TEST_F(FirstLoan, NorTheNextTime) { expect("again"); }

// -- it leaves

// The thread is wanted back: it runs nobody else, who might never end.
WEFT_CHILD(gives_the_thread_back) {
  std::atomic<bool> main_ran_another{false};
  weft::run([&] {
    weft::go([&] {
      static_cast<void>(eventually_hogging([&] {
        if (on_main_thread()) main_ran_another = true;
        return false;
      }));
    });
    weft::gosched();
    for (int i = 0; i < 3; ++i) weft::thread([] {}).join();
    if (on_main_thread()) main_ran_another = true;
  });
  return on_main_thread() && !main_ran_another ? kRight : 1;
}
TEST_F(FirstLoan, IsOverWhenTheGoroutineLeaves) { expect("gives_the_thread_back"); }

WEFT_CHILD(goexit_at_once) {
  weft::run([] { weft::goexit(); });
  return 1;
}
TEST_F(FirstLoan, GoexitIsADeadlock) { expect("goexit_at_once", 2, "main called runtime.Goexit"); }

// Who fell asleep while there was an M is looked after when the last one has gone.
WEFT_CHILD(sleeper_left_behind) {
  static weft::chan<int> never;
  std::thread([] { never.recv(); }).detach();
  weft::run([] {
    static_cast<void>(eventually_hogging([] { return weft::rt::sched.foreign.blocked() == 1; }));
  });
  never.recv();
  return 1;
}
TEST_F(FirstLoan, LeavesNoSleeperBehind) { expect("sleeper_left_behind", 2, "deadlock!"); }

// -- its thread is locked

std::string thread_name() {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  return name;
}

WEFT_CHILD(locked_meanwhile) {
  bool right = true;
  weft::run([&] {
    weft::runtime::lock_os_thread();
    prctl(PR_SET_NAME, "ours");
    weft::gosched();
    right = on_main_thread();
    std::string other;
    weft::thread([&] { other = thread_name(); }).join();
    right = right && on_main_thread() && other != "ours";
    weft::runtime::unlock_os_thread();
    right = right && on_main_thread();
    weft::gosched();
    right = right && !on_main_thread();
  });
  return right && on_main_thread() ? kRight : 1;
}
TEST_F(FirstLoan, LastsWhileTheThreadIsLocked) { expect("locked_meanwhile"); }

// -- it computes, or blocks, and somebody else wants to run

WEFT_CHILD(computes_beside_another) {
  bool ran = false;
  weft::run([&] {
    std::atomic<bool> other{false};
    weft::go([&] { other = true; });
    ran = eventually_hogging([&] { return other.load(); });
  });
  return ran ? kRight : 1;
}
TEST_F(FirstLoan, MakesRoomForAnother) { expect("computes_beside_another"); }

WEFT_CHILD(computes_beside_a_thread) {
  bool ran = false;
  weft::run([&] {
    std::atomic<bool> other{false};
    std::thread t([&] { weft::go([&] { other = true; }); });
    ran = eventually_hogging([&] { return other.load(); });
    t.join();
  });
  return ran ? kRight : 1;
}
TEST_F(FirstLoan, MakesRoomForAThreadsGoroutine) { expect("computes_beside_a_thread"); }

WEFT_CHILD(blocks_beside_a_thread) {
  static int fd[2];
  if (pipe(fd) != 0) return 77;
  char byte = 0;
  weft::run([&] {
    std::thread t([] { weft::go([] { static_cast<void>(!write(fd[1], "x", 1)); }); });
    static_cast<void>(!read(fd[0], &byte, 1));
    t.join();
  });
  return byte == 'x' ? kRight : 1;
}
TEST_F(FirstLoan, LosesItsPWhileItBlocks) { expect("blocks_beside_a_thread"); }

WEFT_CHILD(computes_beside_a_timer) {
  bool fired = false;
  weft::run([&] {
    std::atomic<bool> due{false};
    const weft::timer t = weft::after_func(1ms, [&] { due = true; });
    fired = eventually_hogging([&] { return due.load(); });
  });
  return fired ? kRight : 1;
}
TEST_F(FirstLoan, MakesRoomForATimer) { expect("computes_beside_a_timer"); }

// A plain thread waits for a descriptor, and nobody looks for news but sysmon.
WEFT_CHILD(computes_beside_a_descriptor) {
  static int fd[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0) return 77;
  bool read = false;
  weft::run([&] {
    std::atomic<bool> done{false};
    std::thread t([&] {
      auto conn = weft::net::unix_conn::adopt(fd[0]);
      char byte = 0;
      done = conn.read_some({&byte, 1}) == 1;
    });
    static_cast<void>(eventually_hogging([] { return weft::rt::io_is_awaited(); }));
    static_cast<void>(!write(fd[1], "x", 1));
    read = eventually_hogging([&] { return done.load(); });
    if (!read) _exit(1);  // it would wait for ever
    t.join();
  });
  return read ? kRight : 1;
}
TEST_F(FirstLoan, IsNobodyWhoPolls) { expect("computes_beside_a_descriptor"); }

WEFT_CHILD(computes_beside_a_stop) {
  bool stopped = false;
  weft::run([&] {
    std::atomic<bool> over{false};
    std::thread t([&] {
      weft::runtime::gc();
      over = true;
    });
    stopped = eventually_hogging([&] { return over.load(); });
    t.join();
  });
  return stopped ? kRight : 1;
}
TEST_F(FirstLoan, StopsWithTheWorld) { expect("computes_beside_a_stop"); }

// It has given its P away, so that nobody waits for it; but it computes.
WEFT_CHILD(computes_in_a_call_beside_a_stop) {
  std::atomic<std::uint64_t> steps{0};
  std::atomic<bool> over{false};
  bool stood_still = false;
  weft::run([&] {
    weft::runtime::blocking_for_long([&] {
      std::thread t([&] {
        weft::runtime::stop_the_world([&] {
          stood_still =
              eventually_hogging([&, last = steps.load(), since = steady::now()]() mutable {
                if (steps != last) {
                  last = steps;
                  since = steady::now();
                }
                return steady::now() - since > 100ms;
              });
        });
        over = true;
      });
      // By its processor time it is judged: so it never gives way. The other one sets the limit.
      while (!over) ++steps;
      t.join();
    });
  });
  return stood_still ? kRight : 1;
}
TEST_F(FirstLoan, StandsStillWithTheWorldInALongCall) {
  expect("computes_in_a_call_beside_a_stop");
}

// It has given its P away when there is no other thread of the runtime's yet, and a plain thread has work for that.
WEFT_CHILD(waits_for_a_threads_goroutine) {
  sem_t done;
  sem_init(&done, 0, 0);
  weft::run([&] {
    weft::runtime::blocking_for_long([&] {
      std::thread t([&] { weft::go([&] { sem_post(&done); }); });
      while (sem_wait(&done) != 0) {
      }
      t.join();
    });
  });
  return kRight;
}
TEST_F(FirstLoan, GivesItsPAwayBesideAThreadsGoroutine) { expect("waits_for_a_threads_goroutine"); }

// -- the limit of threads

// The lent thread is the runtime's no longer when another takes its place.
WEFT_CHILD(counts_once) {
  weft::runtime::set_max_threads(1);
  return weft::run([] {
    weft::this_thread::sleep_for(1ms);  // sleep-ok: it parks
    return kRight;
  });
}
TEST_F(FirstLoan, CountsOnce) {
  const auto r = weft::test::run_child("counts_once", {"WEFTMAXPROCS=1"});
  EXPECT_EQ(r.status, kRight) << r.output;
}

// -- exit()

std::mutex lock;
std::atomic<bool> wanted{false};

// It is frozen with the lock, and somebody lets it go for as long as exit() needs that.
WEFT_CHILD(computes_beside_exit) {
  std::atexit([] {
    wanted = true;
    const std::lock_guard held(lock);
  });
  return weft::run([] {
    const std::unique_lock held(lock);
    std::thread([] {
      static_cast<void>(weft::runtime::num_goroutine());
      std::exit(kRight);
    }).detach();
    while (!wanted) {
    }
    return 1;
  });
}
TEST_F(FirstLoan, IsGuardedInExit) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan reports what handlers should not call";
  expect("computes_beside_exit");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
