// sched/max_procs.h: following limits of real groups, the affinity mask, and from inside a cage; each in a process
// of its own. As in max_procs_test.cc sysmon is told to look at nothing, and the tests look in its place.
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>

#include "os/clock.h"
#include "os/test_hooks.h"
#include "sched/max_procs.h"
#include "support/cgroup.h"
#include "support/child.h"
#include "support/fixture.h"
#include "unit/sched/follow_procs.h"

namespace weft::rt {
namespace {

using runtime::gomaxprocs;
using runtime::set_default_gomaxprocs;
using test::run_child;

constexpr const char* kQuietSysmon = "WEFTDEBUG=updatemaxprocs=0";

// --- what sysmon may not do -------------------------------------------------------------------------

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
  weft::thread([] {}).join();  // there is an M, who runs helpers
  test::limit_cgroup(3);
  forbid({SYS_openat, SYS_close});
  sysmon_looks();
  _exit(becomes(3) ? 0 : 1);
}

TEST(MaxProcsProcess, AsksNobodyAfterANumberWasSaid) {
  if (test::emulated()) GTEST_SKIP() << "the emulator's system calls are not ours";
  const auto r = run_child("asks_nobody_after_a_number");
  if (r.status == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_EQ(run_child("asks_and_is_killed").status, 128 + SIGSYS);
}

// run()'s option comes before the runtime starts: then nobody looks for limits in vain. Not on the main thread: to learn the
// bounds of its stack, which ASan wants to know of whoever runs goroutines, libc reads a file.
void run_in_a_cage(const weft::run_options& options) {
  std::thread([&] {
    forbid({SYS_openat});
    weft::run([] {}, options);
  }).join();
}
WEFT_CHILD(is_told_a_number_before_it_starts) {
  run_in_a_cage({.max_procs = 3});
  _exit(gomaxprocs() == 3 ? 0 : 1);
}
WEFT_CHILD(is_told_nothing_before_it_starts) {
  run_in_a_cage({});
  _exit(0);
}
TEST(MaxProcsProcess, OpensNothingIfToldANumberFirst) {
  if (test::emulated()) GTEST_SKIP() << "the emulator's system calls are not ours";
  const auto r = run_child("is_told_a_number_before_it_starts", {kQuietSysmon});
  if (r.status == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_EQ(run_child("is_told_nothing_before_it_starts", {kQuietSysmon}).status, 128 + SIGSYS);
}

// Whoever says a number at first, and asks for the default later, looks for limits then. In vain for want of descriptors:
// sysmon does not try again, as the program may be in a cage by now.
rlim_t limit_descriptors(rlim_t n) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = n;
  setrlimit(RLIMIT_NOFILE, &limit);
  return before;
}
WEFT_CHILD(looks_in_vain_and_not_again) {
  weft::run([] {}, {.max_procs = 3});
  limit_descriptors(0);
  set_default_gomaxprocs();
  forbid({SYS_openat});
  for (int i = 0; i < 10; ++i) sysmon_looks();
  _exit(0);
}
TEST(MaxProcsProcess, SysmonLooksForNoLimits) {
  if (test::emulated()) GTEST_SKIP() << "the emulator's system calls are not ours";
  const auto r = run_child("looks_in_vain_and_not_again", {kQuietSysmon});
  if (r.status == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(r.status, 0) << r.output;
}

// Nobody could run a helper as long as there is no M, and none may be made for it.
WEFT_CHILD(looks_before_there_is_an_m) {
  pretend(3);
  bool ok = gomaxprocs() == 3;
  pretend(4);
  for (int i = 0; i < 10; ++i) sysmon_looks();
  ok = ok && helpers() == 0 && gomaxprocs() == 3;
  weft::run([] {});  // on this thread
  sysmon_looks();
  ok = ok && helpers() == 0 && gomaxprocs() == 3;
  weft::thread([] {}).join();
  sysmon_looks();
  return ok && becomes(4) ? 0 : 1;
}
TEST(MaxProcsProcess, LooksBeforeThereIsAnM) {
  const auto r = run_child("looks_before_there_is_an_m");
  EXPECT_EQ(r.status, 0) << r.output;
}

// --- real limits ------------------------------------------------------------------------------------

// No sysmon: even where it may look, it is the test that does.
constexpr const char* kEightProcessors = "WEFT_TEST_FORCE=pretend_cpus=8,no_sysmon=1";

class MaxProcsInGroup : public testing::Test {
 protected:
  void SetUp() override {
    if (!group_) GTEST_SKIP() << "no group can be made here: " << group_.why_not();
    group_.limit(3);
  }
  test::child_result run(const char* child, std::vector<std::string> environment = {}) {
    environment.push_back(group_.variable());
    environment.emplace_back(kEightProcessors);
    bool debug = false;
    for (const std::string& variable : environment) debug |= variable.starts_with("WEFTDEBUG=");
    if (!debug) environment.emplace_back(kQuietSysmon);
    return run_child(child, environment);
  }
  void expect(int status, const char* child, std::vector<std::string> environment = {}) {
    const auto r = run(child, std::move(environment));
    EXPECT_EQ(r.status, status) << r.output;
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
  weft::thread([] {}).join();  // there is an M
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
TEST_F(MaxProcsInGroup, Follows) { expect(0, "follows_its_group"); }

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
  expect(3, "follows_nobody", {kQuietSysmon});
  group_.limit(3);
  expect(6, "follows_nobody", {"WEFTMAXPROCS=6", "WEFTDEBUG=updatemaxprocs=1"});
  group_.limit(3);
  expect(8, "follows_nobody", {"WEFTDEBUG=containermaxprocs=0"});
}

// … and who asks again is answered.
WEFT_CHILD(asks_again_for_the_default) {
  test::join_cgroup();
  weft::run([] { weft::thread([] {}).join(); }, {.max_procs = 5});
  const rlim_t before = limit_descriptors(0);
  set_default_gomaxprocs();
  bool ok = gomaxprocs() == 8;
  limit_descriptors(before);
  set_default_gomaxprocs();
  ok = ok && gomaxprocs() == 3;
  test::limit_cgroup(2);
  sysmon_looks();
  return ok && becomes(2) ? 0 : 1;
}
TEST_F(MaxProcsInGroup, IsLookedForAgainByWhoAsksAgain) { expect(0, "asks_again_for_the_default"); }

TEST_F(MaxProcsInGroup, FollowsFromACage) {
  if (test::emulated()) GTEST_SKIP() << "the emulator's system calls are not ours";
  const auto r = run("asks_in_a_cage");
  if (r.status == kNotAllowed) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(r.status, 0) << r.output;
}

// The affinity of the thread that looks.
WEFT_CHILD(follows_its_mask) {
  weft::thread([] {}).join();  // there is an M
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
TEST(MaxProcsProcess, FollowsTheMask) {
  const auto r = run_child("follows_its_mask");
  EXPECT_EQ(r.status, 0) << r.output;
}

// --- sysmon itself ----------------------------------------------------------------------------------

// It looks about once a second while somebody runs.
WEFT_CHILD(sysmon_follows_its_mask) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return 98;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  }
  const auto confine = [](const cpu_set_t& to) {  // every thread, as taskset(1) -a does
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      sched_setaffinity(std::atoi(task.path().filename().c_str()), sizeof to, &to);
    }
  };
  return weft::run([&] {
    const int many = gomaxprocs();
    confine(one);
    const bool shrinks = becomes(1);
    confine(all);
    return shrinks && becomes(many) ? 0 : 1;
  });
}
TEST(MaxProcsProcess, SysmonFollowsTheMask) {
  const auto r =
      run_child("sysmon_follows_its_mask", {"WEFTDEBUG=updatemaxprocs=1,containermaxprocs=0"});
  EXPECT_EQ(r.status, 0) << r.output;
}

// Go: TestCgroupGOMAXPROCSUpdate, as it happens.
WEFT_CHILD(sysmon_follows_its_group) {
  test::join_cgroup();
  return weft::run([] {
    bool ok = gomaxprocs() == 3;
    for (const auto& [limit, procs] : {std::pair{2.0, 2}, {4.0, 4}}) {
      test::limit_cgroup(limit);
      ok = ok && becomes(procs);
    }
    return ok ? 0 : 1;
  });
}
TEST_F(MaxProcsInGroup, SysmonFollows) {
  const auto r =
      run_child("sysmon_follows_its_group", {group_.variable(), "WEFT_TEST_FORCE=pretend_cpus=8",
                                             "WEFTDEBUG=updatemaxprocs=1,containermaxprocs=1"});
  EXPECT_EQ(r.status, 0) << r.output;
}

}  // namespace
}  // namespace weft::rt

int main(int argc, char** argv) {
  // The machine's own limits are no part of this, except where a test says so.
  setenv("WEFTDEBUG", "updatemaxprocs=0,containermaxprocs=0", /*overwrite=*/0);
  return weft::test::main_with_children(argc, argv);
}
