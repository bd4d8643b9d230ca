// os/cgroup.h: limits from trees of files as the kernel shows them.
#include "os/cgroup.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <unistd.h>

namespace weft::rt::cgroup {
namespace {

namespace fs = std::filesystem;

// A machine: /proc/self/{cgroup,mountinfo} and what is mounted.
class CpuQuota : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "weft-cgroup-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override {
    quota_.close();
    fs::remove_all(root_);
  }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::trunc) << text;
  }
  void v2(const std::string& group, const std::string& max) {
    write("/sys/fs/cgroup" + group + "/cpu.max", max + "\n");
  }
  void v1(const std::string& group, const std::string& quota,
          const std::string& period = "100000") {
    write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us", quota + "\n");
    write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_period_us", period + "\n");
  }
  void in_v2(const std::string& group) {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "28 0 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
          "31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void in_v1(const std::string& group) {
    write("/proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:" + group + "\n0::/elsewhere\n");
    write("/proc/self/mountinfo",
          "32 31 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
          "36 31 0:30 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n");
  }
  bool open() { return quota_.open(scratch_, root_.c_str()); }
  std::int64_t opened() { return open() ? quota_.processors() : -1; }

  std::string root_;
  cpu_quota quota_;
  scratch scratch_;
};

int open_files() {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

TEST_F(CpuQuota, NotInACgroup) {
  EXPECT_FALSE(open());  // no files at all
  write("/proc/self/cgroup", "2:cpuacct:/a\n");
  EXPECT_FALSE(open());
  in_v2("/a");
  EXPECT_FALSE(open());  // the group has no such file
  fs::remove(root_ + "/proc/self/mountinfo");
  EXPECT_FALSE(open());
  EXPECT_EQ(quota_.processors(), kNoLimit);
}

TEST_F(CpuQuota, V2) {
  in_v2("/a");
  v2("/a", "250000 100000");
  EXPECT_EQ(opened(), 3);
  EXPECT_EQ(quota_.kind(), version::v2);
  EXPECT_EQ(quota_.levels(), 1);
  v2("/a", "max 100000");
  EXPECT_EQ(quota_.processors(), kNoLimit);
  v2("/a", "100000 50000");
  EXPECT_EQ(quota_.processors(), 2);
}

TEST_F(CpuQuota, V1) {
  in_v1("/a");
  v1("/a", "250000");
  v2("/elsewhere", "1 100000");  // not ours
  EXPECT_EQ(opened(), 3);
  EXPECT_EQ(quota_.kind(), version::v1);
  v1("/a", "-1");
  EXPECT_EQ(quota_.processors(), kNoLimit);
  v1("/a", "250000", "50000");
  EXPECT_EQ(quota_.processors(), 5);
}

// Unlike Go: the kernel obeys the tightest.
TEST_F(CpuQuota, TheTightestAncestorCounts) {
  in_v2("/pod/container");
  v2("/pod/container", "max 100000");
  v2("/pod", "300000 100000");
  EXPECT_EQ(opened(), 3);
  EXPECT_EQ(quota_.levels(), 2);  // the root of v2 has no such file
  v2("/pod/container", "200000 100000");
  EXPECT_EQ(quota_.processors(), 2);
  v2("/pod", "100000 100000");
  EXPECT_EQ(quota_.processors(), 1);
  v2("/pod", "max 100000");
  EXPECT_EQ(quota_.processors(), 2);
}

TEST_F(CpuQuota, TheTightestAncestorCountsInV1) {
  in_v1("/pod/container");
  v1("/pod/container", "-1");
  v1("/pod", "300000");
  v1("", "-1");
  EXPECT_EQ(opened(), 3);
  EXPECT_EQ(quota_.levels(), 3);
}

// The controller may be missing anywhere on the way.
TEST_F(CpuQuota, LevelsWithoutFilesAreSkipped) {
  in_v2("/a/b/c/d");
  v2("/a", "500000 100000");
  v2("/a/b/c", "700000 100000");
  fs::create_directories(root_ + "/sys/fs/cgroup/a/b/c/d");
  EXPECT_EQ(opened(), 5);
  EXPECT_EQ(quota_.levels(), 2);
  in_v1("/a");
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");  // half of a pair is none
  v1("", "400000");
  EXPECT_EQ(opened(), 4);
  EXPECT_EQ(quota_.levels(), 1);
}

// What is above the mount's root belongs to somebody else.
TEST_F(CpuQuota, StopsAtTheRootOfTheMount) {
  write("/proc/self/cgroup", "0::/docker/12/job\n");
  write("/proc/self/mountinfo", "1 2 0:3 /docker/12 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  v2("/job", "600000 100000");
  v2("", "500000 100000");
  write("/sys/fs/cpu.max", "100000 100000\n");
  EXPECT_EQ(opened(), 5);
  EXPECT_EQ(quota_.levels(), 2);
}

TEST_F(CpuQuota, OutsideOfTheNamespace) {
  in_v2("/../sibling");
  v2("", "100000 100000");
  write("/sys/fs/sibling/cpu.max", "100000 100000\n");
  EXPECT_FALSE(open());
}

TEST_F(CpuQuota, OddNames) {
  write("/proc/self/cgroup", "0::/my group\n");
  write("/proc/self/mountinfo", "1 2 0:3 / /odd\\040\\134place rw - cgroup2 cgroup rw\n");
  write("/odd \\place/my group/cpu.max", "300000 100000\n");
  EXPECT_EQ(opened(), 3);
}

// A bound on descriptors: what is farther up counts as it was.
TEST_F(CpuQuota, DeepTrees) {
  std::string group;
  for (int i = 1; i <= 12; ++i) {
    group += "/" + std::to_string(i);
    v2(group, "1000000 100000");
  }
  in_v2(group);
  v2("/1/2", "400000 100000");
  const int before = open_files();
  EXPECT_EQ(opened(), 4);
  EXPECT_EQ(quota_.levels(), cpu_quota::kLevels);
  EXPECT_EQ(open_files(), before + cpu_quota::kLevels);
  v2("/1/2", "300000 100000");
  EXPECT_EQ(quota_.processors(), 4);
  v2("/1/2/3/4/5", "200000 100000");  // the eighth from below
  EXPECT_EQ(quota_.processors(), 2);
  quota_.close();
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(quota_.processors(), kNoLimit);
}

// keeps C2
TEST_F(CpuQuota, WhatMakesNoSenseChangesNothing) {
  in_v2("/a");
  v2("/a", "300000 100000");
  ASSERT_EQ(opened(), 3);
  const std::string file = "/sys/fs/cgroup/a/cpu.max";
  for (const std::string& text : {std::string(), std::string("x y\n"), std::string("200000 100000"),
                                  "200000 " + std::string(50, '0') + "100000\n"}) {
    write(file, text);
    EXPECT_EQ(quota_.processors(), 3) << text;
  }
  v2("/a", "400000 100000");
  EXPECT_EQ(quota_.processors(), 4);
}

// keeps C2
TEST_F(CpuQuota, ClosedUnderItsFeet) {
  in_v2("/a");
  v2("/a", "300000 100000");
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // the next one is the file's
  ASSERT_GE(fd, 0);
  ::close(fd);
  ASSERT_EQ(opened(), 3);
  ASSERT_EQ(::close(fd), 0);
  EXPECT_EQ(quota_.processors(), 3);
  const int other = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(other, fd);
  EXPECT_EQ(quota_.processors(), 3);
}

// [CG-5] A full buffer of 64 bytes is malformed, 63 are not.
TEST_F(CpuQuota, SixtyFourBytes) {
  in_v2("/a");
  const auto padded = [](std::size_t size) {
    const std::string head = "300000 ";
    const std::string tail = "100000\n";
    return head + std::string(size - head.size() - tail.size(), '0') + tail;
  };
  const std::string file = "/sys/fs/cgroup/a/cpu.max";
  write(file, padded(64));
  EXPECT_EQ(opened(), kNoLimit);
  write(file, padded(63));
  EXPECT_EQ(quota_.processors(), 3);
  write(file, padded(65));
  EXPECT_EQ(quota_.processors(), 3);
}

TEST_F(CpuQuota, FilesDoNotReachOtherPrograms) {
  in_v1("/a");
  v1("/a", "300000");
  ASSERT_EQ(opened(), 3);
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string to = fs::read_symlink(entry.path(), gone).string();
    if (gone || to.find("/cpu.cfs_") == std::string::npos) continue;
    ++found;
    EXPECT_TRUE(fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) << to;
  }
  EXPECT_EQ(found, 2);
}

TEST_F(CpuQuota, KeepsErrnoAndAllocatesNothing) {
  in_v2("/a/b");
  v2("/a", "300000 100000");
  errno = 4711;
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const auto before = mallinfo2();
#endif
  EXPECT_TRUE(open());
  quota_.processors();
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  EXPECT_EQ(mallinfo2().uordblks, before.uordblks);
#endif
  EXPECT_EQ(errno, 4711);
}

// Whatever this machine has: it must not be misread.
TEST_F(CpuQuota, ThisMachine) {
  if (!quota_.open(scratch_)) GTEST_SKIP() << "no limit of processors is to be seen here";
  EXPECT_GE(quota_.processors(), 0);
}

}  // namespace
}  // namespace weft::rt::cgroup
