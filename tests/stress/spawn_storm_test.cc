// Goroutines that start, migrate and end as fast as they can: each runs once, on a stack that nobody
// else touches, and keeps its identity.
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

class SpawnStorm : public weft::test::storm {
 protected:
  // A mark all over a part of this stack, that must be there after every switch.
  [[gnu::noinline]] void live(std::uint64_t number, int depth) {
    std::array<volatile std::uint64_t, 64> mark;
    for (auto& m : mark) m = number;
    random_source random(number);
    const std::uint64_t id = weft::runtime::goid();
    const int yields = random.below(6);
    for (int i = 0; i < yields; ++i) {
      if (random.one_in(3)) spawn(random.next(), depth);
      weft::gosched();
      for (const auto& m : mark) {
        if (m != number) ++damaged_;
      }
      if (weft::runtime::goid() != id) ++damaged_;
    }
    if (depth > 0 && blowing()) {
      spawn(random.next(), depth - 1);
      if (random.one_in(4)) spawn(random.next(), depth - 1);
    }
    ++ended_;
  }

  void spawn(std::uint64_t number, int depth) {
    if (started_ - ended_ > kMostAlive) {
      return;
    }
    ++started_;
    wg_.go([this, number, depth] { live(number, depth); });
  }

  static constexpr long kMostAlive = 2000;
  std::atomic<long> started_{0}, ended_{0}, damaged_{0};
  weft::wait_group wg_;
};

TEST_P(SpawnStorm, EveryOneRunsOnce) {
  random_source random(1);
  run([&] {
    while (blowing()) {
      for (int i = 0; i < 10; ++i) spawn(random.next(), 30);
      weft::gosched();
    }
    wg_.wait();
  });
  EXPECT_EQ(started_, ended_);
  EXPECT_EQ(damaged_, 0) << "two goroutines on one stack";
  RecordProperty("goroutines", static_cast<int>(started_));
}

// The same with plain threads that spawn as well.
TEST_P(SpawnStorm, PlainThreadsToo) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      random_source random(100 + t);
      while (blowing()) {
        spawn(random.next(), 5);
        if (random.one_in(8)) std::this_thread::yield();
      }
    });
  }
  run([&] {
    random_source random(200);
    while (blowing()) {
      spawn(random.next(), 5);
      weft::gosched();
    }
  });
  for (auto& t : threads) t.join();
  wg_.wait();
  EXPECT_EQ(started_, ended_);
  EXPECT_EQ(damaged_, 0);
}

WEFT_OVER_PROCS(SpawnStorm);

}  // namespace
