// The default of gomaxprocs: affinity, limits of cgroups, WEFTMAXPROCS, WEFTDEBUG. [CG-1] to [CG-8], [MP-1] to [MP-3]
//
// Limits are set on real groups, which takes a machine that lets us make some (unit/sched/max_procs_trees_process_test.cc
// has files in their place). Eight processors are
// pretended, for with two there is nothing that a limit could change. The default is looked at when
// the runtime starts, so each case is a process of its own.
#include <cstdio>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <unistd.h>
#include <vector>

#include <weft/run.h>
#include <weft/runtime.h>

#include "support/cgroup.h"
#include "support/child.h"

namespace {

using weft::test::child_result;
using weft::test::join_cgroup;
using weft::test::own_cgroup;
using weft::test::run_child;

constexpr const char* kEightProcessors = "WEFT_TEST_FORCE=pretend_cpus=8";

int print_procs() {
  return weft::run([] { std::printf("%d\n", weft::runtime::gomaxprocs()); });
}

WEFT_CHILD(prints_procs) { return print_procs(); }

WEFT_CHILD(prints_procs_in_group) {
  join_cgroup();
  return print_procs();
}

WEFT_CHILD(prints_procs_on_one_processor) {
  join_cgroup();
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
  return print_procs();
}

// [MP-2] 5 by hand, then what the group says by now.
WEFT_CHILD(sets_the_default) {
  join_cgroup();
  weft::run(
      [] {
        weft::test::limit_cgroup(4);
        std::printf("%d ", weft::runtime::gomaxprocs());
        weft::runtime::set_default_gomaxprocs();
        std::printf("%d ", weft::runtime::gomaxprocs());
        weft::test::limit_cgroup(0);
        weft::runtime::set_default_gomaxprocs();
        std::printf("%d ", weft::runtime::gomaxprocs());
        weft::runtime::set_default_gomaxprocs();
        std::printf("%d\n", weft::runtime::gomaxprocs());
      },
      {.max_procs = 5});
  return 0;
}

WEFT_CHILD(sets_the_default_at_once) {
  std::printf("%d ", weft::runtime::gomaxprocs());
  weft::runtime::set_default_gomaxprocs();
  std::printf("%d\n", weft::runtime::gomaxprocs());
  return 0;
}

// Into a namespace whose root is our group.
bool enter_namespace() {
  return unshare(CLONE_NEWNS | CLONE_NEWCGROUP) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

constexpr int kNotAllowed = 98;

// All that is mounted was so before, and shows our group by no name.
WEFT_CHILD(prints_procs_in_blind_namespace) {
  join_cgroup();
  return enter_namespace() ? print_procs() : kNotAllowed;
}

WEFT_CHILD(prints_procs_in_namespace) {
  join_cgroup();
  if (!enter_namespace()) return kNotAllowed;
  // Seen by this process alone, so that any directory will do.
  const int mounted = weft::test::cgroup_is_v1() ? mount("cgroup", "/tmp", "cgroup", 0, "cpu")
                                                 : mount("cgroup", "/tmp", "cgroup2", 0, nullptr);
  return mounted == 0 ? print_procs() : kNotAllowed;
}

std::string said(const std::string& child, std::vector<std::string> environment = {}) {
  environment.emplace_back(kEightProcessors);
  const child_result r = run_child(child, environment);
  return r.status == 0 ? r.output : "status " + std::to_string(r.status) + ": " + r.output;
}

class Containers : public testing::Test {
 protected:
  void SetUp() override {
    if (!group_) GTEST_SKIP() << "no group can be made here: " << group_.why_not();
  }
  std::string said_in_group(double processors, std::vector<std::string> environment = {}) {
    group_.limit(processors);
    environment.push_back(group_.variable());
    return said("prints_procs_in_group", environment);
  }

  own_cgroup group_;
};

// Go: TestCgroupGOMAXPROCS
TEST_F(Containers, TheLimitIsTheDefault) {
  EXPECT_EQ(said_in_group(3), "3\n");
  EXPECT_EQ(said_in_group(3, {"WEFTDEBUG=containermaxprocs=1"}), "3\n");
  EXPECT_EQ(said_in_group(3, {"WEFTDEBUG=containermaxprocs=0"}), "8\n");
}

// Go: TestCgroupGOMAXPROCSNoLimit. [CG-5]
TEST_F(Containers, NoLimit) { EXPECT_EQ(said_in_group(0), "8\n"); }

// Go: TestCgroupGOMAXPROCSHigherThanNumCPU. [CG-2]
TEST_F(Containers, MoreThanThereAre) { EXPECT_EQ(said_in_group(9), "8\n"); }

// Go: TestCgroupGOMAXPROCSRound. [CG-2]
TEST_F(Containers, Rounds) {
  for (double limit : {2.00001, 2.5, 2.99999}) EXPECT_EQ(said_in_group(limit), "3\n") << limit;
  for (double limit : {0.5, 1.0, 1.5, 2.0}) EXPECT_EQ(said_in_group(limit), "2\n") << limit;
}

// Go: TestCgroupGOMAXPROCSEnvironment. [MP-3]
TEST_F(Containers, TheEnvironmentWins) {
  EXPECT_EQ(said_in_group(3, {"WEFTMAXPROCS=6"}), "6\n");
  EXPECT_EQ(said_in_group(3, {"WEFTMAXPROCS=12"}), "12\n");
  EXPECT_EQ(said_in_group(3, {"WEFTMAXPROCS=0"}), "3\n");
  EXPECT_EQ(said_in_group(3, {"WEFTMAXPROCS=x"}), "3\n");
}

// Go: TestCgroupGOMAXPROCSSchedAffinity. [CG-1] Of the real mask: nothing is pretended.
TEST_F(Containers, AffinityWins) {
  group_.limit(3);
  EXPECT_EQ(run_child("prints_procs_on_one_processor", {group_.variable()}).output, "1\n");
}

// Go: TestCgroupGOMAXPROCSSetDefault. [MP-2]
TEST_F(Containers, TheDefaultCanBeAskedFor) {
  group_.limit(3);
  EXPECT_EQ(said("sets_the_default", {group_.variable()}), "5 4 8 8\n");
}

// Unlike Go, which looks at the group itself only.
TEST_F(Containers, TheTightestOfAllLevelsCounts) {
  const own_cgroup inner(&group_);
  ASSERT_TRUE(inner) << inner.why_not();
  const auto said_inside = [&inner] { return said("prints_procs_in_group", {inner.variable()}); };
  group_.limit(3);
  EXPECT_EQ(said_inside(), "3\n");
  group_.limit(5);
  inner.limit(4);
  EXPECT_EQ(said_inside(), "4\n");
}

// [CG-4]
TEST_F(Containers, Namespaces) {
  group_.limit(3);
  const std::string blind = said("prints_procs_in_blind_namespace", {group_.variable()});
  if (blind.starts_with("status " + std::to_string(kNotAllowed))) {
    GTEST_SKIP() << "namespaces may not be made here";
  }
  EXPECT_EQ(blind, "8\n");
  EXPECT_EQ(said("prints_procs_in_namespace", {group_.variable()}), "3\n");
}

// [MP-2] "ignoring the environment"
TEST(DefaultProcs, TheEnvironmentIsNoDefault) {
  EXPECT_EQ(said("sets_the_default_at_once", {"WEFTMAXPROCS=5", "WEFTDEBUG=containermaxprocs=0"}),
            "5 8\n");
}

TEST(DefaultProcs, UnknownDebugKeysAreNamed) {
  EXPECT_EQ(said("prints_procs", {"WEFTDEBUG=containermaxproc=0", "WEFTMAXPROCS=4"}),
            "runtime: unknown WEFTDEBUG key containermaxproc\n4\n");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
