// sysmon's judgement, look by look (sched/retake.cc): whose P is taken, and after how long. In these processes there is no
// sysmon; a plain thread looks in its place, at times that it says, so that nothing depends on how fast the machine is.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/runtime.h>

#include "gmp/inside.h"
#include "gmp/p.h"
#include "gmp/sched.h"
#include "sched/sysmon.h"
#include "support/child_suite.h"
#include "support/denied_calls.h"
#include "support/processors.h"
#include "unit/sched/judged.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually_hogging;
using weft::test::judged;
using weft::test::kRight;
using weft::test::signals_that_froze;
using weft::test::subject;
using weft::test::watcher;

class RetakeProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (weft::test::emulated()) GTEST_SKIP() << "the emulator's threads are not as they say";
  }
  static void expect(const char* child) {
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=1"});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

// It sleeps in a call of which nobody was told: two looks are needed, and 200 us between them.
WEFT_CHILD(unannounced) {
  return judged([](subject& s) { s.reads(); },
                [](subject& s) {
                  if (!eventually_hogging([&] { return s.sleeps(); })) return false;
                  watcher w;
                  const bool early = w.takes_p(0us) || w.takes_p(100us) || w.takes_p(199us);
                  return !early && !s.other_ran && w.takes_p(200us) &&
                         eventually_hogging([&] { return s.other_ran.load(); });
                });
}
TEST_F(RetakeProcess, WhoBlocksIsLookedAtTwice) { expect("unannounced"); }

// … however late the first look is: it may have begun to sleep just then.
WEFT_CHILD(looked_at_late) {
  return judged([](subject& s) { s.reads(); },
                [](subject& s) {
                  if (!eventually_hogging([&] { return s.sleeps(); })) return false;
                  watcher w;
                  return !w.takes_p(500us) && w.takes_p(700us);
                });
}
TEST_F(RetakeProcess, OneLookIsNoEvidence) { expect("looked_at_late"); }

// Where nobody can say whether it sleeps a look tells less: its clock must stand still for 5 ms. Until then it is asked nothing,
// since a signal might end its call.
int judged_unseen(const std::function<bool()>& hide) {
  return judged([](subject& s) { s.reads(); },
                [&](subject& s) {
                  if (!eventually_hogging([&] { return s.sleeps(); }) || !hide()) return false;
                  watcher w;
                  const bool early = w.takes_p(0us) || w.takes_p(2ms) || w.takes_p(4999us);
                  const bool asked = weft::rt::sched.p(0)->watch.asked;
                  return !early && !asked && !s.other_ran && w.takes_p(5300us) &&
                         eventually_hogging([&] { return s.other_ran.load(); }) &&
                         signals_that_froze() == 0;
                });
}
WEFT_CHILD(no_files) {
  return judged_unseen([] { return weft::test::deny(SYS_openat, EPERM); });  // to this thread
}
WEFT_CHILD(no_descriptors) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int status = judged_unseen([&] {
    const rlimit none{0, before.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &none) == 0;
  });
  setrlimit(RLIMIT_NOFILE, &before);  // what looks for leaks opens files
  return status;
}
TEST_F(RetakeProcess, WhoIsNotSeenToBlockIsGivenMoreTime) {
  expect("no_files");
  expect("no_descriptors");
}

// It has said that it may block: 20 us are enough, and whether it sleeps is not asked. This one computes.
WEFT_CHILD(announced) {
  return judged([](subject& s) { weft::runtime::blocking([&] { s.computes(); }); },
                [](subject& s) {
                  if (!eventually_hogging([&] { return s.tid != 0; })) return false;
                  watcher w;
                  const bool early = w.takes_p(0us) || w.takes_p(19us);
                  return !early && w.last_pause() == 20us && !s.other_ran && w.takes_p(20us) &&
                         eventually_hogging([&] { return s.other_ran.load(); });
                });
}
TEST_F(RetakeProcess, WhoAnnouncesACallHasTwentyMicroseconds) { expect("announced"); }

// … for each of its calls.
WEFT_CHILD(announced_twice) {
  return judged(
      [](subject& s) {
        weft::runtime::blocking([&] {
          s.tid = gettid();
          while (s.turns == 0 && !s.over) {
          }
        });
        weft::runtime::blocking([&] {
          s.turns = 2;
          s.computes();
        });
      },
      [](subject& s) {
        if (!eventually_hogging([&] { return s.tid != 0; })) return false;
        watcher w;
        if (w.takes_p(0us)) return false;
        s.turns = 1;
        if (!eventually_hogging([&] { return s.turns == 2; })) return false;
        return !w.takes_p(100us) && !w.takes_p(119us) && w.takes_p(120us);
      });
}
TEST_F(RetakeProcess, EveryAnnouncedCallHasThem) { expect("announced_twice"); }

// Its processor time stands still, since the watcher has the only processor; but it would go on if it could.
WEFT_CHILD(descheduled) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return 77;
  return judged(
      [](subject& s) {
        const weft::no_preempt in_one_go;  // or it would be stopped when its slice is over
        s.computes();
      },
      [](subject& s) {
        if (!eventually_hogging([&] { return s.tid != 0; })) return false;
        watcher w;
        bool robbed = false;
        for (int look = 0; look < 100; ++look) robbed |= w.takes_p(look * 200us);
        return !robbed && !s.other_ran;
      });
}
TEST_F(RetakeProcess, WhoWaitsForAProcessorKeepsItsP) { expect("descheduled"); }

// -- D2: who computes ----------------------------------------------------------------------------

// In place of sysmon, beside one that computes: at times of a clock that begins with the first look at it.
class slice_watcher {
 public:
  // A look judges who is on a processor meanwhile.
  explicit slice_watcher(const subject& s) {
    static_cast<void>(weft::test::stay_on(0, s.tid) && weft::test::stay_on(1));
    look(0us);
  }
  void look(std::chrono::nanoseconds into_its_slice) {
    static_cast<void>(weft::rt::retake(1 + into_its_slice.count()));
  }
  // Whoever has no processor is not judged at one look: so at as many as it takes. Many at a time, since on a busy machine both
  // have processors for moments only, and to give way costs this one its own.
  template <class Predicate>
  bool sees(std::chrono::nanoseconds into_its_slice, Predicate p) {
    return eventually_hogging([&] {
      bool seen = false;
      for (int i = 0; i < 20 && !seen; ++i) {
        look(into_its_slice);
        seen = p();
      }
      return seen;
    });
  }
  void often(std::chrono::nanoseconds into_its_slice) {
    for (int i = 0; i < 100; ++i) look(into_its_slice);
  }
  bool asked() const { return weft::rt::sched.p(0)->watch.asked; }
  bool signalled() const { return weft::rt::sched.p(0)->watch.signalled; }
};

// It never calls anything of the runtime's: 0.2 ms after it was asked, by a flag, it is sent a signal.
WEFT_CHILD(computes) {
  return judged([](subject& s) { s.computes(); },
                [](subject& s) {
                  if (!eventually_hogging([&] { return s.tid != 0; })) return false;
                  slice_watcher w(s);
                  w.often(799us);
                  if (w.asked()) return false;
                  if (!w.sees(800us, [&] { return w.asked(); })) return false;
                  w.often(999us);
                  if (w.signalled() || s.other_ran) return false;
                  return w.sees(1ms, [&] { return w.signalled(); }) &&
                         w.sees(1ms, [&] { return s.other_ran.load(); });
                });
}
TEST_F(RetakeProcess, WhoComputesIsAskedBeforeItIsSentASignal) { expect("computes"); }

// … and not, if it comes to the runtime in between.
WEFT_CHILD(computes_and_calls) {
  return judged(
      [](subject& s) {
        const weft::chan<int> c(1);
        s.tid = gettid();
        while (!s.over) static_cast<void>(c.try_recv());  // never parks
      },
      [](subject& s) {
        if (!eventually_hogging([&] { return s.tid != 0; })) return false;
        slice_watcher w(s);
        return w.sees(800us, [&] { return s.other_ran.load(); }) && signals_that_froze() == 0;
      });
}
TEST_F(RetakeProcess, WhoMakesRoomWhenAskedIsSentNoSignal) { expect("computes_and_calls"); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
