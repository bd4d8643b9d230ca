// Threads of this process, as the kernel sees them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::test {

inline long thread_now() { return syscall(SYS_gettid); }

inline std::string task_path(long tid) { return "/proc/self/task/" + std::to_string(tid); }

inline bool task_exists(long tid) { return std::filesystem::exists(task_path(tid)); }

inline int count_entries(const char* directory) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    static_cast<void>(entry);
    ++n;
  }
  return n;
}

inline int task_count() { return count_entries("/proc/self/task"); }

// The value of a line such as "State:" in a task's status; empty if the task is gone.
inline std::string task_status(long tid, const std::string& key) {
  std::ifstream in(task_path(tid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return line.substr(line.find_first_not_of(" \t", key.size()));
  }
  return {};
}

}  // namespace weft::test
