// Those who have lost their P in a call, look by look (sched/robbed.cc): who comes back and computes is frozen, who sleeps on is
// left alone, and how often sysmon looks meanwhile. In these processes there is no sysmon: judged.h.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weft/go.h>

#include "gmp/inside.h"
#include "gmp/m.h"
#include "gmp/p.h"
#include "gmp/sched.h"
#include "os/process.h"
#include "support/child_suite.h"
#include "unit/sched/judged.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually_hogging;
using weft::test::judged;
using weft::test::kRight;
using weft::test::signals_that_froze;
using weft::test::subject;
using weft::test::watcher;

class RobbedProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (weft::test::emulated()) GTEST_SKIP() << "the emulator's threads are not as they say";
  }
  static void expect(const char* child) {
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=1"});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

// It sleeps, and its P is taken for the other one, who computes there from then on.
bool is_robbed(const subject& s, watcher& w) {
  return eventually_hogging([&] { return s.sleeps(); }) && !w.takes_p(0us) && w.takes_p(200us) &&
         eventually_hogging([&] { return s.other_ran.load(); });
}
void computes_to_the_end(subject& s) {
  while (!s.over) {
  }
}

bool has_p(int tid) {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  const weft::rt::M* mp = weft::rt::sched.p(0)->m.load(WEFT_ORDER(PM1, acquire));  // order: locked
  return mp != nullptr && mp->tid == tid;
}
bool p_is_idle() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.idle.idle() == 1;
}
int robbed() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.robbed_count;
}

// So much more than at first: by then a look sees that it computes.
bool has_computed(int tid, long long at_first) {
  return eventually_hogging([&] { return weft::rt::task_cpu_time(tid) - at_first > 150'000; });
}

// Its P is taken and somebody else computes; it comes back and computes, too. A look freezes it, and it goes on when the other
// one has had his slice.
WEFT_CHILD(comes_back) {
  return judged(
      [](subject& s) {
        s.reads();
        s.computes();
      },
      [](subject& s) {
        watcher w;
        if (!is_robbed(s, w)) return false;
        w.look(2ms);
        const int tid = s.tid;
        const long long asleep = weft::rt::task_cpu_time(tid);
        if (signals_that_froze() != 0 || !s.wakes() || !has_computed(tid, asleep)) return false;
        w.look(3ms);
        if (!eventually_hogging([] { return signals_that_froze() == 1; })) return false;
        const bool waits = eventually_hogging([&] { return weft::rt::task_state(tid) == 'S'; });
        const bool without = waits && robbed() == 0 && !has_p(tid);
        int slice = 0;
        return without && eventually_hogging([&] {
                 w.look(4ms + ++slice * 1ms);
                 return has_p(tid);
               });
      },
      computes_to_the_end);
}
TEST_F(RobbedProcess, WhoComesBackAndComputesIsFrozen) { expect("comes_back"); }

// … but not if the P is idle: then that is its own again.
WEFT_CHILD(comes_back_alone) {
  return judged(
      [](subject& s) {
        s.reads();
        s.computes();
      },
      [](subject& s) {
        watcher w;
        if (!is_robbed(s, w) || !eventually_hogging(p_is_idle)) return false;
        w.look(2ms);
        const bool no_hurry = w.last_pause() > 1h;
        const int tid = s.tid;
        const long long asleep = weft::rt::task_cpu_time(tid);
        if (!s.wakes() || !has_computed(tid, asleep)) return false;
        w.look(3ms);
        return no_hurry && eventually_hogging([&] { return has_p(tid); }) && robbed() == 0 &&
               signals_that_froze() == 0;
      });
}
TEST_F(RobbedProcess, WhoComesBackToAnIdlePGetsIt) {
#ifdef WEFT_CHAOS
  GTEST_SKIP() << "Ms take naps there, with the P";
#endif
  expect("comes_back_alone");
}

// Beside somebody who computes the next look is a millisecond later; if it sleeps on, less often, and not never. It is not
// disturbed: read(2) has its byte.
WEFT_CHILD(sleeps_on) {
  static std::atomic<bool> undisturbed{false};
  return judged(
             [](subject& s) {
               char byte;
               s.tid = gettid();
               for (s.turns = 0; s.turns < 2; ++s.turns) {
                 if (read(s.fd[0], &byte, 1) != 1) return;
               }
               undisturbed = true;
             },
             [](subject& s) {
               watcher w;
               if (!is_robbed(s, w)) return false;
               const auto pause_at = [&w](std::chrono::nanoseconds after) {
                 w.look(after);
                 return w.last_pause();
               };
               bool right = pause_at(1ms) == 1ms && pause_at(30ms) == 1ms &&
                            pause_at(65ms) == 2ms && pause_at(161ms) == 5ms &&
                            pause_at(1s) == 10ms && pause_at(1h) == 10ms;
               // It wakes for a moment, and sleeps again.
               right &= s.wakes() && eventually_hogging([&] { return s.turns == 1 && s.sleeps(); });
               right &= pause_at(1h + 1ms) == 1ms && pause_at(1h + 1s) == 10ms;
               return right && signals_that_froze() == 0;
             },
             computes_to_the_end) == kRight &&
                 undisturbed
             ? kRight
             : 1;
}
TEST_F(RobbedProcess, WhoSleepsOnIsLookedAtLessOften) { expect("sleeps_on"); }

// While two take turns, too, there is not more to look at.
WEFT_CHILD(sleeps_beside_two) {
  static std::atomic<bool> second_ran{false};
  return judged([](subject& s) { s.reads(); },
                [](subject& s) {
                  watcher w;
                  if (!is_robbed(s, w)) return false;
                  w.look(1ms);
                  weft::go([&s] {
                    second_ran = true;
                    computes_to_the_end(s);
                  });
                  int looks = 0;
                  const bool turns = eventually_hogging([&] {
                    w.look(1s + std::min(++looks, 5) * 200us);
                    return second_ran.load();
                  });
                  // Now it is the second one's slice. Two looks see that it computes.
                  w.look(1s + 2ms);
                  w.look(1s + 3ms);
                  return turns && w.last_pause() == 2ms;
                },
                computes_to_the_end);
}
TEST_F(RobbedProcess, WhoSleepsBesideTwoWhoTakeTurnsIsNotLookedAtMoreOften) {
  expect("sleeps_beside_two");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
