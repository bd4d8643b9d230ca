// sysmon and sched/scavenger.cc together, by the real clock: nobody here calls scavenger_tick(). Only the files that say
// how short memory is are the test's own.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/pool.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>

#include "sched/scavenger.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "support/child.h"
#include "support/denied_calls.h"
#include "support/files.h"
#include "support/patience.h"

namespace {

using weft::test::test_clock;

constexpr int kRight = 3;
constexpr int kNoFilter = 98;

// /proc/pressure/memory, of a machine on which somebody waits for memory all the time; written in place.
class pressure_file {
 public:
  explicit pressure_file(const std::string& tree) {
    std::filesystem::create_directories(tree + "/proc/pressure");
    fd_ = open((tree + "/proc/pressure/memory").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    rises();
  }
  ~pressure_file() { close(fd_); }

  void rises() const {
    using std::chrono::microseconds;
    const auto lost = std::chrono::duration_cast<microseconds>(test_clock::now() - began_);
    char text[100];
    const int n =
        std::snprintf(text, sizeof text, "some avg10=0.00 avg60=0.00 avg300=0.00 total=%016lld\n",
                      static_cast<long long>(lost.count()));
    if (pwrite(fd_, text, static_cast<std::size_t>(n), 0) != n) std::abort();
  }

 private:
  int fd_ = -1;
  const test_clock::time_point began_ = test_clock::now();
};

struct pooled {
  static inline std::atomic<int> destroyed{0};
  static inline std::atomic<bool> by_a_goroutine{true};
  ~pooled() {
    ++destroyed;
    if (weft::rt::is_sysmon() || weft::runtime::goid() == 0) by_a_goroutine = false;
  }
};

// Memory is short: the pool is emptied, by a goroutine that sysmon has sent.
WEFT_CHILD(short_of_memory) {
  const weft::test::folder tree;
  const pressure_file file(tree.path());
  weft::rt::watch_pressure_in(tree.path().c_str());
  static weft::pool<std::unique_ptr<pooled>> values([] { return nullptr; });
  return weft::run([&] {
    values.put(std::make_unique<pooled>());
    const bool emptied = weft::test::eventually([&] {
      file.rises();
      return pooled::destroyed == 1;
    });
    // By that, and not as two generations later, in four minutes.
    const bool rightly = emptied && weft::test::eventually([] {
                           return weft::rt::scavengings_done(weft::rt::scavenging::pressure) >= 1;
                         });
    return rightly && pooled::by_a_goroutine ? kRight : 1;
  });
}
TEST(ScavengerProcess, SysmonHasPoolsEmptied) {
  for (const char* procs : {"WEFTMAXPROCS=1", "WEFTMAXPROCS=4"}) {
    const auto r = weft::test::run_child("short_of_memory", {procs});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
}

// … likewise if no thread may open files any more when sysmon first looks.
WEFT_CHILD(short_of_memory_in_a_cage) {
  const char* tree = std::getenv("WEFT_TEST_TREE");
  const pressure_file file(tree);
  weft::rt::watch_pressure_in(tree);
  return weft::run([&] {
    weft::thread([] {}).join();
    weft::rt::start_system_threads();  // at the latest
    if (!weft::test::deny(SYS_openat, EPERM, weft::test::denied_to::all)) _exit(kNoFilter);
    const bool noticed = weft::test::eventually([&] {
      file.rises();
      return weft::rt::scavengings_done(weft::rt::scavenging::pressure) >= 1;
    });
    _exit(noticed ? kRight : 1);
  });
}
TEST(ScavengerProcess, SysmonOpensNoFiles) {
  if (weft::test::emulated()) GTEST_SKIP() << "an emulator's system calls are its own";
  const weft::test::folder tree;  // removed by who may open it
  const auto r = weft::test::run_child("short_of_memory_in_a_cage",
                                       {"WEFTMAXPROCS=2", "WEFT_TEST_TREE=" + tree.path()});
  if (r.status == kNoFilter) GTEST_SKIP() << "no filters here";
  EXPECT_EQ(r.status, kRight) << r.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
