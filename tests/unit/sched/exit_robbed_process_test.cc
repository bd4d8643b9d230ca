// exit() in goroutines that have no P at that moment, since they blocked or lent it, while others stop the world: the process
// ends all the same. Each in a process of its own.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "gmp/inside.h"
#include "gmp/sched.h"
#include "support/child_suite.h"
#include "support/witness.h"

namespace {

using namespace std::chrono_literals;

constexpr int kRight = 3;
constexpr int kUnlucky = 4;  // it did not come to it

class ExitRobbed : public testing::Test {
 protected:
  // On the only P: so who blocks loses it.
  static weft::test::child_result run(const char* child) {
    return weft::test::run_child(child, {"WEFTMAXPROCS=1"});
  }
  static void expect(const char* child) {
    const auto r = run(child);
    ASSERT_EQ(r.status, kRight) << r.output;
  }
};

// Not without any call: TSan lets signals in at some only.
void compute(std::chrono::milliseconds d) {
  const auto until = weft::test::test_clock::now() + d;
  while (weft::test::test_clock::now() < until) {
  }
}

// -- one that blocked ----------------------------------------------------------------------------

std::atomic<bool> calls_exit{false};
std::atomic<int> exiting_thread{0};  // once nothing is left to do but to block
int wakes[2];

// It sleeps in read(), and its P is somebody else's. That somebody has lost one would not do: who stops the world stops the
// others who have not.
bool it_blocks_without_p() {
  const int tid = exiting_thread;
  if (tid == 0 || !weft::test::sleeps(std::to_string(tid))) return false;
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  for (const weft::rt::M* mp = weft::rt::sched.robbed_ms; mp != nullptr; mp = mp->robbed_next) {
    if (mp->tid == tid) return true;
  }
  return false;
}

// On another thread: others run on the only P, and a goroutine blocks, which calls exit() once it is woken.
template <class F>
void start_one_that_blocks(F others_do) {
  if (pipe(wakes) != 0) _exit(77);
  std::thread([=] {
    weft::run([=] {
      weft::wait_group ended;
      ended.go([] {
        exiting_thread = gettid();
        char byte;
        static_cast<void>(!read(wakes[0], &byte, 1));
        calls_exit = true;
        std::exit(kRight);
      });
      ended.go(others_do);
      ended.wait();
    });
  }).detach();
  if (!weft::test::eventually(it_blocks_without_p)) _exit(1);
}

// … and waits for a P, in there.
void wake_it() {
  static_cast<void>(!write(wakes[1], "x", 1));
  if (!weft::test::eventually_hogging(
          [] { return calls_exit && weft::test::sleeps(std::to_string(exiting_thread)); })) {
    _exit(1);
  }
}

[[noreturn]] void wait_for_exit() {
  for (;;) pause();
}

// It comes back while somebody has stopped the world, who must be able to start it again.
WEFT_CHILD(in_a_stopped_world) {
  start_one_that_blocks([] {
    for (;;) weft::gosched();
  });
  weft::runtime::stop_the_world(wake_it);
  wait_for_exit();
}
TEST_F(ExitRobbed, WhileTheWorldIsStopped) { expect("in_a_stopped_world"); }

// It waits for its turn when somebody stops the world for a moment. (Unless that somebody is slow, and it has had its turn.)
WEFT_CHILD(before_a_stop) {
  start_one_that_blocks([] {
    for (;;) compute(1ms);
  });
  wake_it();
  weft::runtime::stop_the_world([] {});
  wait_for_exit();
}
TEST_F(ExitRobbed, BeforeTheWorldStops) {
  for (int i = 0; i < weft::test::scaled(5, 2); ++i) expect("before_a_stop");
}

// -- one that lent its P -------------------------------------------------------------------------

// What the thread's M says. Not instrumented: the goroutine looks at what is none of its business.
WEFT_NO_TSAN bool has_borrowed_p() { return weft::rt::current_m()->lender != nullptr; }

// It computes on, and he to whom it lent the P stops the world, for which it is waited for. No signal makes it arrive: it has
// masked that.
WEFT_CHILD(lends_and_exits) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 77;
  return weft::run([] {
    static std::atomic<bool> lent{false}, masked{false}, stops{false};
    weft::wait_group ended;
    ended.go([] {
      while (!lent) compute(1ms);  // beside the ticks below, for which somebody stands in
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      masked = true;
      for (int i = 0; i < 1000 && !stops; ++i) compute(1ms);
      compute(5ms);  // the stop is under way
      std::exit(stops ? kRight : kUnlucky);
    });
    const auto is_lent = [] {
      weft::this_thread::sleep_for(1ms);  // sleep-ok: the ticks
      return has_borrowed_p();
    };
    // Who is made to yield as soon as it has woken (chaos) does not see it; it may come to it all the same.
    static_cast<void>(weft::test::eventually(is_lent, 1s));
    lent = true;
    while (!masked) weft::this_thread::sleep_for(1ms);  // sleep-ok: the ticks
    weft::this_thread::sleep_for(1ms);                  // sleep-ok: the P is lent for this one, too
    stops = true;
    weft::runtime::gc();
    ended.wait();
    return 1;
  });
}
TEST_F(ExitRobbed, HavingLentItsPToWhoStopsTheWorld) {
  weft::test::child_result r{kUnlucky, {}};
  for (int i = 0; i < 6 && r.status == kUnlucky; ++i) r = run("lends_and_exits");
  if (r.status == kUnlucky) GTEST_SKIP() << "nobody stopped the world while the P was lent";
  EXPECT_EQ(r.status, kRight) << r.output;
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
