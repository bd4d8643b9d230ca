// os/memory_pressure.h: from trees of files as the kernel shows them, and from the machine's own.
#include "os/memory_pressure.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace weft::rt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSecond = 1'000'000'000;

class MemoryPressure : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "weft-pressure-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override {
    pressure_.close();
    fs::remove_all(root_);
  }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::trunc) << text;
  }
  void stall(const std::string& path, long total) {
    write(path, "some avg10=0.00 avg60=0.12 avg300=0.00 total=" + std::to_string(total) +
                    "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=999999999\n");
  }
  void events(long high, long max, long oom) {
    write("/sys/fs/cgroup/a/memory.events", "low 0\nhigh " + std::to_string(high) + "\nmax " +
                                                std::to_string(max) + "\noom " +
                                                std::to_string(oom) + "\noom_kill 0\n");
  }
  void in_v2() {
    write("/proc/self/cgroup", "0::/a\n");
    write("/proc/self/mountinfo", "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  }
  void in_v1() {
    write("/proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/c\n0::/elsewhere\n");
    write("/proc/self/mountinfo",
          "32 31 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
          "36 31 0:30 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu,cpuacct\n"
          "37 31 0:31 / /sys/fs/cgroup/memory rw shared:11 - cgroup cgroup rw,memory\n");
  }
  bool open() { return pressure_.open(scratch_, root_.c_str()); }
  bool look() { return pressure_.rose(now_ += kSecond); }

  std::string root_;
  std::int64_t now_ = 1000 * kSecond;
  memory_pressure pressure_;
  cgroup::scratch scratch_;
};

TEST_F(MemoryPressure, NothingToGoBy) {
  errno = 7;
  EXPECT_FALSE(open());
  EXPECT_FALSE(look());
  EXPECT_EQ(errno, 7);
  EXPECT_FALSE(pressure_.knows_stalls());
}

TEST_F(MemoryPressure, OfTheMachine) {
  stall("/proc/pressure/memory", 5'000'000);
  ASSERT_TRUE(open());
  EXPECT_TRUE(pressure_.knows_stalls());
  EXPECT_FALSE(pressure_.knows_events());
  EXPECT_FALSE(look()) << "what was lost before does not count";
  EXPECT_FALSE(look());
  stall("/proc/pressure/memory", 5'099'000);
  EXPECT_FALSE(look()) << "less than a tenth";
  stall("/proc/pressure/memory", 5'199'500);
  EXPECT_TRUE(look()) << "a tenth of the second";
  EXPECT_FALSE(look()) << "not any more";
  now_ += 9 * kSecond;
  stall("/proc/pressure/memory", 5'300'000);
  EXPECT_FALSE(look()) << "a hundredth of ten seconds";
}

TEST_F(MemoryPressure, OfTheOwnGroup) {
  in_v2();
  stall("/proc/pressure/memory", 0);
  stall("/sys/fs/cgroup/a/memory.pressure", 10);
  events(1, 2, 3);
  ASSERT_TRUE(open());
  EXPECT_FALSE(look());
  stall("/proc/pressure/memory", 900'000);
  EXPECT_FALSE(look()) << "others' affair";
  stall("/sys/fs/cgroup/a/memory.pressure", 500'000);
  EXPECT_TRUE(look());
  for (int i = 0; i < 3; ++i) {
    events(i == 0 ? 2 : 1, i == 1 ? 4 : 2, i == 2 ? 9 : 3);
    EXPECT_TRUE(look()) << i;
    EXPECT_FALSE(look());
  }
}

TEST_F(MemoryPressure, GroupWithoutTheController) {
  in_v2();
  stall("/proc/pressure/memory", 0);
  ASSERT_TRUE(open());
  EXPECT_FALSE(look());
  stall("/proc/pressure/memory", 900'000);
  EXPECT_TRUE(look()) << "the machine's";
}

TEST_F(MemoryPressure, V1) {
  in_v1();
  write("/sys/fs/cgroup/memory/m/memory.failcnt", "3\n");
  ASSERT_TRUE(open());
  EXPECT_TRUE(pressure_.knows_events());
  EXPECT_FALSE(pressure_.knows_stalls());
  EXPECT_FALSE(look());
  write("/sys/fs/cgroup/memory/m/memory.failcnt", "4\n");
  EXPECT_TRUE(look());
  EXPECT_FALSE(look());
  write("/sys/fs/cgroup/memory/m/memory.failcnt", "0\n");  // reset by somebody
  EXPECT_FALSE(look());
  write("/sys/fs/cgroup/memory/m/memory.failcnt", "1\n");
  EXPECT_TRUE(look());
}

TEST_F(MemoryPressure, WhatMakesNoSenseSaysNothing) {
  in_v2();
  write("/sys/fs/cgroup/a/memory.pressure", "some avg10=0\n");
  write("/sys/fs/cgroup/a/memory.events", "high many\n");
  ASSERT_TRUE(open());
  for (const char* text :
       {"", "some\n", "some total=\n", "full total=99999999\n", "some total=12"}) {
    write("/sys/fs/cgroup/a/memory.pressure", text);
    EXPECT_FALSE(look()) << text;
  }
  write("/proc/self/cgroup", "garbage");
  EXPECT_FALSE(open());
}

TEST_F(MemoryPressure, Texts) {
  EXPECT_EQ(parse_stall("some avg10=0.00 total=42\nfull total=1\n"), 42);
  EXPECT_EQ(parse_stall("some avg10=0.00 total=42"), std::nullopt) << "cut off";
  EXPECT_EQ(parse_stall("some avg10=0.00 total=99999999999999999999\n"), std::nullopt);
  EXPECT_EQ(parse_memory_events("low 9\nhigh 1\nmax 2\noom 4\noom_kill 8\n"), 7);
  EXPECT_EQ(parse_memory_events("low 9\n"), std::nullopt);
  EXPECT_EQ(parse_memory_events(""), std::nullopt);
}

// This machine, whatever it has: no descriptor is lost, nothing is short by itself.
TEST_F(MemoryPressure, OfThisMachine) {
  memory_pressure p;
  const bool found = p.open(scratch_);
  EXPECT_EQ(found, p.knows_stalls() || p.knows_events());
  EXPECT_EQ(p.knows_stalls() || fs::exists("/proc/pressure/memory") == false, true);
  EXPECT_FALSE(p.rose(kSecond));
  p.close();
  EXPECT_FALSE(p.rose(2 * kSecond));
}

}  // namespace
}  // namespace weft::rt
