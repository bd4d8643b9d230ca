// Stress tests: seeded and time-boxed. WEFT_STRESS_SECONDS is the time of one test, over all numbers
// of Ps; what a test counts must balance whenever it is told to end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/seed.h"

namespace weft::test {

class storm : public over_procs {
 protected:
  static constexpr unsigned kRounds = 64;  // between two looks at the clock

  // How long one number of Ps may take.
  static std::chrono::milliseconds duration() {
    const char* text = std::getenv("WEFT_STRESS_SECONDS");
    const double seconds = text != nullptr ? std::atof(text) : 2.0;
    return std::chrono::milliseconds(static_cast<long>(seconds * 1000 / std::size(kNumbersOfPs)));
  }

  void SetUp() override {
    seed();
    over_procs::SetUp();
    end_ = test_clock::now() + duration();
  }

  // For the storm's members; asks the clock only now and then, and not before the storm has begun, however
  // late the machine let it.
  bool blowing() {
    if (over_.load(std::memory_order_relaxed)) {
      return false;
    }
    if (asked_.fetch_add(1, std::memory_order_relaxed) % kRounds == kRounds - 1 &&
        test_clock::now() > end_) {
      over_.store(true, std::memory_order_relaxed);
    }
    return true;
  }

  // So many goroutines, and two plain threads, each with a random source of its own, do rounds until it is over.
  template <class F>
  void blow(int goroutines, F round) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 2; ++t) {
      threads.emplace_back([this, t, &round] {
        random_source random(100 + t);
        while (blowing()) round(random);
      });
    }
    run([&] {
      weft::wait_group wg;
      for (int i = 0; i < goroutines; ++i) {
        wg.go([this, i, &round] {
          random_source random(static_cast<std::uint64_t>(i));
          while (blowing()) round(random);
        });
      }
      wg.wait();
    });
    for (auto& t : threads) t.join();
  }

 private:
  test_clock::time_point end_;
  std::atomic<bool> over_{false};
  std::atomic<unsigned> asked_{0};
};

}  // namespace weft::test
