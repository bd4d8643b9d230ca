// The world is stopped and the number of Ps changed all the time, from goroutines and plain threads,
// while everything else goes on: spawns, yields, parks, joins, plain threads that block.
#include <atomic>
#include <sched.h>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

class WorldStorm : public weft::test::storm {
 protected:
  void stop_and_look() {
    const bool still = weft::runtime::stop_the_world([this] {
      const bool robbed = weft::test::somebody_was_robbed();
      const long before = work_.load(std::memory_order_relaxed);
      sched_yield();
      return work_.load(std::memory_order_relaxed) == before || robbed;
    });
    if (!still) ++moved_;
    ++stops_;
  }
  void meddle(random_source& random) {
    if (random.one_in(2)) {
      stop_and_look();
    } else {
      weft::runtime::gomaxprocs(1 + random.below(2 * procs()));
    }
  }
  // Counts what goroutines do, and only they.
  void work(random_source& random) {
    switch (random.below(4)) {
      case 0: weft::gosched(); break;
      case 1: weft::thread([this] { ++work_; }).join(); break;
      case 2: {
        weft::wait_group wg;
        for (int i = 0; i < 3; ++i) wg.go([this] { ++work_; });
        wg.wait();
        break;
      }
      default: weft::run([this] { ++work_; });
    }
    ++work_;
  }

  std::atomic<long> work_{0}, stops_{0}, moved_{0};
};

TEST_P(WorldStorm, EverythingGoesOn) {
  std::vector<std::thread> threads;
  threads.emplace_back([this] {
    random_source random(1);
    while (blowing()) meddle(random);
  });
  threads.emplace_back([this] {  // waits for goroutines, as plain threads do
    while (blowing()) {
      weft::thread([this] { ++work_; }).join();
      weft::run([this] { ++work_; });
    }
  });
  run([this] {
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 6; ++i) {
      wg.go([this, i] {
        random_source random(10 + i);
        while (blowing()) work(random);
      });
    }
    wg.go([this] {
      random_source random(20);
      while (blowing()) {
        meddle(random);
        weft::gosched();
      }
    });
    wg.wait();
  });
  for (auto& t : threads) t.join();
  EXPECT_EQ(moved_, 0) << "somebody ran while the world was stopped";
  EXPECT_GT(stops_, 0);
  EXPECT_GT(work_, 0);
  RecordProperty("stops", static_cast<int>(stops_));
}

WEFT_OVER_PROCS(WorldStorm);

}  // namespace
