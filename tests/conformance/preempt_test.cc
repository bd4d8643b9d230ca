// Goroutines that compute without ever calling the runtime: others run all the same, and the hog does not
// notice.
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;

class Preempt : public weft::test::over_procs {
 protected:
  // Starts so many goroutines that compute until somebody says stop, each by calling step(i).
  template <class Step>
  void with_hogs(int count, Step step, std::atomic<bool>& stop, weft::wait_group& ended) {
    for (int i = 0; i < count; ++i) {
      ended.go([&stop, step, i] {
        while (!stop.load(std::memory_order_relaxed)) step(i);
      });
    }
  }
};

void compute(int) {
  for (int i = 0; i < 1000; ++i) asm volatile("");
}

TEST_P(Preempt, LetsOthersRun) {
  run([&] {
    std::atomic<bool> stop{false};
    weft::wait_group ended;
    with_hogs(procs() + 1, compute, stop, ended);
    ended.go([&] { stop = true; });  // behind them all
    ended.wait();
  });
}

TEST_P(Preempt, LetsTimersFire) {
  run([&] {
    std::atomic<bool> stop{false};
    weft::wait_group ended;
    with_hogs(procs(), compute, stop, ended);
    for (int i = 0; i < 10; ++i) weft::this_thread::sleep_for(1ms);  // sleep-ok: what is tested
    stop = true;
    ended.wait();
  });
}

TEST_P(Preempt, LetsTheWorldStop) {
  run([&] {
    std::atomic<bool> stop{false};
    std::atomic<long> steps{0};
    weft::wait_group ended;
    with_hogs(
        procs(), [&](int) { steps.fetch_add(1, std::memory_order_relaxed); }, stop, ended);
    for (int i = 0; i < 20; ++i) {
      weft::runtime::stop_the_world([&] {
        const bool robbed = weft::test::somebody_was_robbed();
        const long before = steps.load();
        for (int n = 0; n < 100'000; ++n) asm volatile("");
        EXPECT_TRUE(steps.load() == before || robbed) << "a goroutine runs in a stopped world";
      });
    }
    stop = true;
    ended.wait();
  });
}

TEST_P(Preempt, LetsProcsChange) {
  run([&] {
    std::atomic<bool> stop{false};
    weft::wait_group ended;
    with_hogs(procs(), compute, stop, ended);
    for (const int n : {1, 3, 2, procs()}) weft::runtime::gomaxprocs(n);
    stop = true;
    ended.wait();
  });
}

// What belongs to the thread stays, and so does what belongs to the goroutine.
TEST_P(Preempt, StaysOnItsThread) {
  run([&] {
    std::atomic<bool> stop{false};
    std::atomic<int> moved{0};
    std::atomic<int> changed{0};
    weft::wait_group ended;
    const int hogs = procs() * 2;
    for (int i = 0; i < hogs; ++i) {
      ended.go([&, i] {
        const pid_t thread = gettid();
        if (!WEFT_TEST_TSAN) errno = 1000 + i;  // TSan would call it the thread's
        std::fesetround(i % 2 == 0 ? FE_UPWARD : FE_DOWNWARD);
        while (!stop.load(std::memory_order_relaxed)) {
          compute(i);
          if (!WEFT_TEST_TSAN && errno != 1000 + i) ++changed;
        }
        if (gettid() != thread) ++moved;
        if (std::fegetround() != (i % 2 == 0 ? FE_UPWARD : FE_DOWNWARD)) ++changed;
      });
    }
    // Once for every place in a chain of switches: there are rules that hold at some of them only.
    for (int i = 0; i < weft::test::scaled(70, 20); ++i) {
      weft::this_thread::sleep_for(1ms);  // sleep-ok: what is tested
    }
    stop = true;
    ended.wait();
    EXPECT_EQ(moved, 0);
    EXPECT_EQ(changed, 0);
  });
}

// Whoever waits for a frozen goroutine's lock loses its P, so that the holder goes on.
TEST_P(Preempt, WhileItHoldsALockThatOthersWant) {
  run([&] {
    std::mutex lock;
    long sum = 0;
    weft::wait_group ended;
    const int hogs = procs() * 3;
    for (int i = 0; i < hogs; ++i) {
      ended.go([&] {
        for (int n = 0; n < 20; ++n) {
          const std::lock_guard held(lock);
          for (int k = 0; k < 20; ++k) compute(k);
          ++sum;
        }
      });
    }
    ended.wait();
    EXPECT_EQ(sum, hogs * 20);
  });
}

// Each checks its own work; frozen in the middle of it again and again.
template <class Work>
void preempted_in(int procs, Work work) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  weft::wait_group ended;
  for (int i = 0; i < procs + 2; ++i) {
    ended.go([&, i] {
      while (!stop.load(std::memory_order_relaxed)) {
        if (!work(i)) ++wrong;
      }
    });
  }
  for (int i = 0; i < 30; ++i) weft::this_thread::sleep_for(1ms);  // sleep-ok: what is tested
  stop = true;
  ended.wait();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Preempt, InMalloc) {
  run([&] {
    preempted_in(procs(), [](int i) {
      std::vector<char*> all;
      for (int n = 0; n < 50; ++n) {
        auto* p = static_cast<char*>(std::malloc(16 + static_cast<std::size_t>(n) * 40));
        p[0] = static_cast<char>(i + n);
        all.push_back(p);
      }
      bool right = true;
      for (int n = 0; n < 50; ++n) {
        right &= all[static_cast<std::size_t>(n)][0] == static_cast<char>(i + n);
        std::free(all[static_cast<std::size_t>(n)]);
      }
      return right;
    });
  });
}

TEST_P(Preempt, InExceptions) {
  run([&] {
    preempted_in(procs(), [](int i) {
      int caught = 0;
      for (int n = 0; n < 10; ++n) {
        try {
          const std::string local(100, 'x');
          if (n % 2 == 0) throw std::runtime_error(std::to_string(i * 100 + n));
          throw i * 100 + n;
        } catch (const std::runtime_error& e) {
          caught += std::atoi(e.what()) == i * 100 + n ? 1 : 0;
        } catch (int value) {
          compute(value);
          caught += value == i * 100 + n ? 1 : 0;
        }
      }
      return caught == 10 && std::uncaught_exceptions() == 0;
    });
  });
}

TEST_P(Preempt, InPrintf) {
  run([&] {
    preempted_in(procs(), [](int i) {
      char text[64];
      std::snprintf(text, sizeof text, "%d %f %s", i, i / 3.0, "text");
      return std::atoi(text) == i;
    });
  });
}

WEFT_OVER_PROCS(Preempt);

}  // namespace
