// Goroutines that count as long as they run, and statics whose destructors look whether they do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <dirent.h>
#include <fstream>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/go.h>

#include "support/patience.h"

namespace weft::test {

inline std::atomic<long> ticks{0};

inline void count_for_ever() {
  for (;;) {
    ticks.fetch_add(1, std::memory_order_relaxed);
    gosched();
  }
}

// The same without a scheduling point.
inline void compute_for_ever() {
  for (;;) {
    ticks.fetch_add(1, std::memory_order_relaxed);
  }
}

inline void start_counting() {
  for (int i = 0; i < 8; ++i) go(count_for_ever);
  while (ticks < 1000) {
    give_way();
  }
}

// What the kernel says about a thread: asleep, or gone. On a busy machine a goroutine may run freely and
// count nothing for a long time, but its thread is never asleep meanwhile.
inline bool sleeps(const std::string& tid) {
  std::ifstream in("/proc/self/task/" + tid + "/stat");
  std::string line;
  std::getline(in, line);
  const std::size_t name_end = line.rfind(')');  // none: it has ended
  return name_end == line.npos || line.find_first_of("SDZX", name_end) == name_end + 2;
}

inline std::string this_thread() { return std::to_string(syscall(SYS_gettid)); }

inline bool others_sleep() {
  DIR* tasks = opendir("/proc/self/task");
  bool all = tasks != nullptr;
  const std::string self = this_thread();
  while (const dirent* task = all ? readdir(tasks) : nullptr) {
    all = task->d_name[0] == '.' || task->d_name == self || sleeps(task->d_name);
  }
  if (tasks != nullptr) closedir(tasks);
  return all;
}

// Frozen: nobody has counted from one moment at which all threads slept to another, a few times over.
// Does not sleep itself: that would look as if exit() were stuck.
inline const char* what_goroutines_do() {
  constexpr int kLooks = 5;
  const long before = ticks;
  const auto until = test_clock::now() + std::chrono::seconds(10);
  for (int quiet = 0; quiet < kLooks; sched_yield()) {
    if (ticks != before) return "running";
    if (test_clock::now() > until) return "restless";
    quiet = others_sleep() ? quiet + 1 : 0;
  }
  return "frozen";
}

// Says at its destruction what it sees.
struct witness {
  const char* name;
  explicit witness(const char* n) : name(n) {}
  ~witness() { std::printf("%s: %s\n", name, what_goroutines_do()); }
};

}  // namespace weft::test

#define WITNESS(name) static const weft::test::witness name(#name)
