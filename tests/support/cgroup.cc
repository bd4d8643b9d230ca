// See cgroup.h. Knows nothing of the library's own reader, which it is there to check.
#include "support/cgroup.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace weft::test {

namespace {

constexpr const char* kVariable = "WEFT_TEST_CGROUP";
constexpr long kPeriod = 100'000;  // us

// One write, as the kernel wants it. Empty, or what went wrong.
std::string write_file(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return path + ": " + std::strerror(errno);
  const ssize_t n = write(fd, text.data(), text.size());
  const int error = errno;
  close(fd);
  return n == static_cast<ssize_t>(text.size()) ? "" : path + ": " + std::strerror(error);
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool has_word(std::string text, const std::string& word) {
  for (char& c : text) c = c == ',' ? ' ' : c;
  std::istringstream words(text);
  for (std::string w; words >> w;) {
    if (w == word) return true;
  }
  return false;
}

// The path of this process in the hierarchy of the processor controller; v1's if it has it.
std::string group_path(bool& v1) {
  std::ifstream in("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    v1 = has_word(line.substr(first + 1, second - first - 1), "cpu");
    if (v1) return line.substr(second + 1);
    if (line.starts_with("0::")) unified = line.substr(3);
  }
  return unified;
}

std::string mount_point(bool v1) {
  std::ifstream in("/proc/self/mounts");
  std::string device, point, type, options;
  for (std::string line; std::getline(in, line);) {
    std::istringstream(line) >> device >> point >> type >> options;
    if (v1 ? type == "cgroup" && has_word(options, "cpu") : type == "cgroup2") return point;
  }
  return "";
}

bool is_limited(const std::string& directory) {
  std::string quota;
  if (!(std::ifstream(directory + "/cpu.max") >> quota)) {
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;
  }
  return !quota.empty() && quota != "max" && quota != "-1";
}

// Where a group with a limit may be made. v2 has limits only where the parent hands the controller on.
std::string base_directory(std::string& why_not) {
  bool v1 = false;
  const std::string group = group_path(v1);
  const std::string mount = mount_point(v1);
  if (group.empty() || mount.empty()) {
    why_not = "no cgroups, or none mounted";
    return "";
  }
  std::string directory = mount + (group == "/" ? "" : group);
  while (!v1) {
    std::string controllers;
    std::getline(std::ifstream(directory + "/cgroup.subtree_control"), controllers);
    if (has_word(controllers, "cpu")) break;
    if (directory == mount) {
      why_not = "cgroup v2 without the processor controller";
      return "";
    }
    directory.erase(directory.rfind('/'));
  }
  for (std::string above = directory;; above.erase(above.rfind('/'))) {
    if (is_limited(above)) {
      why_not = above + " has a limit already, which would count, too";
      return "";
    }
    if (above == mount) return directory;
  }
}

void set_limit(const std::string& directory, double processors) {
  const bool none = processors == 0;
  const std::string quota = std::to_string(std::lround(processors * kPeriod));
  if (exists(directory + "/cpu.max")) {
    EXPECT_EQ(
        write_file(directory + "/cpu.max", (none ? "max" : quota) + " " + std::to_string(kPeriod)),
        "");
  } else {
    EXPECT_EQ(write_file(directory + "/cpu.cfs_quota_us", none ? "-1" : quota), "");
  }
}

}  // namespace

own_cgroup::own_cgroup(const own_cgroup* outer) {
  static int made = 0;
  const std::string base = outer != nullptr ? outer->directory_ : base_directory(why_not_);
  if (base.empty()) return;
  directory_ = base + "/weft-test-" + std::to_string(getpid()) + "-" + std::to_string(made++);
  if (mkdir(directory_.c_str(), 0755) != 0) {
    why_not_ = directory_ + ": " + std::strerror(errno);
    directory_.clear();
  } else if (!exists(directory_ + "/cpu.max") && !exists(directory_ + "/cpu.cfs_quota_us")) {
    why_not_ = directory_ + ": no limit can be set there";
    rmdir(directory_.c_str());
    directory_.clear();
  }
}

own_cgroup::~own_cgroup() {
  if (directory_.empty()) return;
  EXPECT_EQ(rmdir(directory_.c_str()), 0) << directory_ << ": " << std::strerror(errno);
}

void own_cgroup::limit(double processors) const { set_limit(directory_, processors); }

std::string own_cgroup::variable() const {
  std::string text(kVariable);
  text.append("=").append(directory_);
  return text;
}

void join_cgroup() {
  const char* directory = std::getenv(kVariable);
  const std::string error =
      directory == nullptr ? kVariable : write_file(std::string(directory) + "/cgroup.procs", "0");
  if (!error.empty()) {
    std::cerr << error << std::endl;
    _exit(99);
  }
}

bool cgroup_is_v1() { return !exists(std::string(std::getenv(kVariable)) + "/cpu.max"); }

void limit_cgroup(double processors) { set_limit(std::getenv(kVariable), processors); }

}  // namespace weft::test
