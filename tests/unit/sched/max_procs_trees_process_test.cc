// The default of gomaxprocs from the files that say what a container may use, from end to end and wherever this runs:
// conformance/containers_test.cc takes real groups, which few machines allow. Each tree is what /proc and /sys show within one
// kind of container; each case a process of its own, with eight processors pretended. [CG-2] to [CG-8]
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include <weft/run.h>
#include <weft/runtime.h>

#include "sched/max_procs.h"
#include "support/child.h"
#include "support/files.h"
#include "support/patience.h"

namespace {

namespace fs = std::filesystem;
using weft::test::run_child;

constexpr const char* kEightProcessors = "WEFT_TEST_FORCE=pretend_cpus=8";

WEFT_CHILD(prints_procs) {
  weft::rt::look_for_limits_in(std::getenv("WEFT_TEST_TREE"));
  return weft::run([] { std::printf("%d\n", weft::runtime::gomaxprocs()); });
}

void write(const std::string& file, const std::string& text) {
  fs::create_directories(fs::path(file).parent_path());
  std::ofstream(file, std::ios::trunc) << text;
}

class MaxProcsTrees : public testing::Test {
 protected:
  void groups(const std::string& text) const { write(tree_ / "proc/self/cgroup", text); }
  // Below what every mount namespace has.
  void mounts(const std::string& text) const {
    write(tree_ / "proc/self/mountinfo",
          "641 590 0:61 / / rw,relatime master:210 - overlay overlay rw,lowerdir=/l,upperdir=/u\n"
          "642 641 0:64 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
          "644 641 0:66 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n" +
              text);
  }
  void v2(const std::string& directory, const std::string& max) const {
    write(tree_ / ("sys/fs/cgroup" + directory + "/cpu.max").c_str(), max + " 100000\n");
  }
  void v1(const std::string& directory, const std::string& quota) const {
    const std::string path = tree_ / ("sys/fs/cgroup/" + directory).c_str();
    write(path + "/cpu.cfs_quota_us", quota + "\n");
    write(path + "/cpu.cfs_period_us", "100000\n");
  }
  std::string said(std::vector<std::string> environment = {},
                   const char* processors = kEightProcessors) const {
    environment.emplace_back(processors);
    environment.push_back("WEFT_TEST_TREE=" + tree_.path());
    const auto r = run_child("prints_procs", environment);
    return r.status == 0 ? r.output : "status " + std::to_string(r.status) + ": " + r.output;
  }

  weft::test::folder tree_;
};

const std::string kId(64, 'c');
const std::string kV2 = " /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n";

// A namespace of its own: the container is the root of all that it sees, and its limit stands there.
TEST_F(MaxProcsTrees, DockerV2) {
  groups("0::/\n");
  mounts("648 644 0:29 /" + kV2);
  v2("", "350000");
  EXPECT_EQ(said(), "4\n");
  v2("", "50000");
  EXPECT_EQ(said(), "2\n");
  v2("", "max");
  EXPECT_EQ(said(), "8\n");
}

// The host's namespace: the path is the host's, and what is mounted begins at the container's group.
TEST_F(MaxProcsTrees, DockerV2InTheNamespaceOfTheHost) {
  const std::string group = "/system.slice/docker-" + kId + ".scope";
  groups("0::" + group + "\n");
  mounts("648 644 0:29 " + group + kV2);
  v2("", "500000");
  EXPECT_EQ(said(), "5\n");
}

// One hierarchy for each set of controllers, and none of them has all.
TEST_F(MaxProcsTrees, DockerV1) {
  const std::string group = "/docker/" + kId;
  groups("12:memory:" + group + "\n11:cpuset:" + group + "\n7:cpu,cpuacct:" + group +
         "\n1:name=systemd:" + group + "\n0::/system.slice/containerd.service\n");
  const std::string how = " ro,nosuid,nodev,noexec,relatime master:15 - cgroup cgroup rw,";
  mounts("650 649 0:35 " + group + " /sys/fs/cgroup/cpuset" + how + "cpuset\n" + "651 649 0:36 " +
         group + " /sys/fs/cgroup/cpu,cpuacct" + how + "cpu,cpuacct\n" + "652 649 0:37 " + group +
         " /sys/fs/cgroup/memory" + how + "memory\n");
  v1("cpu,cpuacct", "300000");
  v1("memory", "600000");  // nobody's
  EXPECT_EQ(said(), "3\n");
  v1("cpu,cpuacct", "-1");
  EXPECT_EQ(said(), "8\n");
}

// A pod's limit stands on the pod's slice, a container's on its own: the tighter one counts.
TEST_F(MaxProcsTrees, KubernetesSlices) {
  const std::string quality = "/kubepods.slice/kubepods-burstable.slice";
  const std::string pod = quality + "/kubepods-burstable-pod0a1b2c3d_4e5f.slice";
  const std::string container = pod + "/cri-containerd-" + kId + ".scope";
  groups("0::" + container + "\n");
  mounts("648 644 0:29 /" + kV2);
  v2("/kubepods.slice", "max");
  v2(quality, "max");
  v2(pod, "600000");
  v2(container, "400000");
  EXPECT_EQ(said(), "4\n");
  v2(container, "max");
  EXPECT_EQ(said(), "6\n");
  v2(pod, "max");
  EXPECT_EQ(said(), "8\n");
}

TEST_F(MaxProcsTrees, KubernetesV1) {
  const std::string group = "/kubepods/burstable/pod0a1b2c3d-4e5f/" + kId;
  groups("5:cpu,cpuacct:" + group + "\n3:memory:" + group + "\n");
  mounts("651 649 0:36 " + group +
         " /sys/fs/cgroup/cpu,cpuacct ro,relatime master:15 - cgroup cgroup rw,cpu,cpuacct\n");
  v1("cpu,cpuacct", "250000");
  EXPECT_EQ(said(), "3\n");
}

// On the host itself. The root group has no limit, and no file for one.
TEST_F(MaxProcsTrees, SystemdServices) {
  groups("0::/system.slice/web.service\n");
  mounts(
      "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
      "rw\n");
  v2("/system.slice", "max");
  v2("/system.slice/web.service", "200001");
  EXPECT_EQ(said(), "3\n");
}

// A user's slice is limited, and the groups within have no controller for it.
TEST_F(MaxProcsTrees, SystemdUsers) {
  groups("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u5.scope\n");
  mounts(
      "30 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
      "rw\n");
  v2("/user.slice", "max");
  v2("/user.slice/user-1000.slice", "700000");
  EXPECT_EQ(said(), "7\n");
}

// Both kinds at once, as of old: v1 has the controllers, v2 only names.
TEST_F(MaxProcsTrees, SystemdHybrid) {
  groups(
      "4:cpu,cpuacct:/system.slice/web.service\n1:name=systemd:/system.slice/web.service\n"
      "0::/system.slice/web.service\n");
  mounts(
      "32 31 0:27 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw\n"
      "36 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n");
  v2("/unified/system.slice/web.service", "200000");  // nobody's
  v1("cpu,cpuacct/system.slice/web.service", "600000");
  EXPECT_EQ(said(), "6\n");
}

// Of somebody else's namespace, or in no group at all.
TEST_F(MaxProcsTrees, WhatIsNotSeenDoesNotLimit) {
  EXPECT_EQ(said(), "8\n");
  groups("0::/../elsewhere\n");
  mounts("648 644 0:29 /" + kV2);
  v2("", "300000");
  v2("/../elsewhere", "300000");
  EXPECT_EQ(said(), "8\n");
}

// [MP-3], [CG-8]
TEST_F(MaxProcsTrees, WhatElseSaysANumber) {
  groups("0::/\n");
  mounts("648 644 0:29 /" + kV2);
  v2("", "300000");
  EXPECT_EQ(said({"WEFTMAXPROCS=6"}), "6\n");
  EXPECT_EQ(said({"WEFTMAXPROCS=x"}), "3\n");
  EXPECT_EQ(said({"WEFTDEBUG=containermaxprocs=0"}), "8\n");
}

// Go: TestCgroupGOMAXPROCSHigherThanNumCPU, SchedAffinity. [CG-1], [CG-2] A limit gives nobody processors.
TEST_F(MaxProcsTrees, TheMaskIsALimitToo) {
  groups("0::/\n");
  mounts("648 644 0:29 /" + kV2);
  v2("", "900000");
  EXPECT_EQ(said(), "8\n");
  v2("", "300000");
  EXPECT_EQ(said({}, "WEFT_TEST_FORCE=pretend_cpus=2"), "2\n");
  v2("", "50000");
  EXPECT_EQ(said({}, "WEFT_TEST_FORCE=pretend_cpus=1"), "1\n");
}

// [CG-7] sysmon itself sees what becomes of the limit.
WEFT_CHILD(follows) {
  const std::string tree = std::getenv("WEFT_TEST_TREE");
  weft::rt::look_for_limits_in(tree.c_str());
  return weft::run([&] {
    const auto becomes = [&](int n) {
      return weft::test::eventually([n] { return weft::runtime::gomaxprocs() == n; });
    };
    const bool begun = weft::runtime::gomaxprocs() == 3;
    write(tree + "/sys/fs/cgroup/cpu.max", "500000 100000\n");
    return begun && becomes(5) ? 0 : 1;
  });
}
TEST_F(MaxProcsTrees, SysmonFollows) {
  groups("0::/\n");
  mounts("648 644 0:29 /" + kV2);
  v2("", "300000");
  const auto r = run_child("follows", {kEightProcessors, "WEFT_TEST_TREE=" + tree_.path()});
  EXPECT_EQ(r.status, 0) << r.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
