// Goroutines wait for programs, and threads do not, where the kernel has pidfds. And what programs and threads do not inherit.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/process.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "gmp/sched.h"
#include "io/own_thread.h"
#include "os/test_hooks.h"
#include "os/thread.h"
#include "support/fixture.h"
#include "support/sockets.h"
#include "support/thread_state.h"
#include "support/threads.h"

namespace {

using weft::rt::os::test_hooks;
using weft::test::eventually;
using weft::test::own_threads;

constexpr int kPrograms = 50;

bool all_others_are_idle() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.m_count - weft::rt::sched.idle_m_count <= 1;
}

// Nobody takes Ps from those whom the machine pauses: every thread that is made, somebody has asked for.
class ProcessThreads : public weft::test::over_procs {
 public:
  static void SetUpTestSuite() { test_hooks.no_sysmon.set(1); }

 protected:
  void TearDown() override {
    test_hooks.deny_pidfd.set(0);
    test_hooks.poller_add_error.set(0);
    test_hooks.force_thread_eagain_count.set(0);
    over_procs::TearDown();
  }
  // f() while so many programs are waited for.
  template <class F>
  void while_waiting(F f) {
    std::vector<weft::process::child> all;
    std::vector<int> pids;
    all.reserve(kPrograms);
    for (int i = 0; i < kPrograms; ++i) {
      all.push_back(weft::process::command("sleep", {"1000"}).start());
      pids.push_back(all.back().pid());
    }
    std::atomic<int> begun{0}, killed{0};
    weft::wait_group waits;
    for (auto& c : all) {
      waits.go([&] {
        ++begun;
        killed += c.wait().signal == SIGKILL;
      });
    }
    EXPECT_TRUE(eventually([&] { return begun == kPrograms; }));
    f();
    for (const int pid : pids) ::kill(pid, SIGKILL);
    waits.wait();
    EXPECT_EQ(killed, kPrograms);
  }
};

bool has_pidfds() {
  const long pidfd = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  if (pidfd >= 0) ::close(static_cast<int>(pidfd));
  return pidfd >= 0;
}

TEST_P(ProcessThreads, NobodysThreadWaits) {
  if (!has_pidfds()) GTEST_SKIP() << "no pidfds here: threads wait";
  run([&] {
    const int before = own_threads();
    while_waiting([&] {
      EXPECT_LE(own_threads(), std::max(before, 2 * procs() + 4));  // as in ring_threads_test.cc
      EXPECT_TRUE(eventually(all_others_are_idle));
    });
    // They would have been seen.
    test_hooks.deny_pidfd.set(1);
    while_waiting([&] { EXPECT_TRUE(eventually([] { return own_threads() >= kPrograms; })); });
  });
}

bool is_gone(int pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 &&
         errno == ECHILD;
}

// Descriptors that wait for others.
int epoll_descriptors() {
  int n = 0;
  std::error_code gone;
  for (const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) {
    n += std::filesystem::read_symlink(e.path(), gone) == "anon_inode:[eventpoll]";
  }
  return n;
}

// Starts so many, and destroys their children while they run; their numbers.
std::vector<int> drop(int programs) {
  std::vector<int> pids;
  for (int i = 0; i < programs; ++i) {
    pids.push_back(weft::process::command("sleep", {"1000"}).start().pid());
  }
  return pids;
}

void expect_reaped(const std::vector<int>& pids) {
  for (const int pid : pids) {
    EXPECT_FALSE(is_gone(pid)) << "it runs";
    ::kill(pid, SIGKILL);
  }
  for (const int pid : pids) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
}

TEST_P(ProcessThreads, OneReapsThoseThatNobodyWaitsFor) {
  if (!has_pidfds()) GTEST_SKIP() << "no pidfds here: threads wait";
  run([&] {
    const int before = own_threads(), descriptors = weft::test::open_descriptors();
    const int polls = epoll_descriptors();
    const std::vector<int> first = drop(kPrograms);
    EXPECT_LE(own_threads(), std::max(before, 2 * procs() + 4) + 1);
    expect_reaped(first);
    // One ends while another is dropped, and runs.
    for (std::vector<int> runs = drop(1); const int i : {1, 2, 3}) {
      const std::vector<int> next = drop(i);
      expect_reaped(runs);
      runs = next;
      if (i == 3) expect_reaped(runs);
    }
    EXPECT_TRUE(eventually([&] { return epoll_descriptors() == polls; }));
    EXPECT_EQ(weft::test::open_descriptors(), descriptors);
  });
}

// Where there are no pidfds, or no room for more of them to be watched.
TEST_P(ProcessThreads, EachIsReapedByItsOwnIfNeedBe) {
  run([&] {
    const int descriptors = weft::test::open_descriptors(), polls = epoll_descriptors();
    for (auto* hook : {&test_hooks.deny_pidfd, &test_hooks.poller_add_error}) {
      hook->set(ENOSPC);
      const std::vector<int> all = drop(kPrograms);
      hook->set(0);
      EXPECT_GE(own_threads(), kPrograms);
      EXPECT_EQ(weft::test::open_descriptors(), descriptors);
      expect_reaped(all);
      EXPECT_TRUE(eventually([] { return own_threads() < kPrograms; }));
    }
    EXPECT_EQ(epoll_descriptors(), polls);
  });
}

// It stays as a zombie; the next one has somebody again.
TEST_P(ProcessThreads, NobodyReapsWithoutAThread) {
  run([&] {
    const int descriptors = weft::test::open_descriptors(), polls = epoll_descriptors();
    auto left = weft::process::command("sleep", {"1000"}).start();
    const int pid = left.pid();
    EXPECT_TRUE(eventually(all_others_are_idle));  // nobody else wants a thread
    test_hooks.force_thread_eagain_count.set(1000);
    left = {};
    test_hooks.force_thread_eagain_count.set(0);
    EXPECT_EQ(weft::test::open_descriptors(), descriptors);
    EXPECT_EQ(epoll_descriptors(), polls);
    expect_reaped(drop(1));
    ::kill(pid, SIGKILL);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED), 0);
    EXPECT_EQ(info.si_status, SIGKILL);
  });
}

// ns; what the kernel says is its own affair, but for those who have asked for short ones.
std::uint64_t slice_of(int tid) {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  ::syscall(SYS_sched_getattr, tid, &attributes, sizeof attributes, 0);
  return attributes.runtime;
}

// As one that borrows a P (sched/borrow.cc). Before, as one that does not: it may be one already.
WEFT_TEST_OF_THE_THREAD std::uint64_t slice_with(bool shortly) {
  const weft::rt::inside here;
  weft::rt::ask_for_short_slices(shortly);
  weft::rt::current_m()->short_slices = shortly;
  return slice_of(0);
}

TEST_P(ProcessThreads, NobodyInheritsShortSlices) {
  run([] {
    const std::uint64_t usual = slice_with(false);
    if (slice_with(true) == usual) GTEST_SKIP() << "this kernel has none";
    auto program = weft::process::command("sleep", {"1000"}).start();
    EXPECT_EQ(slice_of(program.pid()), usual);
    program.kill();
    program.wait();
    std::atomic<std::uint64_t> of_thread{0};
    slice_with(true);
    EXPECT_FALSE(weft::rt::on_own_thread([&] { of_thread = slice_of(0); }));
    EXPECT_EQ(slice_of(0), usual);
    EXPECT_TRUE(eventually([&] { return of_thread != 0; }));
    EXPECT_EQ(of_thread, usual);
  });
}

WEFT_OVER_PROCS(ProcessThreads);

}  // namespace
