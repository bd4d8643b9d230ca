// Goroutines that are locked to threads, stopped worlds and changing numbers of Ps, all at once: callbacks
// that park while jthread requests a stop, plain threads that lend themselves to run(), and stoppers.
#include <atomic>
#include <functional>
#include <stop_token>
#include <thread>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

class LockedStorm : public weft::test::storm {
 protected:
  // What one callback does: parks a few times, and meddles with the world now and then.
  int park_and_meddle(long round) {
    int done = 0;
    for (int i = 0; i < 3; ++i) {
      weft::wait_group wg;
      wg.go([&done] {
        ++done;
        weft::gosched();
      });
      wg.wait();
      weft::gosched();
    }
    if (round % 8 == 0) weft::runtime::stop_the_world([] {});
    if (round % 16 == 0) weft::runtime::gomaxprocs(1 + static_cast<int>(round % 5));
    return done;
  }

  std::atomic<long> rounds_{0};
};

TEST_P(LockedStorm, Rages) {
  std::thread stopper([&] {
    while (blowing()) {
      weft::runtime::stop_the_world([] {});
      weft::runtime::gomaxprocs(1 + static_cast<int>(rounds_ % 4));
      std::this_thread::yield();
    }
  });
  std::thread lender([&] {
    while (blowing()) weft::run([] { weft::gosched(); }, {.lock_main_thread = true});
  });
  std::atomic<long> wrong{0};
  run([&] {
    weft::wait_group workers;
    for (int i = 0; i < 6; ++i) {
      workers.go([&] {
        while (blowing()) {
          weft::jthread t([](const std::stop_token& s) {
            while (!s.stop_requested()) weft::gosched();
          });
          int done = 0;
          const std::stop_callback<std::function<void()>> callback(
              t.get_stop_token(), [&] { done = park_and_meddle(rounds_); });
          t.request_stop();
          t.join();
          wrong += done == 3 ? 0 : 1;
          ++rounds_;
        }
      });
    }
    workers.wait();
  });
  stopper.join();
  lender.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(rounds_, 0);
}

WEFT_OVER_PROCS(LockedStorm);

}  // namespace
