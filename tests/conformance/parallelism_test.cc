// As many goroutines run at the same time as there are Ps, as far as there are processors.
// [SP-1], [SP-6], [FR-1]; Go: TestGoroutineParallelism, TestGoroutineParallelism2
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <weft/io.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;  // NOLINT

class Parallelism : public weft::test::runtime_test {
 protected:
  // More than the machine has would only test the kernel.
  static int procs() { return std::min(4, weft::runtime::num_cpu()); }
};

// P goroutines count in lock-step without any scheduling point: each waits for its neighbour's step,
// so that it ends only if all of them run at the same time. Nobody is stopped so that others may run.
void lock_step(int goroutines, int steps) {
  std::atomic<std::uint32_t> step{0};
  weft::wait_group wg;
  for (int p = 0; p < goroutines; ++p) {
    wg.go([&, p] {
      const weft::no_preempt not_one_by_one;
      for (int i = 0; i < steps; ++i) {
        const auto expected = static_cast<std::uint32_t>(goroutines * i + p);
        while (step.load(std::memory_order_acquire) != expected) {
          // On a machine that has other things to do, a neighbour may be off its processor.
          sched_yield();
        }
        step.store(expected + 1, std::memory_order_release);
      }
    });
  }
  wg.wait();
}

TEST_F(Parallelism, LockStep) {
  weft::run(
      [] {
        for (int i = 0; i < 10; ++i) lock_step(procs(), weft::test::scaled(200, 20));
      },
      {.max_procs = procs()});
}

// More Ps than processors are no reason not to run them all.
TEST_F(Parallelism, LockStepOnManyPs) {
  weft::run(
      [] {
        for (int i = 0; i < 3; ++i) lock_step(16, weft::test::scaled(100, 10));
      },
      {.max_procs = 16});
}

// What follows also with more Ps than processors: on two, one wake-up is enough; for more, whoever has been woken and has found
// work wakes the next. Nobody is stopped for others' sake, or sysmon would let them run one by one where wake-ups are missing.
class RampUp : public weft::test::runtime_test, public testing::WithParamInterface<int> {
 protected:
  static int procs() { return GetParam(); }
};

// Two steps: who takes the second one knows that all have begun, and none has ended before they have.
constexpr int kMeet = 2;

// After all have been asleep, one of them in the poller, and before there are more Ms than are needed: that one has to be
// woken, too.
TEST_P(RampUp, WhileSomebodyPolls) {
  weft::run(
      [] {
        auto [r, w] = weft::io::pipe();
        char byte = 0;
        weft::thread reader([&in = r, &byte] { in.read_some(weft::mutable_buffer(&byte, 1)); });
        for (int round = 0; round < 20; ++round) {
          weft::this_thread::sleep_for(1ms);  // sleep-ok: so that all are asleep, as a rule
          lock_step(procs(), kMeet);
        }
        w.write_all(std::string("x"));
        reader.join();
        EXPECT_EQ(byte, 'x');
      },
      {.max_procs = procs()});
}

// After everything has been asleep.
TEST_P(RampUp, AfterAllSlept) {
  for (int round = 0; round < 20; ++round) {
    weft::run([] { lock_step(procs(), kMeet); }, {.max_procs = procs()});
  }
}

// They count themselves and keep their Ps until they are told.
class crowd {
 public:
  explicit crowd(int n) {
    for (int i = 0; i < n; ++i) {
      wg_.go([this] {
        const weft::no_preempt until_told;
        ++running_;
        while (!stop_) sched_yield();
      });
    }
  }
  ~crowd() {
    stop_ = true;
    wg_.wait();
  }
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;

  int running() const { return running_; }

 private:
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  weft::wait_group wg_;
};

// Spawned by a goroutine that keeps its P.
TEST_P(RampUp, Nested) {
  weft::run(
      [] {
        const weft::no_preempt keeps_its_p;
        const int others = procs() - 1;
        const crowd c(others);
        EXPECT_TRUE(weft::test::eventually_hogging([&] { return c.running() == others; }))
            << c.running() << " of " << others << " while the spawner keeps its P";
      },
      {.max_procs = procs()});
}

TEST_P(RampUp, Foreign) {
  weft::runtime::gomaxprocs(procs());
  const crowd c(procs());
  EXPECT_TRUE(weft::test::eventually([&] { return c.running() == procs(); }))
      << c.running() << " of " << procs() << " from a plain thread";
}

INSTANTIATE_TEST_SUITE_P(, RampUp, testing::Values(2, 4, 16), weft::test::procs_name);

}  // namespace
