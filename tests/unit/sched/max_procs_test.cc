// sched/max_procs.h: following the default while the program runs. sysmon is told to look at nothing, and the
// tests look in its place; a default that changes is pretended, or is that of a real group.
#include "sched/max_procs.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "gmp/sched.h"
#include "os/clock.h"
#include "os/test_hooks.h"
#include "support/cgroup.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/seed.h"

namespace weft::rt {
namespace {

using runtime::gomaxprocs;
using runtime::set_default_gomaxprocs;
using test::eventually;
using test::run_child;

constexpr const char* kQuietSysmon = "WEFTDEBUG=updatemaxprocs=0";

void sysmon_looks() { follow_default_procs(); }

void pretend(int processors) { os::test_hooks.pretend_cpus.set(processors); }

// No stop of the world is on its way any more: whoever stops it now comes after all others.
void settle() {
  runtime::stop_the_world([] {});
}

// A helper may be on its way, and ends soon.
[[nodiscard]] bool becomes(int procs) {
  return eventually([procs] { return gomaxprocs() == procs; });
}
[[nodiscard]] bool no_helper() {
  return eventually([] { return runtime::num_goroutine() == 0; });
}

class MaxProcs : public test::runtime_test {
 protected:
  void SetUp() override {
    runtime_test::SetUp();
    weft::run([] {});  // there is an M
    pretend(4);
    set_default_gomaxprocs();
    ASSERT_EQ(gomaxprocs(), 4);
  }
  void TearDown() override {
    EXPECT_TRUE(no_helper());
    pretend(0);
    runtime_test::TearDown();
  }
};

// "At most once per second." [CG-7]
TEST(MaxProcsPace, OnceASecond) {
  once_a_second pace;
  const std::int64_t start = 123'456'789;
  EXPECT_TRUE(pace.due(start));
  EXPECT_FALSE(pace.due(start));
  EXPECT_FALSE(pace.due(start + 999'999'999));
  EXPECT_TRUE(pace.due(start + 1'000'000'000));
  EXPECT_FALSE(pace.due(start + 1'999'999'999));
  EXPECT_TRUE(pace.due(start + 60'000'000'000));  // who has slept does not catch up
  EXPECT_FALSE(pace.due(start + 60'999'999'999));
}

TEST_F(MaxProcs, Follows) {
  for (int n : {3, 7, 1, 2, 16, 4}) {
    pretend(n);
    std::int32_t seen = 0;
    EXPECT_TRUE(default_procs_changed(&seen));
    EXPECT_EQ(seen, n);
    EXPECT_NE(gomaxprocs(), n);
    sysmon_looks();
    EXPECT_TRUE(becomes(n));
    EXPECT_TRUE(no_helper());
    EXPECT_FALSE(default_procs_changed(&seen));
  }
}

// [MP-1] "even if n equals the current value"
TEST_F(MaxProcs, ANumberStaysUntilTheDefaultIsAskedFor) {
  for (int n : {4, 6}) {
    EXPECT_EQ(gomaxprocs(n), 4);
    pretend(3);
    std::int32_t ignored = 0;
    EXPECT_FALSE(default_procs_changed(&ignored));
    sysmon_looks();
    EXPECT_EQ(runtime::num_goroutine(), 0);
    settle();
    EXPECT_EQ(gomaxprocs(), n);
    set_default_gomaxprocs();
    EXPECT_EQ(gomaxprocs(), 3);
    pretend(4);
    sysmon_looks();
    EXPECT_TRUE(becomes(4));
    EXPECT_TRUE(no_helper());
  }
}

TEST_F(MaxProcs, AskingIsNotSetting) {
  gomaxprocs();
  gomaxprocs(0);
  gomaxprocs(-3);
  pretend(3);
  sysmon_looks();
  EXPECT_TRUE(becomes(3));
}

// [CG-8]
TEST_F(MaxProcs, UpdatesCanBeSwitchedOff) {
  pretend(3);
  update_default_procs(nanotime());
  settle();
  EXPECT_EQ(gomaxprocs(), 4);
  set_default_gomaxprocs();  // is not an update
  EXPECT_EQ(gomaxprocs(), 3);
}

// "If the helper is still busy the round is skipped." [CG-7] Nobody can run it while the world is stopped.
TEST_F(MaxProcs, OneHelperAtATime) {
  runtime::stop_the_world([] {
    pretend(5);
    sysmon_looks();
    pretend(6);
    sysmon_looks();
    sysmon_looks();
    EXPECT_EQ(runtime::num_goroutine(), 1);
  });
  EXPECT_TRUE(becomes(5));  // as it was when the helper was sent
  EXPECT_TRUE(no_helper());
  sysmon_looks();
  EXPECT_TRUE(becomes(6));
}

// keeps X2
TEST_F(MaxProcs, TheHelperBringsTheLatest) {
  std::thread asks;
  runtime::stop_the_world([&asks] {
    pretend(5);
    sysmon_looks();
    pretend(6);
    asks = std::thread(set_default_gomaxprocs);  // stops the world before or after the helper
  });
  asks.join();
  EXPECT_TRUE(no_helper());
  EXPECT_EQ(gomaxprocs(), 6);
}

// The helper looks again once the world is stopped.
TEST_F(MaxProcs, ANumberBeatsAHelperThatIsOnItsWay) {
  std::thread says;
  runtime::stop_the_world([&says] {
    pretend(5);
    sysmon_looks();
    says = std::thread([] { gomaxprocs(4); });  // what it is already
  });
  says.join();
  EXPECT_EQ(gomaxprocs(), 4);
  EXPECT_TRUE(no_helper());
  EXPECT_EQ(gomaxprocs(), 4);
}

// keeps X1, where it is delicate: the number is there already, and the helper about to change it.
TEST_F(MaxProcs, ANumberIsSaidWhileAHelperWorks) {
  test::random_source random(1);
  for (test::budget b(20000); b.next();) {
    pretend(5);
    sysmon_looks();
    for (int spins = random.below(4000); spins > 0; --spins) cpu_pause();
    const int n = gomaxprocs();
    gomaxprocs(n);
    settle();
    ASSERT_EQ(gomaxprocs(), n) << "in round " << b.round();
    pretend(4);
    set_default_gomaxprocs();
  }
}

int stoppers_waiting() {
  const scoped_lock held(sched.lock);
  int n = 0;
  for (waiter* w = sched.world_first; w != nullptr; w = w->next) ++n;
  return n;
}

// Of a number and the default, the one that comes last counts, and decides what is followed.
TEST_F(MaxProcs, ANumberAfterTheDefault) {
  gomaxprocs(6);
  std::thread first;
  std::thread last;
  runtime::stop_the_world([&] {
    first = std::thread(set_default_gomaxprocs);
    while (stoppers_waiting() < 1) std::this_thread::yield();
    last = std::thread([] { gomaxprocs(5); });
    while (stoppers_waiting() < 2) std::this_thread::yield();
  });
  first.join();
  last.join();
  EXPECT_EQ(gomaxprocs(), 5);
  sysmon_looks();
  EXPECT_EQ(runtime::num_goroutine(), 0);
  settle();
  EXPECT_EQ(gomaxprocs(), 5);
}

// keeps X1, for plain threads and goroutines, while sysmon looks all the time.
TEST_F(MaxProcs, NothingChangesAfterANumberWasSaid) {
  std::atomic<bool> stop{false};
  std::thread sysmon([&stop] {
    for (int i = 0; !stop; ++i) {
      pretend(1 + i % 5);
      sysmon_looks();
      std::this_thread::yield();
    }
  });
  test::random_source random(2);
  const auto says = [&random](int rounds) {
    for (test::budget b(rounds); b.next();) {
      const int n = random.one_in(2) ? gomaxprocs() : 1 + random.below(5);
      gomaxprocs(n);
      for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(gomaxprocs(), n);
        gosched();
      }
      set_default_gomaxprocs();
      for (int i = random.below(20); i > 0; --i) gosched();
    }
  };
  says(2000);
  weft::run([&says] { says(2000); });
  stop = true;
  sysmon.join();
}

// --- what sysmon may not do -------------------------------------------------------------------------

TEST_F(MaxProcs, LookingAllocatesNothing) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  runtime::stop_the_world([] {  // so that nobody else does
    pretend(5);
    const auto before = mallinfo2();
    sysmon_looks();
    EXPECT_EQ(mallinfo2().uordblks, before.uordblks);
  });
  EXPECT_TRUE(becomes(5));
#endif
}

// From here on these system calls kill the process.
template <std::size_t N>
void forbid(const unsigned (&calls)[N]) {
  sock_filter code[2 * N + 2];
  std::size_t at = 0;
  code[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const unsigned call : calls) {
    code[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    code[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  }
  code[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(at), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(98);
  }
}
constexpr int kNotAllowed = 98;

// [CG-8] "no further probing syscalls"
WEFT_CHILD(asks_nobody_after_a_number) {
  gomaxprocs(gomaxprocs());
  forbid({SYS_openat, SYS_read, SYS_pread64, SYS_sched_getaffinity});
  for (int i = 0; i < 10; ++i) sysmon_looks();
  _exit(0);
}
WEFT_CHILD(asks_and_is_killed) {
  gomaxprocs();
  forbid({SYS_sched_getaffinity});
  sysmon_looks();
  _exit(0);
}
// os/cgroup.h keeps C1: a program that has given up the right to open files is followed, too.
WEFT_CHILD(asks_in_a_cage) {
  test::join_cgroup();
  weft::run([] {});
  test::limit_cgroup(3);
  forbid({SYS_openat, SYS_close});
  sysmon_looks();
  _exit(becomes(3) ? 0 : 1);
}

TEST(MaxProcsProcess, AsksNobodyAfterANumberWasSaid) {
  if (test::emulated()) GTEST_SKIP() << "the emulator's system calls are not ours";
  const int status = run_child("asks_nobody_after_a_number").status;
  if (status == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run_child("asks_and_is_killed").status, 128 + SIGSYS);
}

// Nobody could run a helper as long as there is no M, and none may be made for it.
WEFT_CHILD(looks_before_there_is_an_m) {
  pretend(3);
  bool ok = gomaxprocs() == 3;
  pretend(4);
  for (int i = 0; i < 10; ++i) sysmon_looks();
  ok = ok && runtime::num_goroutine() == 0 && gomaxprocs() == 3;
  weft::run([] {});
  sysmon_looks();
  return ok && becomes(4) ? 0 : 1;
}
TEST(MaxProcsProcess, LooksBeforeThereIsAnM) {
  EXPECT_EQ(run_child("looks_before_there_is_an_m").status, 0);
}

// --- real limits ------------------------------------------------------------------------------------

constexpr const char* kEightProcessors = "WEFT_TEST_FORCE=pretend_cpus=8";

class MaxProcsInGroup : public testing::Test {
 protected:
  void SetUp() override {
    if (!group_) GTEST_SKIP() << "no group can be made here: " << group_.why_not();
    group_.limit(3);
  }
  int status_of(const char* child, std::vector<std::string> environment = {}) {
    environment.push_back(group_.variable());
    environment.emplace_back(kEightProcessors);
    environment.emplace_back(kQuietSysmon);  // unless it is among them already
    return run_child(child, environment).status;
  }
  test::own_cgroup group_;
};

// Go: TestCgroupGOMAXPROCSUpdate
WEFT_CHILD(follows_its_group) {
  test::join_cgroup();
  const auto limited_to = [](double processors) {
    test::limit_cgroup(processors);
    sysmon_looks();
  };
  bool ok = weft::run([] { return gomaxprocs(); }) == 3;
  for (const auto& [limit, procs] : {std::pair{2.0, 2}, {3.0, 3}, {0.0, 8}, {3.0, 3}}) {
    limited_to(limit);
    ok = ok && becomes(procs) && no_helper();
  }
  gomaxprocs(3);  // the same, but now it stays
  limited_to(2);
  settle();
  ok = ok && gomaxprocs() == 3;
  gomaxprocs(5);
  limited_to(4);
  settle();
  ok = ok && gomaxprocs() == 5;
  set_default_gomaxprocs();
  ok = ok && gomaxprocs() == 4;
  limited_to(6);
  return ok && becomes(6) ? 0 : 1;
}
TEST_F(MaxProcsInGroup, Follows) { EXPECT_EQ(status_of("follows_its_group"), 0); }

// Go: TestCgroupGOMAXPROCSDontUpdate
WEFT_CHILD(follows_nobody) {
  test::join_cgroup();
  const int first = weft::run([] { return gomaxprocs(); });
  test::limit_cgroup(2);
  update_default_procs(nanotime());
  settle();
  return gomaxprocs() == first ? first : 1;
}
TEST_F(MaxProcsInGroup, FollowsNobodyIfTold) {
  EXPECT_EQ(status_of("follows_nobody", {kQuietSysmon}), 3);
  group_.limit(3);
  EXPECT_EQ(status_of("follows_nobody", {"WEFTMAXPROCS=6", "WEFTDEBUG=updatemaxprocs=1"}), 6);
  group_.limit(3);
  EXPECT_EQ(status_of("follows_nobody", {"WEFTDEBUG=containermaxprocs=0"}), 8);
}

TEST_F(MaxProcsInGroup, FollowsFromACage) {
  if (test::emulated()) GTEST_SKIP() << "the emulator's system calls are not ours";
  const int status = status_of("asks_in_a_cage");
  if (status == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(status, 0);
}

// The affinity of the thread that looks.
WEFT_CHILD(follows_its_mask) {
  weft::run([] {});
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return 98;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  sysmon_looks();
  bool ok = becomes(1) && no_helper() && runtime::num_cpu() == CPU_COUNT(&all);
  sched_setaffinity(0, sizeof all, &all);
  sysmon_looks();
  return ok && becomes(CPU_COUNT(&all)) ? 0 : 1;
}
TEST(MaxProcsProcess, FollowsTheMask) { EXPECT_EQ(run_child("follows_its_mask").status, 0); }

}  // namespace
}  // namespace weft::rt

int main(int argc, char** argv) {
  // The machine's own limits are no part of this, except where a test says so.
  setenv("WEFTDEBUG", "updatemaxprocs=0,containermaxprocs=0", /*overwrite=*/0);
  return weft::test::main_with_children(argc, argv);
}
