// debug/held_mutex.cc: whoever searches for held mutexes may have to wait for one that is frozen.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <link.h>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "support/child_suite.h"
#include "support/patience.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually_hogging;

constexpr int kRight = 3;

std::atomic<bool> others_park{false};

// Others run before this comes back: it computes, and is frozen.
int with_loader(dl_phdr_info*, std::size_t, void*) {
  return eventually_hogging([] { return others_park.load(); }) ? 1 : 2;
}

// park() while the only other goroutine is frozen with the loader's lock, and has to get the only P to go on. A plain
// thread judges, whatever becomes of them.
[[noreturn]] void beside_loader(void (*park)(weft::chan<int> holder_is_done)) {
  static std::atomic<bool> over{false};
  std::thread([park] {
    weft::run(
        [park] {
          weft::chan<int> done(1);
          weft::go([=]() mutable {
            others_park = true;
            park(done);
            over = true;
          });
          if (dl_iterate_phdr(with_loader, nullptr) == 1) done.send(1);
          weft::chan<int>().recv_for(10s);
        },
        {.max_procs = 1});
  }).detach();
  _exit(eventually_hogging([] { return over.load(); }) ? kRight : 1);
}

class HeldMutex : public testing::Test {
 protected:
  static weft::test::child_result run(const char* child) {
    return weft::test::run_child(child, {"WEFTDEBUG=lockcheck=1"});
  }
};

// It parks with the lock of the channel, which the frozen one needs next.
WEFT_CHILD(waits_for_holder) {
  beside_loader([](weft::chan<int> done) { done.recv(); });
}
TEST_F(HeldMutex, SearchWaitsForWhoeverHasTheLoader) {
  const auto r = run("waits_for_holder");
  EXPECT_EQ(r.status, kRight) << r.output;
}

// … of a timer's channel, which the scheduler needs when the time has come.
WEFT_CHILD(waits_for_timer) {
  beside_loader([](weft::chan<int>) { weft::after(1ms).recv(); });
}
TEST_F(HeldMutex, TimerFiresBesideTheSearch) {
  const auto r = run("waits_for_timer");
  EXPECT_EQ(r.status, kRight) << r.output;
}

// A static one is found all the same; nothing on the stack points at it.
std::mutex never_named;
WEFT_CHILD(parks_at_channel) {
  return weft::run(
      [] {
        weft::chan<int> c;
        weft::go([c]() mutable {
          while (weft::test::waiting_goroutines() < 1) weft::gosched();  // it parks first
          c.send(1);
        });
        never_named.lock();
        c.recv();
        never_named.unlock();
        return kRight;
      },
      {.max_procs = 1});
}
TEST_F(HeldMutex, IsFoundAtAChannel) {
  if (weft::test::emulated()) GTEST_SKIP() << "its rt_sigprocmask() does not tell what is readable";
  const auto r = run("parks_at_channel");
  EXPECT_EQ(r.status, kRight) << r.output;
  EXPECT_NE(r.output.find("parks while it holds the std::mutex"), std::string::npos) << r.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
