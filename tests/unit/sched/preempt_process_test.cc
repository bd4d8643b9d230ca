// What preemption must not disturb, each in a process of its own: the program's signals, its handlers and their stacks, its
// children, its user ids; and what must work without: the signal, the kernel's fences, interruptions altogether.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "base/asymmetric_fence.h"
#include "os/clock.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "support/child_suite.h"
#include "support/denied_calls.h"
#include "support/preemptions.h"

extern char** environ;

namespace {

using namespace std::chrono_literals;
using weft::test::deny;
using weft::test::preemptions;

constexpr int kRight = 3;

// Runs f while others compute and are preempted, until it has returned and so many preemptions have happened.
template <class F>
void under_preemption(F f, std::uint64_t few = 10) {
  const std::uint64_t until = preemptions() + weft::test::preemptions_wanted(few);
  std::atomic<bool> stop{false};
  weft::wait_group hogs;
  {
    const weft::test::crowd others(1);
    for (int i = 0; i < weft::runtime::gomaxprocs() + 1; ++i) {
      hogs.go([&] {
        while (!stop.load(std::memory_order_relaxed)) {
        }
      });
    }
    f();
    while (preemptions() < until) weft::gosched();
    stop = true;
  }
  hogs.wait();
}

void compute(std::chrono::microseconds d) {
  const auto until = weft::test::test_clock::now() + d;
  while (weft::test::test_clock::now() < until) {
  }
}

class PreemptProcess : public testing::Test {
 protected:
  static void expect(const char* child, std::vector<std::string> environment = {},
                     const std::string& output = "") {
    environment.emplace_back("WEFTMAXPROCS=2");
    const auto r = weft::test::run_child(child, environment);
    EXPECT_EQ(r.status, kRight) << r.output;
    EXPECT_EQ(r.output, output);
  }
};

// -- which signal --------------------------------------------------------------------------------

bool is_default(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

WEFT_CHILD(another_signal) {
  weft::run([] { under_preemption([] {}); });
  return is_default(SIGURG) && !is_default(weft::rt::runtime_signal()) ? kRight : 1;
}
TEST_F(PreemptProcess, ByAnotherSignal) {
  expect("another_signal", {"WEFTDEBUG=preemptsignal=" + std::to_string(SIGUSR1)});
  expect("another_signal", {"WEFTDEBUG=preemptsignal=" + std::to_string(SIGRTMIN + 3)});
}

WEFT_CHILD(default_signal) {
  weft::run([] { under_preemption([] {}); });
  return weft::rt::runtime_signal() == SIGURG && !is_default(SIGURG) ? kRight : 1;
}
TEST_F(PreemptProcess, SignalsThatCannotBeOursAreNamed) {
  expect("default_signal");
  for (const int signal : {SIGKILL, 33}) {
    const auto r = weft::test::run_child("default_signal",
                                         {"WEFTDEBUG=preemptsignal=" + std::to_string(signal)});
    EXPECT_EQ(r.status, kRight);
    EXPECT_NE(r.output.find("preemptsignal takes SIGURG, SIGUSR1"), std::string::npos) << r.output;
  }
}

// The program's own: as if weft were not there.
WEFT_CHILD(users_signal_kills) {
  weft::run([] { under_preemption([] { raise(SIGUSR1); }); });
  return 1;
}
TEST_F(PreemptProcess, WhatTheSystemDoesAboutTheSignalStays) {
  const auto r = weft::test::run_child("users_signal_kills",
                                       {"WEFTDEBUG=preemptsignal=" + std::to_string(SIGUSR1)});
  EXPECT_EQ(r.status, 128 + SIGUSR1) << r.output;
}

// Go: TestCgoSigfwd. Other people's signals go to the handler that was there before, ours do not.
std::atomic<int> chained{0}, strange{0};
void install_chained(int flags) {
  struct sigaction action {};
  action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
    ++(signal == SIGURG && info != nullptr && info->si_pid == getpid() && context != nullptr
           ? chained
           : strange);
    errno = 77;
  };
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(SIGURG, &action, nullptr);
}
int count_chained() {
  constexpr int kSignals = 60;
  weft::run([] {
    under_preemption([] {
      errno = 11;
      for (int i = 0; i < kSignals; ++i) {
        raise(SIGURG);
        compute(50us);
      }
    });
  });
  // The kernel merges two signals of one number that wait for the same thread.
  return chained <= kSignals && chained >= kSignals * 9 / 10 && strange == 0 ? kRight : 1;
}
WEFT_CHILD(chains) {
  install_chained(SA_RESTART);
  return count_chained();
}
WEFT_CHILD(chains_on_a_stack) {
  install_chained(SA_ONSTACK);
  return count_chained();
}
TEST_F(PreemptProcess, ChainsOtherPeoplesSignals) {
  expect("chains");
  expect("chains_on_a_stack");
}

// Go: TestCgoExternalThreadSignal, TestCgoExternalThreadSIGPROF. Threads that weft has never seen, and those that have used it.
WEFT_CHILD(signals_at_plain_threads) {
  install_chained(SA_RESTART);
  static std::atomic<int> profiled{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++profiled; };
  sigaction(SIGPROF, &action, nullptr);
  weft::run([] {
    under_preemption([] {
      for (int i = 0; i < 50; ++i) {
        std::thread([] { raise(SIGURG); }).join();
        std::thread([] {
          weft::chan<int> c(1);
          c.send(1);
          raise(SIGURG);
          raise(SIGPROF);
        }).join();
      }
    });
  });
  return chained == 100 && strange == 0 && profiled == 50 ? kRight : 1;
}
TEST_F(PreemptProcess, SignalsAtPlainThreads) { expect("signals_at_plain_threads"); }

// -- the handler leaves no trace -----------------------------------------------------------------

// The program's own timer interrupts goroutines, too, and their handlers nest.
WEFT_CHILD(users_handlers) {
  static std::atomic<int> ticks{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++ticks; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval often{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &often, nullptr);
  weft::run([] { under_preemption([] {}, 60); });
  // TSan runs the handler of the main thread, which may have got all of them, when it next sleeps.
  const bool ticked = weft::test::eventually([] {
    std::this_thread::sleep_for(1ms);  // sleep-ok: see above
    return ticks > 0;
  });
  const itimerval never{};
  setitimer(ITIMER_PROF, &never, nullptr);
  return ticked ? kRight : 1;
}
TEST_F(PreemptProcess, BesideUsersHandlers) { expect("users_handlers"); }

// Go: TestSigStackSwapping. A goroutine's thread keeps the mask and the stack for handlers that the goroutine has given it.
WEFT_CHILD(mask_and_stack) {
  static std::array<char, 64 * 1024> own_stack;
  static std::atomic<int> inside{0}, outside{0};
  struct sigaction action {};
  action.sa_handler = [](int) {
    char here;
    const bool own = &here >= own_stack.data() && &here < own_stack.data() + own_stack.size();
    ++(own ? inside : outside);
  };
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
  std::atomic<int> wrong{0};
  weft::run([&] {
    under_preemption(
        [&] {
          weft::runtime::lock_os_thread();
          stack_t mine{}, before{}, now{};
          mine.ss_sp = own_stack.data();
          mine.ss_size = own_stack.size();
          sigaltstack(&mine, &before);
          sigset_t block, mask;
          sigemptyset(&block);
          sigaddset(&block, SIGWINCH);
          pthread_sigmask(SIG_BLOCK, &block, nullptr);
          for (int i = 0; i < 20; ++i) {
            compute(2ms);
            raise(SIGUSR2);
            pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            sigaltstack(nullptr, &now);
            wrong += sigismember(&mask, SIGWINCH) == 1 && sigismember(&mask, SIGURG) == 0 &&
                             sigismember(&mask, SIGUSR2) == 0 && now.ss_sp == mine.ss_sp
                         ? 0
                         : 1;
          }
          pthread_sigmask(SIG_UNBLOCK, &block, nullptr);
          sigaltstack(&before, nullptr);
          weft::runtime::unlock_os_thread();
        },
        40);
  });
  return wrong == 0 && inside == 20 && outside == 0 ? kRight : 1;
}
TEST_F(PreemptProcess, KeepsMaskAndSignalStack) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan runs handlers elsewhere";
  expect("mask_and_stack");
}

// Go: TestCgoSignalDeadlock. A plain thread sends signals to the process, whoever gets them, while goroutines come and go, and the
// world is stopped again and again. All of it ends.
WEFT_CHILD(signals_beside_gc) {
  static std::atomic<long> handled{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++handled; };
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGUSR2, &action, nullptr);
  std::atomic<bool> over{false};
  std::atomic<long> ran{0};
  std::thread plain([&] {
    while (!over) {
      kill(getpid(), SIGUSR2);
      sched_yield();
    }
  });
  constexpr int kRounds = 50, kEach = 100;
  weft::run([&] {
    under_preemption([&] {
      for (int i = 0; i < kRounds || handled == 0; ++i) {
        weft::wait_group ended;
        for (int j = 0; j < kEach; ++j) ended.go([&] { ++ran; });
        weft::runtime::gc();
        ended.wait();
      }
    });
  });
  over = true;
  plain.join();
  return ran >= kRounds * kEach ? kRight : 1;
}
TEST_F(PreemptProcess, SignalsFromAPlainThread) { expect("signals_beside_gc"); }

// glibc's setgid() signals every thread and waits for it: those that are frozen must answer, too.
WEFT_CHILD(changes_ids) {
  std::atomic<int> failed{0};
  weft::run([&] {
    under_preemption(
        [&] {
          std::thread plain([&] {
            for (int i = 0; i < 20; ++i) failed += setgid(getgid()) == 0 ? 0 : 1;
          });
          for (int i = 0; i < 20; ++i) {
            failed += setuid(getuid()) == 0 ? 0 : 1;
            weft::gosched();
          }
          plain.join();
        },
        40);
  });
  return failed == 0 ? kRight : 1;
}
TEST_F(PreemptProcess, ChangesUserIds) { expect("changes_ids"); }

// -- children ------------------------------------------------------------------------------------

int status_of(pid_t child) {
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

WEFT_CHILD(forks) {
  std::atomic<int> wrong{0};
  weft::run([&] {
    under_preemption([&] {
      for (int i = 0; i < 10; ++i) {
        pid_t child = fork();
        if (child == 0) {
          compute(1ms);
          _exit(41);
        }
        wrong += status_of(child) == 41 ? 0 : 1;
        child = vfork();  // shares the memory of the goroutine that waits for it
        if (child == 0) {
          execl("/bin/sh", "sh", "-c", "exit 42", nullptr);
          _exit(1);
        }
        wrong += status_of(child) == 42 ? 0 : 1;
        const char* words[] = {"sh", "-c", "exit 43", nullptr};
        wrong += posix_spawn(&child, "/bin/sh", nullptr, nullptr, const_cast<char**>(words),
                             environ) == 0 &&
                         status_of(child) == 43
                     ? 0
                     : 1;
      }
    });
  });
  return wrong == 0 ? kRight : 1;
}
TEST_F(PreemptProcess, ForksAndRunsPrograms) { expect("forks"); }

// Signals at a vfork child that computes: it has its parent's memory, and must not believe to be an M. There is a request
// for that M, too, which is its parent's to take: so sysmon sends none meanwhile, either.
WEFT_CHILD(vfork_is_signalled) {
  int status = -1;
  weft::run([&] {
    under_preemption([&] {
      const pid_t child = vfork();
      auto& request = weft::rt::current_m()->signalled;
      if (child == 0) {
        for (int i = 0; i < 100; ++i) {
          request.store(1, std::memory_order_relaxed);
          weft::rt::send_runtime_signal(gettid());
          if (request.load(std::memory_order_relaxed) != 1) _exit(45);
        }
        _exit(44);
      }
      request.store(0, std::memory_order_relaxed);
      status = status_of(child);
    });
  });
  return status == 44 ? kRight : 1;
}
TEST_F(PreemptProcess, AVforkChildIsSignalled) {
  if (WEFT_TEST_TSAN || WEFT_TEST_ASAN) GTEST_SKIP() << "sanitizers intercept vfork";
  expect("vfork_is_signalled");
}

// Go: TestCgoExecSignalMask. A program that is started has the mask that this one began with.
WEFT_CHILD(execs) {
  sigset_t block;
  sigemptyset(&block);
  sigaddset(&block, SIGURG);  // which Ms must have unblocked
  sigaddset(&block, SIGUSR2);
  sigprocmask(SIG_BLOCK, &block, nullptr);
  int status = -1;
  weft::run([&] {
    under_preemption([&] {
      const char* words[] = {"grep", "SigBlk", "/proc/self/status", nullptr};
      pid_t child = -1;
      if (posix_spawnp(&child, "grep", nullptr, nullptr, const_cast<char**>(words), environ) == 0) {
        status = status_of(child);
      }
    });
  });
  return status == 0 ? kRight : 1;
}
// … by weft, to the last bit.
WEFT_CHILD(commands) {
  sigset_t block;
  sigemptyset(&block);
  sigaddset(&block, SIGURG);
  sigaddset(&block, SIGUSR2);
  sigprocmask(SIG_BLOCK, &block, nullptr);
  bool good = false;
  weft::run([&] {
    under_preemption([&] {
      good = weft::process::command("grep", {"SigBlk", "/proc/self/status"}).run().ok();
    });
  });
  return good ? kRight : 1;
}
TEST_F(PreemptProcess, ExecutedProgramsHaveTheOriginalMask) {
  auto r = weft::test::run_child("execs");
  EXPECT_EQ(r.status, kRight) << r.output;
  EXPECT_EQ(r.output, "SigBlk:\t0000000000000800\n") << "SIGUSR2; Ms have unblocked SIGURG";
  r = weft::test::run_child("commands");
  EXPECT_EQ(r.status, kRight) << r.output;
  EXPECT_EQ(r.output, "SigBlk:\t0000000000400800\n") << "SIGURG and SIGUSR2";
}

// -- without -------------------------------------------------------------------------------------

// Nobody is interrupted, and whoever calls the runtime makes room: by the flag that is always tried first. A P may be taken all
// the same while its thread waits for a page, and then the round says nothing.
WEFT_CHILD(only_asked) {
  return weft::run([] {
    for (bool kept_its_p = false; !kept_its_p;) {
      const auto lost_before = weft::test::handoffs();
      std::atomic<bool> other_ran{false};
      weft::wait_group ended;
      ended.go([&] { other_ran = true; });
      compute(50ms);
      const bool ran = other_ran;
      kept_its_p = weft::test::handoffs() == lost_before;
      if ((ran && kept_its_p) || preemptions() != 0) _exit(1);
      weft::chan<int> c(1);
      while (!other_ran) c.try_recv();  // never parks
      ended.wait();
    }
    return preemptions() == 0 ? kRight : 2;
  });
}
TEST_F(PreemptProcess, AskedOnly) {
  const auto r =
      weft::test::run_child("only_asked", {"WEFTDEBUG=asyncpreemptoff=1", "WEFTMAXPROCS=1"});
  EXPECT_EQ(r.status, kRight) << r.output;
}

// Nobody waits: nobody is disturbed.
WEFT_CHILD(undisturbed) {
  const auto nobody_is_frozen = [] {
    const weft::rt::inside here;
    const weft::rt::scoped_lock held(weft::rt::sched.lock);
    return weft::rt::sched.frozen_ms == 0;
  };
  std::uint64_t before = 0;
  weft::run([&] {
    std::atomic<int> begun{0}, ready{0};
    weft::wait_group ended;
    for (int i = 0; i < 2; ++i) {
      ended.go([&] {
        // Each has a P of its own: until the machine has found the time to start both, one waits.
        ++begun;
        while (begun < 2 || !nobody_is_frozen()) {
        }
        if (++ready == 1) before = preemptions();
        compute(100ms);
      });
    }
    ended.wait();
  });
  return preemptions() - before <= 2 ? kRight : 1;  // the runtime's own helpers may want to run
}
TEST_F(PreemptProcess, NobodyIsDisturbedInVain) { expect("undisturbed"); }

// Ps change hands all the time, by both ways.
int robs_and_freezes() {
  std::atomic<long> sum{0};
  long rounds = 0;
  weft::run([&] {
    under_preemption([&] {
      do {
        ++rounds;
        weft::wait_group ended;
        for (int i = 0; i < 20; ++i) {
          ended.go([&] {
            for (int n = 0; n < 5; ++n) {
              usleep(1000);  // sleep-ok: the call that blocks
              weft::chan<int> c(1);
              c.send(1);
              sum += *c.recv();
            }
          });
        }
        ended.wait();
      } while (weft::test::handoffs() == 0);  // sysmon must have had the time to look
    });
  });
  return sum == 100 * rounds ? kRight : 1;
}
WEFT_CHILD(no_membarrier) {
  if (!deny(SYS_membarrier)) return 77;
  const int status = robs_and_freezes();
  return weft::rt::asymmetric_fences ? 2 : status;
}
TEST_F(PreemptProcess, WithoutTheKernelsFences) {
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  expect("no_membarrier");
}

// … which are denied when it is too late to do without: by a filter that sysmon inherits, before it robs somebody.
WEFT_CHILD(membarrier_denied_later) {
  static int fd[2];
  if (pipe(fd) != 0) return 77;
  return weft::run([] {
    if (!weft::rt::asymmetric_fences || !deny(SYS_membarrier, EPERM)) return 77;
    weft::wait_group ended;
    ended.go([] { static_cast<void>(!write(fd[1], "x", 1)); });
    char byte;
    static_cast<void>(!read(fd[0], &byte, 1));
    ended.wait();
    return kRight;
  });
}
TEST_F(PreemptProcess, TheKernelsFencesAreTakenAwayLater) {
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  const auto r = weft::test::run_child("membarrier_denied_later", {"WEFTMAXPROCS=1"});
  if (r.status == 77) GTEST_SKIP() << "no such fences, or no filters here";
  EXPECT_EQ(r.status, 2) << r.output;
  EXPECT_EQ(
      r.output.find("runtime: membarrier(2) is refused (errno=1), and was not when the runtime "
                    "started\nruntime: a filter of system calls must allow it, or be loaded "
                    "before weft is first used\nfatal error: membarrier is denied\n\n"),
      0u)
      << r.output;
  EXPECT_NE(r.output.find("\ngoroutine 1 ["), std::string::npos) << r.output;
}

// From inside a cage sysmon cannot see whether somebody sleeps. It takes the P all the same, and no signal ends the call, one of
// those that a handler ends.
WEFT_CHILD(no_files) {
  static int fd[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0) return 77;
  const timeval long_enough{300, 0};
  setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &long_enough, sizeof long_enough);
  return weft::run([] {
    if (!deny(SYS_openat, EPERM)) return 77;
    bool lost_its_p = false;
    weft::wait_group ended;
    ended.go([&] {
      lost_its_p = weft::test::eventually([] { return weft::test::handoffs() != 0; });
      static_cast<void>(!write(fd[1], "x", 1));
    });
    char byte;
    const bool right = read(fd[0], &byte, 1) == 1;
    ended.wait();
    return right && lost_its_p ? kRight : 1;
  });
}
TEST_F(PreemptProcess, WithoutTheKernelsFiles) {
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  const auto r = weft::test::run_child("no_files", {"WEFTMAXPROCS=1"});
  if (r.status == 77) GTEST_SKIP() << "no filters here";
  EXPECT_EQ(r.status, kRight) << r.output;
}

// Sandboxes deny this one.
WEFT_CHILD(no_queued_signals) {
  if (!deny(SYS_rt_tgsigqueueinfo)) return 77;
  return robs_and_freezes();
}
TEST_F(PreemptProcess, WithoutQueuedSignals) {
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  expect("no_queued_signals");
}

// -- bounds --------------------------------------------------------------------------------------

// Without malloc: who waits for one of its locks, which a frozen goroutine holds, is not frozen and counts.
int threads_now() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.m_count;
}

// Ten thousand that compute do not become ten thousand threads, and those that are frozen do not count toward the limit.
WEFT_CHILD(many_compute) {
  constexpr int kLimit = 24;
  weft::runtime::set_max_threads(kLimit);
  std::atomic<int> most{0};
  std::atomic<long> done{0};
  const long count =
      std::getenv("WEFT_PREEMPTIONS") != nullptr ? 10'000 : weft::test::scaled(400, 100);
  weft::run([&] {
    weft::wait_group ended;
    for (long i = 0; i < count; ++i) {
      ended.go([&] {
        compute(1500us);
        const int now = threads_now();
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        ++done;
      });
    }
    ended.wait();
  });
  const int bound = weft::rt::most_frozen() + kLimit;
  if (most > bound) std::printf("%d threads\n", most.load());
  return done == count && most <= bound ? kRight : 1;
}
TEST_F(PreemptProcess, ManyComputeOnFewThreads) { expect("many_compute"); }

// Those who have been interrupted, and wait for a P that nobody has handed them yet.
int stand_still_now() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  int n = 0;
  for (const weft::rt::M* mp = weft::rt::sched.all_ms; mp != nullptr; mp = mp->all_next) {
    n += mp->frozen_outside && !mp->returned && mp->nextp == nullptr ? 1 : 0;
  }
  return n;
}

WEFT_CHILD(few_stand_still) {
  constexpr int kFew = 1, kHogs = 20;
  std::atomic<int> most{0};
  weft::run([&] {
    weft::wait_group ended;
    for (int i = 0; i < kHogs; ++i) {
      ended.go([&] {
        for (int rounds = 0; rounds < 6 || most < kFew; ++rounds) {
          compute(1500us);
          const int now = stand_still_now();
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
        }
      });
    }
    ended.wait();
  });
  const int bound = kFew + weft::runtime::gomaxprocs();  // a P may go to a timer first
  if (most > bound) std::printf("%d stood still\n", most.load());
  return most <= bound && weft::rt::most_frozen() == kFew ? kRight : 1;
}
TEST_F(PreemptProcess, AsManyStandStillAsTheKeySays) {
  expect("few_stand_still", {"WEFTDEBUG=maxfrozen=1"});
}

// Without the key.
WEFT_CHILD(many_may_stand_still) {
  bool right = true;
  for (const int n : {1, 16, 17, 40}) {
    weft::runtime::gomaxprocs(n);
    right &= weft::rt::most_frozen() == std::max(64, 4 * n);
  }
  return right ? kRight : 1;
}
TEST_F(PreemptProcess, FourOnEachPMayStandStillAndNoFewerThan64) {
  expect("many_may_stand_still", {"WEFTDEBUG="});
}

// One that sleeps for a moment at a time beside goroutines that compute on all Ps stops the world now and then: nobody
// computes meanwhile, whosever P it has; but for one whose own was taken while its thread waited for a page.
int robbed_who_lend_nothing() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  int n = 0;
  for (const weft::rt::M* mp = weft::rt::sched.robbed_ms; mp != nullptr; mp = mp->robbed_next) {
    n += mp->lends ? 0 : 1;
  }
  return n;
}

WEFT_CHILD(ticker_stops) {
  constexpr int kHogs = 2;
  std::atomic<long> rounds[kHogs] = {};
  std::atomic<bool> over{false};
  long moved = 0;
  weft::run([&] {
    weft::wait_group ended;
    for (auto& r : rounds) {
      ended.go([&] {
        while (!over.load(std::memory_order_relaxed)) r.fetch_add(1, std::memory_order_relaxed);
      });
    }
    const auto sum = [&] { return rounds[0].load() + rounds[1].load(); };
    for (int i = 0; i < 500; ++i) {
      weft::this_thread::sleep_for(500us);  // sleep-ok: the ticks
      if (i % 5 != 0) continue;
      weft::runtime::stop_the_world([&] {
        const bool unknown = weft::test::handoffs() != 0 && robbed_who_lend_nothing() != 0;
        const long before = sum();
        compute(200us);
        moved += sum() != before && !unknown ? 1 : 0;
      });
    }
    over = true;
    ended.wait();
  });
  if (moved != 0) std::printf("%ld times\n", moved);
  return moved == 0 ? kRight : 1;
}
TEST_F(PreemptProcess, ATickerStopsTheWorld) { expect("ticker_stops"); }

// So many block in calls that they do not announce; and are let go.
int many_block(long count) {
  int fd[2];
  if (pipe(fd) != 0) return 77;
  std::atomic<long> begun{0}, right{0};
  int most = 0;
  weft::run([&] {
    weft::wait_group ended;
    for (long i = 0; i < count; ++i) {
      ended.go([&] {
        char byte;
        ++begun;
        right += read(fd[0], &byte, 1) == 1 ? 1 : 0;
      });
    }
    while (begun < count) weft::gosched();
    most = threads_now();
    for (long i = 0; i < count; ++i) right += write(fd[1], "x", 1) == 1 ? 0 : -1;
    ended.wait();
  });
  // Hours later most of the threads are gone.
  std::int64_t later = weft::rt::nanotime() + 3'600'000'000'000;
  const bool reaped = weft::test::eventually([&] {
    weft::rt::reap_idle_ms(later += 3'000'000'000);
    return threads_now() <= 20;
  });
  return right == count && most >= count && most <= count + 30 && reaped ? kRight : 1;
}
WEFT_CHILD(thousands_block) {
  return many_block(std::getenv("WEFT_PREEMPTIONS") != nullptr ? 5'000
                                                               : weft::test::scaled(300, 50));
}
TEST_F(PreemptProcess, ThousandsBlockAtOnce) { expect("thousands_block"); }

WEFT_CHILD(too_many_block) {
  weft::runtime::set_max_threads(40);
  return many_block(100);
}
TEST_F(PreemptProcess, MoreBlockThanThreadsMayBe) {
  const auto r = weft::test::run_child("too_many_block", {"WEFTMAXPROCS=2"});
  EXPECT_EQ(r.status, 2) << r.output;
  EXPECT_EQ(
      r.output.find("runtime: program exceeds 40-thread limit\nfatal error: thread exhaustion\n"),
      0u)
      << r.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
