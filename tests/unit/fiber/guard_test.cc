// fiber/guard.h: every method really guards, and every fallback is taken when it must be.
#include "fiber/guard.h"

#include <cstddef>
#include <errno.h>
#include <gtest/gtest.h>
#include <memory>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "fiber/stack.h"
#include "os/memory.h"
#include "os/test_hooks.h"

namespace weft::rt {
namespace {

/// A pool that has never been used. Its mappings stay: pools are not made to be destroyed.
stack_pool& fresh_pool() {
  static std::vector<std::unique_ptr<stack_pool>> pools;
  return *pools.emplace_back(std::make_unique<stack_pool>());
}

class GuardTest : public testing::Test {
 protected:
  void SetUp() override { os::test_hooks.reset(); }
  void TearDown() override { os::test_hooks.reset(); }
};

/// The signal that kills a child which stores a byte there; 0 if it lives.
int signal_of_store(std::byte* where) {
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // sanitizers have handlers
    ::signal(SIGBUS, SIG_DFL);
    *const_cast<volatile std::byte*>(where) = std::byte{1};
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// Touches what is guarded at its top and bottom byte, and the usable part next to it.
void expect_guarded(const stack& s) {
  EXPECT_EQ(signal_of_store(s.lo - 1), SIGSEGV);
  EXPECT_EQ(signal_of_store(s.lo - kGuardBytes), SIGSEGV) << "16 KiB frames must not jump it";
  EXPECT_EQ(signal_of_store(s.lo - stack_guard_bytes()), SIGSEGV) << "the odd page";
  EXPECT_EQ(signal_of_store(s.lo), 0);
  EXPECT_EQ(signal_of_store(s.hi - 1), 0);
}

/// Takes 20 stacks from a new pool and expects all of them to be guarded in this way.
void expect_method(guard_method method) {
  stack_pool& pool = fresh_pool();
  std::vector<stack> taken;
  while (taken.size() < 20) {
    stack one;
    ASSERT_EQ(pool.take(&one, 1), 1u);
    EXPECT_EQ(one.guard, method);
    taken.push_back(one);
  }
  expect_guarded(taken.front());
  expect_guarded(taken[10]);
  expect_guarded(taken.back());
  const stack sized = pool.take_sized(100000);
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized.guard, method);
  expect_guarded(sized);
  pool.give(taken.data(), taken.size());
  pool.trim();
  expect_guarded(taken.front());  // trimming leaves guards alone
  stack again;
  ASSERT_EQ(pool.take(&again, 1), 1u);
  expect_guarded(again);
}

/// Whether this kernel (or emulator) has working guard advice at all.
bool advice_works() {
  stack_pool& pool = fresh_pool();
  stack one;
  return pool.take(&one, 1) == 1 && one.guard == guard_method::install;
}

TEST_F(GuardTest, BatchedAdviceGuards) {
  if (!advice_works()) GTEST_SKIP() << "no MADV_GUARD_INSTALL here";
  expect_method(guard_method::install);
}

TEST_F(GuardTest, SingleAdviceGuardsWhereProcessMadviseIsDenied) {
  if (!advice_works()) GTEST_SKIP() << "no MADV_GUARD_INSTALL here";
  os::test_hooks.deny_process_madvise.set(1);
  expect_method(guard_method::install);
}

TEST_F(GuardTest, MprotectGuardsWhereAdviceIsDenied) {
  os::test_hooks.deny_guard_install.set(1);
  expect_method(guard_method::protect);
}

TEST_F(GuardTest, TheProbeUnmasksAdviceThatDoesNothing) {
  os::test_hooks.pretend_qemu_guard.set(1);
  expect_method(guard_method::protect);
}

TEST_F(GuardTest, TheProbeUnmasksSingleAdviceThatDoesNothing) {
  os::test_hooks.pretend_qemu_guard.set(1);
  os::test_hooks.deny_process_madvise.set(1);
  expect_method(guard_method::protect);
}

TEST_F(GuardTest, TheProbeNeedsNoDescriptor) {
  if (!advice_works()) GTEST_SKIP() << "no MADV_GUARD_INSTALL here";
  EXPECT_EXIT(
      {
        rlimit none;
        none.rlim_cur = none.rlim_max = 0;
        setrlimit(RLIMIT_NOFILE, &none);
        stack_pool& pool = fresh_pool();
        stack one;
        _exit(pool.take(&one, 1) == 1 && one.guard == guard_method::install ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(GuardTest, AnUnguardedStackIsWritableBelowWhereAdviceDidNothing) {
  EXPECT_EXIT(
      {
        os::test_hooks.deny_mprotect.set(1);
        os::test_hooks.pretend_qemu_guard.set(1);
        stack_pool& pool = fresh_pool();
        stack one;
        if (pool.take(&one, 1) != 1 || one.guard != guard_method::none) _exit(1);
        const stack sized = pool.take_sized(100000);
        if (!sized || sized.guard != guard_method::none) _exit(2);
        _exit(canary_intact(one) && canary_intact(sized) ? 0 : 3);
      },
      testing::ExitedWithCode(0), "no more stack guards");
}

TEST_F(GuardTest, LockedMappingsFallBackToMprotect) {
  EXPECT_EXIT(
      {
        // Not mlockall(): sanitizers make that a no-op.
        if (syscall(SYS_mlockall, MCL_FUTURE | MCL_ONFAULT) != 0) _exit(0);  // not permitted here
        stack_pool& pool = fresh_pool();
        stack one;
        if (pool.take(&one, 1) != 1 || one.guard != guard_method::protect) _exit(1);
        syscall(SYS_munlockall);
        // The next mapping is an ordinary one: the method is chosen anew for each batch.
        const stack other = pool.take_sized(4096);
        _exit(other && (!advice_works() || other.guard == guard_method::install) ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(GuardTest, BeyondTheBudgetStacksAreUnguardedWithOneWarning) {
  os::test_hooks.deny_guard_install.set(1);
  os::test_hooks.map_count_budget.set(2 * 3);  // two mappings a guard
  stack_pool& pool = fresh_pool();
  std::vector<stack> taken(40);
  testing::internal::CaptureStderr();
  for (stack& each : taken) ASSERT_EQ(pool.take(&each, 1), 1u);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("weft: warning: no more stack guards"), std::string::npos) << warning;
  EXPECT_EQ(warning.find("warning", warning.find("warning") + 1), std::string::npos) << warning;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].guard, i < 3 ? guard_method::protect : guard_method::none) << i;
    EXPECT_TRUE(canary_intact(taken[i]));
  }
  expect_guarded(taken[2]);
  EXPECT_EQ(signal_of_store(taken[3].lo - 1), 0);
  const stack_stats stats = pool.stats();
  EXPECT_EQ(stats.protected_, 3u);
  EXPECT_EQ(stats.unguarded, stats.live + stats.idle - 3);
  pool.give(taken.data(), taken.size());
  pool.trim();
  for (stack& each : taken) ASSERT_EQ(pool.take(&each, 1), 1u);
  for (const stack& each : taken) EXPECT_TRUE(canary_intact(each)) << "planted anew after a trim";
}

TEST_F(GuardTest, AnExhaustedKernelEndsTheUseOfMprotect) {
  os::test_hooks.deny_guard_install.set(1);
  os::test_hooks.deny_mprotect.set(1);
  testing::internal::CaptureStderr();
  stack_pool& pool = fresh_pool();
  stack one;
  ASSERT_EQ(pool.take(&one, 1), 1u);
  EXPECT_EQ(one.guard, guard_method::none);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("warning"), std::string::npos);
}

TEST_F(GuardTest, ADeadCanaryIsReportedAsStackOverflow) {
  os::test_hooks.deny_guard_install.set(1);
  os::test_hooks.map_count_budget.set(0);
  stack_pool& pool = fresh_pool();
  stack one;
  ASSERT_EQ(pool.take(&one, 1), 1u);
  stack sized = pool.take_sized(5000);
  ASSERT_TRUE(sized);
  one.lo[0] = std::byte{1};
  EXPECT_TRUE(canary_intact(one)) << "the lowest byte is the goroutine's";
  EXPECT_EXIT(
      {
        one.lo[-1] = std::byte{1};
        pool.give(&one, 1);
      },
      testing::ExitedWithCode(2), "exceeds 245760-byte limit(.|\n)*fatal error: stack overflow");
  EXPECT_EXIT(
      {
        sized.lo[-8] = std::byte{1};
        pool.give_sized(sized);
      },
      testing::ExitedWithCode(2), "fatal error: stack overflow");
  pool.give(&one, 1);
  pool.give_sized(sized);
}

TEST_F(GuardTest, SizedStacksReturnTheirShareOfTheBudget) {
  os::test_hooks.deny_guard_install.set(1);
  os::test_hooks.map_count_budget.set(2);
  stack_pool& pool = fresh_pool();
  for (int i = 0; i < 10; ++i) {
    const stack made = pool.take_sized(10000);
    ASSERT_TRUE(made);
    EXPECT_EQ(made.guard, guard_method::protect);
    pool.give_sized(made);
  }
}

}  // namespace
}  // namespace weft::rt
