// What sysmon does, each in a process of its own: it is quiet when nobody can need it, and looks at everybody when
// somebody does.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "sched/sched_api.h"
#include "support/child_suite.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;

constexpr int kRight = 3;
constexpr int kUnlucky = 4;  // it did not come to it
constexpr int kLate = 5;

class SysmonProcess : public testing::Test {
 protected:
  static void expect(const char* child, const char* procs) {
    const auto r = weft::test::run_child(child, {std::string("WEFTMAXPROCS=") + procs});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

// -- quiet ---------------------------------------------------------------------------------------

std::chrono::microseconds spent(const rusage& u) {
  return std::chrono::seconds(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         std::chrono::microseconds(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// Sooner or later there is a while in which no thread of this process wakes.
bool falls_quiet() {
  constexpr auto kWhile = 300ms;  // sysmon's longest pause is 10 ms, while it looks at all
  return weft::test::eventually([&] {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    std::this_thread::sleep_for(kWhile);  // sleep-ok: this is what is watched
    getrusage(RUSAGE_SELF, &after);
    constexpr int kOwn = WEFT_TEST_TSAN ? 5 : 1;  // this sleep, and TSan's own thread
    return after.ru_nvcsw - before.ru_nvcsw <= kOwn && spent(after) - spent(before) < 10ms;
  });
}

// Everybody is parked, but for those who are in a call that blocks.
int quiet_beside(int blocked) {
  static int fd[2];
  if (pipe(fd) != 0) return 77;
  std::thread([=] {
    weft::run([=] {
      std::atomic<int> begun{0};
      for (int i = 0; i < blocked; ++i) {
        weft::go([&] {
          ++begun;
          char byte;
          static_cast<void>(!read(fd[0], &byte, 1));
        });
      }
      while (begun < blocked) weft::gosched();  // so that each of them loses its P
      weft::chan<int>().recv();
    });
  }).detach();
  return falls_quiet() ? kRight : 1;
}

void expect_quiet(const char* child, const char* procs) {
#ifdef WEFT_CHAOS
  GTEST_SKIP() << "Ms take naps there";
#endif
  const auto r = weft::test::run_child(child, {std::string("WEFTMAXPROCS=") + procs});
  EXPECT_EQ(r.status, kRight) << r.output;
}

WEFT_CHILD(quiet) { _exit(quiet_beside(0)); }
TEST_F(SysmonProcess, IsQuietWhenAllAreParked) { expect_quiet("quiet", "2"); }

WEFT_CHILD(quiet_beside_a_call) { _exit(quiet_beside(1)); }
TEST_F(SysmonProcess, IsQuietBesideACallThatBlocks) {
  expect_quiet("quiet_beside_a_call", "1");
  expect_quiet("quiet_beside_a_call", "4");  // where nobody needs its P
}

// All Ps are idle for a moment, again and again: sysmon is not woken for each of them. It may look by itself, every 10 ms,
// which takes two naps: what the machine makes of the sleepers' 300 us is not its affair. In a round that took too long
// nobody would see among those whether it is woken each time. Three in a row, as a busy machine may once keep it from waking.
// Where all rounds take too long it is weft's sleeps that are not what they should be.
WEFT_CHILD(short_sleeps) {
  return weft::run([] {
    constexpr int kSleeps = 100, kInARow = 3, kEnough = 10;
    int measured = 0, right = 0;
    const bool alone = weft::test::eventually([&] {
      rusage before{}, after{};
      getrusage(RUSAGE_SELF, &before);
      const auto began = weft::test::test_clock::now();
      for (int i = 0; i < kSleeps; ++i) {
        weft::this_thread::sleep_for(300us);  // sleep-ok: what is tested
      }
      const auto took = weft::test::test_clock::now() - began;
      getrusage(RUSAGE_SELF, &after);
      if (took >= kSleeps * 800us) return false;
      ++measured;
      const long others = after.ru_nvcsw - before.ru_nvcsw - kSleeps;
      right = others <= kSleeps / 4 + 4 * (took / 10ms) ? right + 1 : 0;
      return right == kInARow;
    });
    return alone ? kRight : measured >= kEnough ? 1 : measured > 0 ? kUnlucky : kLate;
  });
}
TEST_F(SysmonProcess, SleepsOnBesideShortSleeps) {
#ifdef WEFT_CHAOS
  GTEST_SKIP() << "Ms take naps there";
#endif
  const auto r = weft::test::run_child("short_sleeps", {"WEFTMAXPROCS=1"});
  if (r.status == kUnlucky || (r.status == kLate && weft::test::slowness() > 1)) {
    GTEST_SKIP() << "too few of a hundred sleeps of 300 us take less than 800 us each here";
  }
  EXPECT_EQ(r.status, kRight) << r.output;
}

// Beside goroutines that give their Ps up all the time, as those of a server do, it looks every 2 ms, and nobody wakes it.
WEFT_CHILD(lively) {
  std::atomic<bool> over{false};
  std::thread([&] {
    weft::run([&] {
      const auto yields = [&] {
        while (!over) weft::gosched();
      };
      weft::go(yields);
      yields();
    });
  }).detach();
  const bool seldom = weft::test::eventually([] {
    constexpr auto kWhile = 300ms;
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    std::this_thread::sleep_for(kWhile);  // sleep-ok: this is what is watched
    getrusage(RUSAGE_SELF, &after);
    return after.ru_nvcsw - before.ru_nvcsw < kWhile / 1ms * 2 / 3;  // 0.9 ms each would be more
  });
  _exit(seldom ? kRight : 1);
}
TEST_F(SysmonProcess, LooksSeldomBesideThoseWhoSwitch) {
#ifdef WEFT_CHAOS
  GTEST_SKIP() << "Ms take naps there";
#endif
  // It must see them switch for some 15 ms on end. A machine that has other work may not let them for many seconds, which is
  // longer than a child may take.
  constexpr int kChildren = 6;
  int status = 0;
  for (int i = 0; i < kChildren && status != kRight; ++i) {
    status = weft::test::run_child("lively", {"WEFTMAXPROCS=1"}).status;
  }
  EXPECT_EQ(status, kRight);
}

// -- borrowed Ps ---------------------------------------------------------------------------------

// One that computes, on the only processor.
struct computation {
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> rounds{0};
  weft::wait_group ended;

  // With the status of the process.
  template <class F>
  static int run_beside(F does) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return 77;
    return weft::run([&] {
      computation c;
      c.ended.go([&] {
        while (!c.over) ++c.rounds;
      });
      const bool right = does(c);
      c.over = true;
      c.ended.wait();
      return right ? kRight : 1;
    });
  }
};

// Whoever is woken for a timer has taken the processor from the goroutine that computes, and may have its P for a moment, too:
// that one goes on afterwards, and was not stopped by a signal (sched/borrow.cc).
WEFT_CHILD(ticks) {
  return computation::run_beside([](computation& c) {
    return weft::test::eventually([&] {
      constexpr int kTicks = 50;
      const std::uint64_t frozen = weft::test::preemptions();
      const std::uint64_t before = c.rounds;
      for (int i = 0; i < kTicks; ++i) weft::this_thread::sleep_for(1ms);  // sleep-ok: the ticks
      return weft::test::preemptions() - frozen < kTicks / 2 && c.rounds > before;
    });
  });
}
TEST_F(SysmonProcess, IsNotNeededForTicksBesideAComputation) { expect("ticks", "1"); }

// … but if those who were woken go on and on, the one who computes has his turn all the same.
WEFT_CHILD(long_errand) {
  return computation::run_beside([](computation& c) {
    for (int i = 0; i < 20; ++i) {
      weft::this_thread::sleep_for(1ms);  // sleep-ok: for each somebody borrows the P
    }
    c.ended.go([&] {
      while (!c.over) weft::gosched();
    });
    using weft::test::test_clock;
    const auto yields_until = [](auto it_is_so, test_clock::time_point limit) {
      while (!it_is_so() && test_clock::now() < limit) weft::gosched();
      return it_is_so();
    };
    // Where nobody is frozen, each round takes its second. All of them together less than a child may take.
    constexpr int kRounds = 20, kAtLeast = 3;
    const auto last_begins = test_clock::now() + 10s, limit = last_begins + 15s;
    bool all_have_turns = true;
    for (int i = 0; i < kRounds && all_have_turns; ++i) {
      if (i >= kAtLeast && test_clock::now() >= last_begins) break;
      const std::uint64_t frozen = weft::test::preemptions();
      yields_until([&] { return weft::test::preemptions() > frozen; }, test_clock::now() + 1s);
      const std::uint64_t before = c.rounds;
      all_have_turns = yields_until([&] { return c.rounds > before; }, limit);
    }
    return all_have_turns;
  });
}
TEST_F(SysmonProcess, LongErrandsOnABorrowedPEnd) { expect("long_errand", "1"); }

// What the thread's M says. Not instrumented: the goroutine looks at what is none of its business.
WEFT_NO_TSAN bool has_borrowed_p() { return weft::rt::current_m()->lender != nullptr; }
WEFT_NO_TSAN bool stands_in() {
  const weft::rt::M* mp = weft::rt::current_m();
  return mp->stands_in && mp->short_slices;
}

// … and if one of them computes, so that it is frozen, its thread is none that stands in when it goes on.
WEFT_CHILD(frozen_on_an_errand) {
  return computation::run_beside([](computation&) {
    const auto borrows = [] {
      weft::this_thread::sleep_for(1ms);  // sleep-ok: the tick
      return has_borrowed_p() && stands_in();
    };
    const auto is_frozen = [] { return !has_borrowed_p(); };
    // Less than a child may take, and all children together less than the test.
    if (!weft::test::eventually(borrows, 3s) || !weft::test::eventually_hogging(is_frozen, 3s)) {
      _exit(kUnlucky);
    }
    const weft::no_preempt scope;  // which begins with a P
    return !stands_in();
  });
}
TEST_F(SysmonProcess, WhoIsFrozenOnAnErrandStandsInNoLonger) {
  // A busy machine may let the one who computes have no processor for long, and then nobody waits for the P.
  weft::test::child_result r{kUnlucky, {}};
  for (int i = 0; i < 6 && r.status == kUnlucky; ++i) {
    r = weft::test::run_child("frozen_on_an_errand", {"WEFTMAXPROCS=1"});
  }
  if (r.status == kUnlucky) GTEST_SKIP() << "nobody was frozen on an errand: the machine is busy";
  EXPECT_EQ(r.status, kRight) << r.output;
}

// -- watchful ------------------------------------------------------------------------------------

// However many Ps there are: everybody who blocks loses its own while others wait.
WEFT_CHILD(many_ps) {
  constexpr int kEach = 24;
  static int fd[2];
  if (pipe(fd) != 0) return 77;
  return weft::run([] {
    std::atomic<int> begun{0};
    std::atomic<bool> over{false};
    weft::wait_group ended;
    for (int i = 0; i < kEach; ++i) {
      ended.go([&] {
        ++begun;
        char byte;
        static_cast<void>(!read(fd[0], &byte, 1));
      });
    }
    for (int i = 0; i < kEach; ++i) {
      ended.go([&] {
        while (!over) sched_yield();
      });
    }
    const bool all =
        weft::test::eventually([&] { return begun == kEach && weft::test::handoffs() >= kEach; });
    over = true;
    for (int i = 0; i < kEach; ++i) static_cast<void>(!write(fd[1], "x", 1));
    ended.wait();
    return all ? kRight : 1;
  });
}
TEST_F(SysmonProcess, LooksAtEveryP) { expect("many_ps", "24"); }

// A program that blocks all signals, and lends its main thread. Afterwards that is as it was.
WEFT_CHILD(lent_and_masked) {
  sigset_t all, after;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  bool made_room = false;
  weft::run(
      [&] {
        std::atomic<bool> ran{false};
        weft::wait_group ended;
        ended.go([&] { ran = true; });
        made_room = weft::test::eventually_hogging([&] { return ran.load(); });
        ended.wait();
      },
      {.lock_main_thread = true});
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  return made_room && sigismember(&after, SIGURG) == 1 && sigismember(&after, SIGUSR1) == 1 ? kRight
                                                                                            : 1;
}
TEST_F(SysmonProcess, InterruptsALentThreadThatBlocksSignals) { expect("lent_and_masked", "1"); }

// Threads are made in reserve while goroutines block, but not at the expense of those that the limit allows.
WEFT_CHILD(up_to_the_limit) {
  constexpr int kBlocked = 4;
  weft::runtime::set_max_threads(kBlocked + 2);  // and one who runs, and one for preemption
  static int fd[2];
  if (pipe(fd) != 0) return 77;
  return weft::run([] {
    std::atomic<int> begun{0};
    weft::wait_group ended;
    for (int i = 0; i < kBlocked; ++i) {
      ended.go([&] {
        ++begun;
        char byte;
        static_cast<void>(!read(fd[0], &byte, 1));
      });
    }
    const weft::test::crowd others(20);
    const bool all = weft::test::eventually([&] { return begun == kBlocked; });
    for (int i = 0; i < kBlocked; ++i) static_cast<void>(!write(fd[1], "x", 1));
    ended.wait();
    return all ? kRight : 1;
  });
}
TEST_F(SysmonProcess, MakesNoThreadsBeyondTheLimit) { expect("up_to_the_limit", "1"); }

// Where /proc cannot be read sysmon does not know who blocks. It interrupts them, and they do not notice.
WEFT_CHILD(no_descriptors) {
  int fd[2];
  if (pipe(fd) != 0) return 77;
  const rlimit none{0, 0};
  setrlimit(RLIMIT_NOFILE, &none);
  return weft::run([&] {
    std::atomic<bool> over{false};
    ssize_t got = -1;
    int slept = -1;
    weft::wait_group ended;
    ended.go([&] {
      slept = usleep(50'000);  // sleep-ok: the call that blocks
      char byte;
      got = read(fd[0], &byte, 1);
      over = true;
    });
    weft::gosched();  // comes back although the other one is at it
    const bool early = !over;
    static_cast<void>(!write(fd[1], "x", 1));
    ended.wait();
    const bool may_notice = weft::test::emulated();  // restart.cc
    return early && (slept == 0 || may_notice) && (got == 1 || may_notice) ? kRight : 1;
  });
}
TEST_F(SysmonProcess, CopesWithoutDescriptors) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan keeps signals until read(2) has returned";
  if (WEFT_TEST_ASAN) GTEST_SKIP() << "UBSan needs a pipe to see whether an object is one";
  expect("no_descriptors", "1");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
