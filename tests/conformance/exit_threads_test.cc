// The end of the process, as threads see it: exit() on threads of the program, and goroutines that
// compute and have to be stopped by a signal. design.md 2.1 "Process exit".
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <thread>
#include <time.h>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/run.h>

#include "support/child_suite.h"
#include "support/patience.h"
#include "support/witness.h"

namespace {

using weft::test::child_result;
using weft::test::start_counting;
using weft::test::ticks;

// One that never comes to a scheduling point: only a signal stops it.
void start_computing() {
  weft::go(weft::test::compute_for_ever);
  while (ticks < 1000) {
    sched_yield();
  }
}

// --- exit() on a plain thread that is not the main one ---------------------------------------------

WEFT_CHILD(exit_on_thread_that_spawned) {
  WITNESS(early);
  std::thread([] {
    start_counting();
    WITNESS(meanwhile);
    std::exit(3);
  }).join();
  return 1;
}

WEFT_CHILD(exit_on_thread_that_waited) {
  WITNESS(early);
  weft::run([] { start_counting(); });
  std::thread([] {
    weft::run([] {});
    WITNESS(meanwhile);
    std::exit(4);
  }).join();
  return 1;
}

// They have done no more than wake somebody.
WEFT_CHILD(exit_on_thread_that_woke) {
  WITNESS(early);
  static weft::chan<int> c;
  static std::atomic<bool> waits{false};
  weft::run([] {
    start_counting();
    weft::go([] {
      waits = true;
      static_cast<void>(c.recv());
      weft::test::count_for_ever();
    });
    while (!waits) weft::gosched();
    for (int i = 0; i < 100; ++i) weft::gosched();
  });
  std::thread([] {
    WITNESS(meanwhile);
    c.send(1);
    std::exit(12);
  }).join();
  return 1;
}

WEFT_CHILD(exit_on_thread_that_woke_a_thread) {
  WITNESS(early);
  weft::run([] { start_counting(); });
  static weft::chan<int> c;
  std::thread([receiver = weft::test::this_thread()] {
    WITNESS(meanwhile);
    while (!weft::test::sleeps(receiver)) sched_yield();
    c.send(1);
    std::exit(13);
  }).detach();
  static_cast<void>(c.recv());
  for (;;) pause();
}

// --- two exits at once -----------------------------------------------------------------------------

// A hog holds the first one up for a while; whoever is second must not run destructors meanwhile.
WEFT_CHILD(exit_twice_with_goroutine) {
  WITNESS(early);
  static std::atomic<int> both{0};
  start_computing();
  weft::go([] {
    for (++both; both < 2;) {
    }
    std::exit(14);
  });
  if (!weft::test::eventually([] { return both == 1; })) return 1;
  ++both;
  return 14;
}

WEFT_CHILD(exit_twice_with_thread) {
  WITNESS(early);
  static std::atomic<int> both{0};
  start_computing();
  std::thread([] {
    weft::go([] {});
    for (++both; both < 2;) {
    }
    std::exit(15);
  }).detach();
  if (!weft::test::eventually([] { return both == 1; })) return 1;
  ++both;
  return 15;
}

// A thread that ends is not a process that ends, however it ends.
WEFT_CHILD(threads_end) {
  std::thread([] { start_counting(); }).join();
  pthread_t other;
  const auto leaves = [](void*) -> void* {
    weft::run([] {});
    pthread_exit(nullptr);
  };
  if (pthread_create(&other, nullptr, leaves, nullptr) != 0) return 1;
  pthread_join(other, nullptr);
  return weft::test::eventually([before = ticks.load()] { return ticks > before + 1000; }) ? 5 : 1;
}

// --- goroutines that compute -----------------------------------------------------------------------

WEFT_CHILD(exit_beside_one_that_computes) {
  WITNESS(early);
  start_computing();
  return 6;
}

// A program that lets one of its threads handle all signals, and so blocks them everywhere else.
WEFT_CHILD(exit_with_signals_blocked) {
  WITNESS(early);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  start_computing();
  return 7;
}

// The kernel may queue no more signals: then it drops what a signal carries.
WEFT_CHILD(exit_without_queued_signals) {
  WITNESS(early);
  const rlimit none{0, 0};
  if (setrlimit(RLIMIT_SIGPENDING, &none) != 0) return 1;
  start_computing();
  return 8;
}

// The handler that was there before is asked about other people's signals; it may be none.
WEFT_CHILD(exit_over_ignored_signal) {
  struct raises {
    ~raises() {
      raise(SIGURG);
      std::printf("raised\n");
    }
  };
  WITNESS(early);
  static const raises last;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ignore.sa_flags = SA_SIGINFO;
  sigaction(SIGURG, &ignore, nullptr);
  start_computing();
  return 9;
}

WEFT_CHILD(exit_over_default_signal) {
  struct raises {
    ~raises() {
      raise(SIGURG);
      std::printf("raised\n");
    }
  };
  WITNESS(early);
  static const raises last;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  standard.sa_flags = SA_SIGINFO;
  sigaction(SIGURG, &standard, nullptr);
  start_computing();
  return 10;
}

WEFT_CHILD(exit_over_handler) {
  static volatile sig_atomic_t handled = 0;
  struct raises {
    ~raises() {
      raise(SIGURG);
      std::printf("handled %d\n", static_cast<int>(handled));
    }
  };
  WITNESS(early);
  static const raises last;
  struct sigaction handle {};
  handle.sa_sigaction = [](int, siginfo_t*, void*) { handled = 1; };
  handle.sa_flags = SA_SIGINFO;
  sigaction(SIGURG, &handle, nullptr);
  start_computing();
  return 11;
}

// --- locks of those who were stopped ---------------------------------------------------------------

// Processor time of this thread, in microseconds: what a busy machine does not make longer.
long own_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000 + t.tv_nsec / 1000;
}

// It is stopped while it holds what a destructor needs, and let go until it gives that up.
void need_a_stragglers_lock() {
  static std::mutex lock;
  static std::atomic<bool> held{false};
  struct needs_lock {
    ~needs_lock() {
      const std::lock_guard got(lock);
      std::printf("got it\n");
      rlimit files{};  // a sanitizer wants to read some
      getrlimit(RLIMIT_NOFILE, &files);
      files.rlim_cur = files.rlim_max;
      setrlimit(RLIMIT_NOFILE, &files);
    }
  };
  static const needs_lock last;
  for (int i = 0; i < 2; ++i) weft::go(weft::test::compute_for_ever);
  weft::go([] {
    {
      const std::lock_guard mine(lock);
      held = true;
      // Far longer than stopping everybody takes.
      for (const long until = own_time() + 100'000; own_time() < until;) {
      }
    }
    weft::test::compute_for_ever();
  });
  while (!held) sched_yield();
}
WEFT_CHILD(exit_needs_a_stragglers_lock) {
  need_a_stragglers_lock();
  return 18;
}
// … also if the kernel cannot be asked who sleeps: that takes a descriptor.
WEFT_CHILD(exit_needs_a_lock_without_descriptors) {
  need_a_stragglers_lock();
  rlimit none{};
  getrlimit(RLIMIT_NOFILE, &none);
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  return 19;
}

class ExitThreads : public weft::test::children_over_procs {};

TEST_P(ExitThreads, OnAThreadThatSpawned) {
  expect("exit_on_thread_that_spawned", 3, "meanwhile: frozen\nearly: frozen\n");
}
TEST_P(ExitThreads, OnAThreadThatWaited) {
  expect("exit_on_thread_that_waited", 4, "meanwhile: frozen\nearly: frozen\n");
}
TEST_P(ExitThreads, OnAThreadThatWoke) {
  expect("exit_on_thread_that_woke", 12, "meanwhile: frozen\nearly: frozen\n");
}
TEST_P(ExitThreads, OnAThreadThatWokeAThread) {
  expect("exit_on_thread_that_woke_a_thread", 13, "meanwhile: frozen\nearly: frozen\n");
}
TEST_P(ExitThreads, TwiceAtOnce) {
  if (procs() > 1) expect("exit_twice_with_goroutine", 14, "early: frozen\n");
  expect("exit_twice_with_thread", 15, "early: frozen\n");
}
TEST_P(ExitThreads, ThreadsThatEndDoNotEndTheProcess) { expect("threads_end", 5, ""); }
TEST_P(ExitThreads, BesideOneThatComputes) {
  expect("exit_beside_one_that_computes", 6, "early: frozen\n");
}
TEST_P(ExitThreads, WithSignalsBlocked) {
  expect("exit_with_signals_blocked", 7, "early: frozen\n");
}
TEST_P(ExitThreads, WithoutQueuedSignals) {
  expect("exit_without_queued_signals", 8, "early: frozen\n");
}
TEST_P(ExitThreads, OverAnIgnoredSignal) {
  expect("exit_over_ignored_signal", 9, "raised\nearly: frozen\n");
}
TEST_P(ExitThreads, OverADefaultSignal) {
  expect("exit_over_default_signal", 10, "raised\nearly: frozen\n");
}
TEST_P(ExitThreads, OverAHandler) { expect("exit_over_handler", 11, "handled 1\nearly: frozen\n"); }

TEST_P(ExitThreads, StragglersAreLetGoIfTheyHoldALock) {
  if (procs() < 4) GTEST_SKIP() << "two more compute beside the one that holds the lock";
  expect("exit_needs_a_stragglers_lock", 18, "got it\n");
  expect("exit_needs_a_lock_without_descriptors", 19, "got it\n");
}

WEFT_OVER_PROCS(ExitThreads);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
