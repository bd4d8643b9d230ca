// Sleeps and timers on a kernel without epoll_pwait2, where an idle M that waits for descriptors counts in milliseconds:
// never early.
#include <chrono>
#include <gtest/gtest.h>
#include <string>

#include <weft/io.h>
#include <weft/thread.h>
#include <weft/time.h>

#include "os/test_hooks.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

using namespace std::chrono_literals;

class CoarseSleep : public weft::test::over_procs {
 protected:
  void SetUp() override {
    over_procs::SetUp();
    os::test_hooks.deny_epoll_pwait2.set(1);
  }
  void TearDown() override {
    os::test_hooks.reset();
    over_procs::TearDown();
  }
};

TEST_P(CoarseSleep, IsNotEarly) {
  run([] {
    auto [r, w] = io::pipe();
    std::string text(8, '\0');
    // Somebody waits for a descriptor, so that whoever is idle does it in the poller.
    weft::thread reader([&text, &in = r] { text.resize(in.read_some(text)); });
    for (const auto d : {50us, 1000us, 1700us, 4100us}) {
      const auto t = clock::now();
      weft::this_thread::sleep_for(d);  // sleep-ok: the subject
      EXPECT_GE(clock::now() - t, d);
      const auto due = clock::now() + d;
      EXPECT_GE(*weft::after(d).recv(), due);
    }
    w.write_all("late");
    reader.join();
    EXPECT_EQ(text, "late");
  });
}

WEFT_OVER_PROCS(CoarseSleep);

}  // namespace
}  // namespace weft::rt
