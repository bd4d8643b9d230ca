// Limits on threads, and what a program may do to itself while its goroutines are interrupted; each in a process of its own.
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "sched/sched_api.h"
#include "support/child_suite.h"
#include "support/preemptions.h"

namespace {

using weft::test::eventually;
using weft::test::preemptions;

constexpr int kRight = 3;

class LimitsProcess : public testing::Test {
 protected:
  static void expect(const char* child, int status = kRight) {
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=2"});
    EXPECT_EQ(r.status, status) << r.output;
    EXPECT_EQ(r.output, "");
  }
};

// -- threads ---------------------------------------------------------------------------------------

// So many goroutines, each with a thread of its own. True: all of them at once.
bool lock_threads(int count) {
  std::atomic<int> locked{0};
  return weft::run([&] {
           weft::wait_group gate, ended;
           gate.add(1);
           for (int i = 0; i < count; ++i) {
             ended.go([&] {
               weft::runtime::lock_os_thread();
               ++locked;
               gate.wait();
               weft::runtime::unlock_os_thread();
             });
           }
           const bool all = eventually([&] { return locked == count; });
           gate.done();
           ended.wait();
           return all ? 1 : 0;
         }) == 1;
}

// Go: TestThreadExhaustion
WEFT_CHILD(too_many_locked) {
  weft::runtime::set_max_threads(10);
  return lock_threads(100) ? 1 : 4;
}
TEST_F(LimitsProcess, MoreAreLockedThanThreadsMayBe) {
  const auto r = weft::test::run_child("too_many_locked", {"WEFTMAXPROCS=2"});
  EXPECT_EQ(r.status, 2) << r.output;
  EXPECT_EQ(
      r.output.find("runtime: program exceeds 10-thread limit\nfatal error: thread exhaustion\n"),
      0u)
      << r.output;
}

// Go: TestSetMaxThreadsOvf. And what it is by default.
WEFT_CHILD(any_number_of_threads) {
  const bool by_default = weft::runtime::set_max_threads(INT_MAX) == 10'000;
  const bool all = lock_threads(20);
  return by_default && all && weft::runtime::set_max_threads(10'000) == INT_MAX ? kRight : 1;
}
TEST_F(LimitsProcess, TheLargestNumberOfThreads) { expect("any_number_of_threads"); }

// One that is about to end does not count, whoever looks: neither who makes a thread, nor who sets the limit.
WEFT_CHILD(limit_beside_one_that_leaves) {
  return weft::run([] {
    const auto leaving = [](int n) {  // nobody else is there yet
      const weft::rt::inside here;
      const weft::rt::scoped_lock held(weft::rt::sched.lock);
      weft::rt::sched.leaving_ms += n;
      return weft::rt::sched.m_count;
    };
    if (leaving(+1) != 1) return 4;
    weft::runtime::set_max_threads(0);
    const bool was_set = weft::runtime::set_max_threads(10'000) == 0;
    leaving(-1);
    return was_set ? kRight : 1;
  });
}
TEST_F(LimitsProcess, WhoLeavesDoesNotCount) { expect("limit_beside_one_that_leaves"); }

// -- signals ---------------------------------------------------------------------------------------

// Until so many were interrupted. On the goroutine that calls it.
void compute_and_be_preempted(std::uint64_t times) {
  const std::uint64_t until = preemptions() + times;
  while (preemptions() < until) {
  }
}

// Go: TestVDSO. The clock is read in the kernel's own code, on the user's side, when signals come.
WEFT_CHILD(reads_the_clock) {
  static std::atomic<int> ticks{0};
  std::signal(SIGPROF, [](int) {
    if (!WEFT_TEST_TSAN) {  // which takes it for the M's where it meets the runtime: guide/sanitizers.md
      timespec t{};
      clock_gettime(CLOCK_MONOTONIC, &t);
    }
    ++ticks;
  });
  const itimerval often{{0, 500}, {0, 500}};
  setitimer(ITIMER_PROF, &often, nullptr);
  std::atomic<int> wrong{0};
  weft::run([&] {
    const weft::test::crowd others;
    const std::uint64_t until = preemptions() + weft::test::preemptions_wanted(50);
    weft::wait_group ended;
    for (int i = 0; i < 3; ++i) {
      ended.go([&] {
        timespec last{};
        while (ticks < 50 || preemptions() < until) {
          for (int n = 0; n < 10'000; ++n) {
            timespec t{};
            const bool read = clock_gettime(CLOCK_MONOTONIC, &t) == 0;
            const bool later =
                t.tv_sec > last.tv_sec || (t.tv_sec == last.tv_sec && t.tv_nsec >= last.tv_nsec);
            if (!read || !later || t.tv_nsec < 0 || t.tv_nsec > 999'999'999) ++wrong;
            last = t;
          }
        }
      });
    }
    ended.wait();
  });
  const itimerval never{};
  setitimer(ITIMER_PROF, &never, nullptr);
  return wrong == 0 ? kRight : 1;
}
TEST_F(LimitsProcess, ReadsTheClockUnderSignals) { expect("reads_the_clock"); }

// Go: TestSignalIgnoreSIGTRAP. By the program itself, and by ours.
WEFT_CHILD(ignores) {
  std::signal(SIGTRAP, SIG_IGN);
  return weft::run([] {
    kill(getpid(), SIGTRAP);
    weft::signal::ignore({SIGUSR2});
    kill(getpid(), SIGUSR2);
    const weft::test::crowd others;
    compute_and_be_preempted(5);
    struct sigaction now {};
    sigaction(SIGTRAP, nullptr, &now);
    return now.sa_handler == SIG_IGN ? kRight : 1;
  });
}
TEST_F(LimitsProcess, IgnoredSignalsStayIgnored) { expect("ignores"); }

// Go: TestSignalDuringExec. The process becomes another program while signals rain; what is ignored there stays so, and
// nothing of ours is left.
WEFT_CHILD(has_become_another) {
  struct sigaction trap {
  }, urgent{};
  sigaction(SIGTRAP, nullptr, &trap);
  sigaction(SIGURG, nullptr, &urgent);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  const bool right = trap.sa_handler == SIG_IGN && urgent.sa_handler == SIG_DFL &&
                     sigismember(&mask, SIGURG) == 0 && sigismember(&mask, SIGUSR1) == 0;
  return right ? kRight : 1;
}
WEFT_CHILD(becomes_another) {
  std::signal(SIGTRAP, SIG_IGN);
  return weft::run([] {
    const weft::test::crowd others;
    for (int i = 0; i < 4; ++i) {
      weft::go([] {
        static std::atomic<bool> over{false};  // read: a loop that TSan lets interrupt
        while (!over.load(std::memory_order_relaxed)) {
        }
      });
    }
    compute_and_be_preempted(5);
    execl("/proc/self/exe", "another", "--child=has_become_another", nullptr);
    return 1;
  });
}
TEST_F(LimitsProcess, BecomesAnotherProgram) {
  if (weft::test::emulated()) GTEST_SKIP() << "/proc/self/exe is the emulator";
  for (int i = 0; i < weft::test::scaled(20, 3); ++i) expect("becomes_another");
}

// Go: TestAbortInCgo. A goroutine ends the process as any thread would, while others are interrupted.
WEFT_CHILD(aborts) {
  return weft::run([] {
    const weft::test::crowd others;
    weft::go([] {
      compute_and_be_preempted(3);
      std::abort();
    });
    weft::chan<int>().recv();
    return 1;
  });
}
TEST_F(LimitsProcess, AbortEndsTheProcess) {
  const auto r = weft::test::run_child("aborts", {"WEFTMAXPROCS=2"});
  EXPECT_EQ(r.status, 128 + SIGABRT) << r.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
