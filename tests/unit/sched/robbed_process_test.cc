// Those who have lost their P in a call, look by look (sched/robbed.cc): who gets it, who comes back and computes is frozen, who
// sleeps on is left alone, and how often sysmon looks meanwhile. In these processes there is no sysmon: judged.h.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/runtime.h>

#include "gmp/g.h"
#include "gmp/inside.h"
#include "gmp/m.h"
#include "gmp/p.h"
#include "gmp/sched.h"
#include "os/clock.h"
#include "os/process.h"
#include "sched/spawner.h"
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

int frozen() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.frozen_ms;
}

// So much more than at first: by then a look sees that it computes.
bool has_computed(int tid, long long at_first) {
  return eventually_hogging([&] { return weft::rt::task_cpu_time(tid) - at_first > 150'000; });
}

// Its P is taken and somebody else computes; it comes back and computes, too. A look freezes it, and it goes on when the other
// one has had his slice.
bool is_frozen_until_its_turn(subject& s) {
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
}
WEFT_CHILD(comes_back) {
  return judged(
      [](subject& s) {
        s.reads();
        s.computes();
      },
      is_frozen_until_its_turn, computes_to_the_end);
}
TEST_F(RobbedProcess, WhoComesBackAndComputesIsFrozen) { expect("comes_back"); }

// … also where it is not to be interrupted: it has no P that it could keep. Once it has one it keeps it.
WEFT_CHILD(comes_back_in_scope) {
  return judged(
      [](subject& s) {
        const weft::no_preempt scope;
        s.reads();
        s.computes();
      },
      [](subject& s) {
        if (!is_frozen_until_its_turn(s)) return false;
        const auto before = signals_that_froze();
        watcher w;
        for (int slice = 1; slice <= 20; ++slice) w.look(1s + slice * 1ms);
        return has_p(s.tid) && signals_that_froze() == before;
      },
      computes_to_the_end);
}
TEST_F(RobbedProcess, WhoComesBackInANoPreemptScopeIsFrozen) { expect("comes_back_in_scope"); }

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

// … nor while the world is stopped, which did not wait for it: the look that sees it compute freezes it until the world starts.
WEFT_CHILD(comes_back_while_stopped) {
  return judged(
      [](subject& s) {
        s.reads();
        s.computes();
      },
      [](subject& s) {
        watcher w;
        if (!is_robbed(s, w) || !eventually_hogging(p_is_idle)) return false;
        w.look(2ms);
        const int tid = s.tid;
        const long long asleep = weft::rt::task_cpu_time(tid);
        const bool frozen_in_time = weft::runtime::stop_the_world([&] {
          if (!s.wakes() || !has_computed(tid, asleep)) return false;
          w.look(3ms);
          return eventually_hogging(
              [&] { return signals_that_froze() == 1 && weft::rt::task_state(tid) == 'S'; });
        });
        return frozen_in_time && eventually_hogging([&] { return has_p(tid); }) && robbed() == 0 &&
               signals_that_froze() == 1;
      });
}
TEST_F(RobbedProcess, WhoComesBackInAStoppedWorldAndComputesIsFrozen) {
  expect("comes_back_while_stopped");
}

// … and its next call of the runtime does not return before.
WEFT_CHILD(calls_while_stopped) {
  static std::atomic<bool> returned{false};
  return judged(
      [](subject& s) {
        weft::chan<int> c;
        s.reads();
        static_cast<void>(c.try_recv());
        returned = true;
        s.computes();
      },
      [](subject& s) {
        watcher w;
        if (!is_robbed(s, w) || !eventually_hogging(p_is_idle)) return false;
        w.look(2ms);
        const int tid = s.tid;
        const bool waits = weft::runtime::stop_the_world([&] {
          if (!s.wakes() || !eventually_hogging([] { return frozen() == 1; })) return false;
          w.look(3ms);
          w.look(5ms);
          return eventually_hogging([&] { return weft::rt::task_state(tid) == 'S'; }) && !returned;
        });
        return waits && eventually_hogging([&] { return returned && has_p(tid); }) &&
               robbed() == 0 && signals_that_froze() == 0;
      });
}
TEST_F(RobbedProcess, WhoComesBackInAStoppedWorldWaitsInTheRuntime) {
  expect("calls_while_stopped");
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

// -- who gets the P ------------------------------------------------------------------------------

// Computes with its lock held: a mutex, or a file.
struct holder {
  static bool by_file;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  int file = memfd_create("lock", MFD_CLOEXEC);
  std::atomic<int> tid{0};
  std::atomic<const weft::rt::M*> thread{nullptr};

  // As a description of its own, which alone has the lock.
  int opened() const {
    return open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC);
  }
  void lock(int fd) { by_file ? flock(fd, LOCK_EX) : pthread_mutex_lock(&mutex); }
  void unlock(int fd) { by_file ? flock(fd, LOCK_UN) : pthread_mutex_unlock(&mutex); }
  void holds(const subject& s) {
    const int fd = opened();
    lock(fd);
    thread = weft::rt::current_m();
    tid = gettid();
    while (!s.over) {
    }
    unlock(fd);
    close(fd);
  }
  // A signal is on its way that came too late for its last slice: it would be frozen again as soon as it has a P.
  bool is_asked_locked() const WEFT_REQUIRES(weft::rt::sched.lock) {
    return thread.load()->signalled.load(WEFT_ORDER(SG0, relaxed)) != 0;  // order: a flag
  }
  std::int64_t frozen_since_locked() const WEFT_REQUIRES(weft::rt::sched.lock) {
    return thread.load()->curg->frozen_since;
  }
};

bool holder::by_file = false;
holder first, second;
std::atomic<holder*> wanted{nullptr};
std::atomic<int> waiter{0};

// Both are frozen, and nobody runs until this one blocks. False: not now.
bool waits_for_the_oldest() {
  const weft::no_preempt until_it_blocks;
  {
    const weft::rt::inside here;
    const weft::rt::scoped_lock held(weft::rt::sched.lock);
    if (first.is_asked_locked() || second.is_asked_locked()) return false;
    wanted = first.frozen_since_locked() < second.frozen_since_locked() ? &first : &second;
  }
  const int fd = wanted.load()->opened();
  waiter = gettid();
  wanted.load()->lock(fd);
  wanted.load()->unlock(fd);
  close(fd);
  return true;
}

// Whatever the time: nobody is preferred because he has been frozen for long.
void are_frozen_just_now() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  const std::int64_t now = weft::rt::nanotime();
  for (const holder* h : {&first, &second}) {
    h->thread.load()[0].curg->frozen_since = now + (h != wanted ? 1 : 0);
  }
}
bool an_m_is_idle() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  weft::rt::request_spare_ms_locked(1);
  return weft::rt::sched.idle_ms != nullptr;
}

// Two were frozen, each with a lock. The third one waits for that of the one who was frozen first; a fourth one has not had his
// slice, and would be next otherwise, on an M that has nothing else to do.
int waits_for_a_holder() {
  static std::atomic<bool> fresh_ran{false};
  return judged([](subject& s) { first.holds(s); },
                [](subject&) {
                  watcher w;
                  auto now = 0us;
                  const auto until = [&](auto it_is_so) {
                    return eventually_hogging([&] {
                      if (it_is_so()) return true;
                      w.look(now += 200us);
                      return false;
                    });
                  };
                  if (!until([] { return first.tid != 0 && second.tid != 0; })) return false;
                  weft::go([] {
                    while (!waits_for_the_oldest()) weft::gosched();
                  });
                  if (!until([] { return waiter != 0; })) return false;
                  const auto waits = [] { return weft::rt::task_state(waiter) == 'S'; };
                  if (!eventually_hogging(waits) || !has_p(waiter)) return false;
                  const auto before = weft::test::robberies();
                  weft::go([] { fresh_ran = true; });
                  if (!eventually_hogging(an_m_is_idle)) return false;
                  const auto is_robbed = [&] {
                    are_frozen_just_now();
                    w.look(now += 200us);
                    return weft::test::robberies() != before;
                  };
                  return eventually_hogging(is_robbed) &&
                         eventually_hogging([] { return has_p(wanted.load()->tid); }) && !fresh_ran;
                },
                [](subject& s) { second.holds(s); });
}
WEFT_CHILD(waits_for_a_mutex) { return waits_for_a_holder(); }
TEST_F(RobbedProcess, ThePOfOneWhoWaitsForALockGoesToTheOldestFrozen) {
  expect("waits_for_a_mutex");
}

WEFT_CHILD(waits_for_a_file) {
  holder::by_file = true;
  return waits_for_a_holder();
}
TEST_F(RobbedProcess, ThePOfOneWhoWaitsForAFileGoesToTheOldestFrozen) {
  expect("waits_for_a_file");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
