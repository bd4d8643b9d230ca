// Sleeps and timers are punctual to the microsecond, whatever an idle M waits in: a limit that is rounded to milliseconds
// somewhere on its way to the kernel makes no test wrong that waits for an event, only late.
//
// In a program of its own: who has once met a kernel without epoll_pwait2, as in coarse_sleep_test.cc, does not ask again.
#include <chrono>
#include <gtest/gtest.h>
#include <string>

#include <weft/io.h>
#include <weft/thread.h>
#include <weft/time.h>

#include "support/fixture.h"

namespace weft::rt {
namespace {

using namespace std::chrono_literals;

class FineSleep : public weft::test::over_procs {
 protected:
  static constexpr auto kPunctual = 450us;

  // Between 300 and 400 us away, and 100 us after a full millisecond of the clock: who rounds up, the time or the wait, to the
  // next millisecond is late by 600 us at least.
  static clock::time_point next_due() {
    for (;;) {
      const auto now = clock::now();
      const auto phase = now.time_since_epoch() % 1ms;
      if (phase >= 700us && phase <= 800us) return now - phase + 1100us;
    }
  }

  void SetUp() override {
    over_procs::SetUp();
    if (weft::test::slowness() > 1) GTEST_SKIP() << "what is late there is the tool";
  }

  // A busy machine makes many rounds late, a wrong limit all but those in which something else ends the wait. So a few rounds
  // on end are judged together, until a quarter of them is punctual; not for long, as sooner or later a busy machine has
  // another thread look at the time, and that one would be punctual. wait(until) waits.
  template <class F>
  static void expect_punctual(const char* what, F wait) {
    constexpr int kRounds = 20, kEnough = 5;
    auto least = clock::duration::max();
    EXPECT_TRUE(weft::test::eventually(
        [&] {
          int punctual = 0;
          for (int i = 0; i < kRounds; ++i) {
            const auto due = next_due();
            wait(due);
            const auto late = clock::now() - due;
            EXPECT_GE(late, 0ns) << what;
            least = std::min(least, late);
            if (late < kPunctual) ++punctual;
          }
          return punctual >= kEnough;
        },
        5s))
        << what << ": " << least / 1us << " us late at best";
  }
  static void expect_all_punctual() {
    expect_punctual("sleep_until", [](clock::time_point due) {
      weft::this_thread::sleep_until(due);  // sleep-ok: the subject
    });
    expect_punctual("after", [](clock::time_point due) { weft::after(due - clock::now()).recv(); });
  }
};

// Whoever is idle sleeps in a futex.
TEST_P(FineSleep, Alone) { run(expect_all_punctual); }

// … in the poller.
TEST_P(FineSleep, BesideAReader) {
  run([] {
    auto [r, w] = io::pipe();
    std::string text(8, '\0');
    weft::thread reader([&text, &in = r] { text.resize(in.read_some(text)); });
    gosched();
    expect_all_punctual();
    w.write_all("late");
    reader.join();
  });
}

WEFT_OVER_PROCS(FineSleep);

}  // namespace
}  // namespace weft::rt
