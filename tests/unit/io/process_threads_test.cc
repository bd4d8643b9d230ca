// Goroutines wait for programs, and threads do not, where the kernel has pidfds. And what programs and threads do not inherit.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <gtest/gtest.h>
#include <sys/syscall.h>
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

TEST_P(ProcessThreads, NobodysThreadWaits) {
  const long pidfd = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  if (pidfd < 0) GTEST_SKIP() << "no pidfds here: threads wait";
  ::close(static_cast<int>(pidfd));
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
