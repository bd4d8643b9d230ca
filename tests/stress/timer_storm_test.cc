// Timers of all kinds under fire: started, stopped and reset from goroutines and plain threads while the
// number of Ps changes and the world stops. Every callable runs exactly as often as it was armed and
// not stopped; every timed wait ends.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include <weft/weft.h>

#include "support/storm.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::random_source;

class TimerStorm : public weft::test::storm {
 protected:
  // What one goroutine, or thread, does until told to stop. Balances: armed == stopped + called.
  void one(std::uint64_t number) {
    random_source random(number);
    std::vector<weft::timer> mine;
    for (int i = 0; i < 8; ++i) {
      mine.push_back(weft::after_func(1us * random.below(100), [this] { ++called_; }));
      ++armed_;
    }
    while (blowing()) {
      one_step(random, mine[static_cast<std::size_t>(random.below(8))]);
    }
    for (weft::timer& x : mine) stopped_ += x.stop() ? 1 : 0;
  }

  void one_step(random_source& random, weft::timer& x) {
    switch (random.below(4)) {
      case 0: stopped_ += x.stop() ? 1 : 0; break;
      case 1:
        ++armed_;
        stopped_ += x.reset(1us * random.below(200)) ? 1 : 0;
        break;
      case 2:
        weft::this_thread::sleep_for(1us * random.below(50));  // sleep-ok: the subject
        break;
      default: {
        weft::timer c(1us * random.below(50));
        weft::select(weft::recv(c.c(), [](auto) {}), weft::timeout(1us * random.below(50), [] {}));
        c.stop();
        EXPECT_FALSE(c.c().try_recv());
      }
    }
  }

  std::atomic<long> armed_{0}, stopped_{0}, called_{0};
};

TEST_P(TimerStorm, ArmedIsStoppedOrCalled) {
  std::vector<std::thread> plain;
  for (std::uint64_t i = 0; i < 2; ++i) plain.emplace_back([this, i] { one(100 + i); });
  run([this] {
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 8; ++i) wg.go([this, i] { one(i); });
    wg.go([this] {
      random_source random(200);
      while (blowing()) {
        weft::runtime::gomaxprocs(1 + random.below(procs()));
        weft::this_thread::sleep_for(500us);  // sleep-ok: the subject
        weft::runtime::stop_the_world([] {});
      }
      weft::runtime::gomaxprocs(procs());
    });
    wg.wait();
  });
  for (std::thread& p : plain) p.join();
  EXPECT_TRUE(weft::test::eventually([this] { return armed_ == stopped_ + called_; }))
      << armed_ << " armed, " << stopped_ << " stopped, " << called_ << " called";
}

WEFT_OVER_PROCS(TimerStorm);

}  // namespace
