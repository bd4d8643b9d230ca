// sysmon sleeps for good in a process that is idle. When somebody computes there it is awake in time, and sees to those who wait
// beside him. Each in a process of its own, with one P.
#include <atomic>
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "os/clock.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "support/child_suite.h"

namespace {

using namespace std::chrono_literals;

constexpr int kRight = 3;

class SysmonWakes : public testing::Test {
 protected:
  static void expect(const char* child) {
#ifdef WEFT_CHAOS
    GTEST_SKIP() << "Ms take naps there, so that it never sleeps for long";
#endif
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=1"});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

std::chrono::nanoseconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

// It sleeps for longer than it may while a P is in use. For an instant it says so before each of its sleeps: hence twice.
bool sleeps_for_good() {
  using namespace weft::rt;  // NOLINT: its whole vocabulary
  const auto says_so = [] {
    return sysmon_rest.asleep() && !sysmon_rest.looks_before(nanotime() + 10 * kLongestLook);
  };
  if (!says_so()) return false;
  std::this_thread::sleep_for(20ms);  // sleep-ok: longer than any other of its sleeps
  return says_so();
}

// When everybody is parked, and it sleeps for good.
void wait_for_its_sleep(const std::atomic<int>& parked, int all) {
  if (!weft::test::eventually([&] { return parked == all && sleeps_for_good(); })) _exit(2);
}

// By Go's rules whoever computes is stopped after 20 ms. A busy machine may need more, in which he has not even a processor all
// the time; but without sysmon he would go on for ever.
std::chrono::nanoseconds soon_from_now() { return thread_time() + 1s * weft::test::slowness(); }

// Two become runnable at once, and each computes until the other one has run, too.
WEFT_CHILD(two_at_once) {
  static std::atomic<int> parked{0}, ran{0}, late{0};
  static weft::chan<int> start;
  std::thread([] {
    weft::run([] {
      weft::wait_group ended;
      for (int i = 0; i < 2; ++i) {
        ended.go([] {
          ++parked;
          start.recv();
          ++ran;
          const auto limit = soon_from_now();
          while (ran < 2 && thread_time() < limit) {
          }
          late += ran < 2 ? 1 : 0;
        });
      }
      ended.wait();
      _exit(late == 0 ? kRight : 1);
    });
  }).detach();
  wait_for_its_sleep(parked, 2);
  start.close();
  for (;;) pause();
}
TEST_F(SysmonWakes, ForTwoWhoBecomeRunnableAtOnce) { expect("two_at_once"); }

// X4. News of a descriptor starts one who computes until there are news of another one, which he makes without a word to the
// runtime: nobody has waited until then.
WEFT_CHILD(news) {
  static std::atomic<int> parked{0};
  static std::atomic<bool> came{false};
  static std::atomic<int> first{-1};
  std::thread([] {
    weft::run([] {
      auto [r, w] = weft::io::pipe();
      auto [other_r, other_w] = weft::io::pipe();
      weft::wait_group ended;
      ended.go([from = &other_r] {
        char byte;
        ++parked;
        came = from->read_some(weft::mutable_buffer(&byte, 1)) == 1;
      });
      first = w.native_handle();
      const int second = other_w.native_handle();
      char byte;
      ++parked;
      if (r.read_some(weft::mutable_buffer(&byte, 1)) != 1) _exit(2);
      const auto limit = soon_from_now();
      if (write(second, "x", 1) != 1) _exit(2);
      while (!came && thread_time() < limit) {
      }
      const bool in_time = came;
      ended.wait();
      _exit(in_time ? kRight : 1);
    });
  }).detach();
  wait_for_its_sleep(parked, 2);
  if (write(first, "x", 1) != 1) _exit(2);
  for (;;) pause();
}
TEST_F(SysmonWakes, ForNewsBesideAComputation) { expect("news"); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
