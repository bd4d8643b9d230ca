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
// so that it ends only if all of them run at the same time.
void lock_step(int goroutines, int steps) {
  std::atomic<std::uint32_t> step{0};
  weft::wait_group wg;
  for (int p = 0; p < goroutines; ++p) {
    wg.go([&, p] {
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

// The same after all have been asleep, one of them in the poller, and before there are more Ms than are needed: that one
// has to be woken, too.
TEST_F(Parallelism, WhileSomebodyPolls) {
  weft::run(
      [] {
        auto [r, w] = weft::io::pipe();
        char byte = 0;
        weft::thread reader([&in = r, &byte] { in.read_some(weft::mutable_buffer(&byte, 1)); });
        for (int round = 0; round < 20; ++round) {
          weft::this_thread::sleep_for(1ms);  // sleep-ok: so that all are asleep, as a rule
          lock_step(procs(), 20);
        }
        w.write_all(std::string("x"));
        reader.join();
        EXPECT_EQ(byte, 'x');
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

// The same after everything has been asleep: the wake-ups must ramp up to all Ps again.
TEST_F(Parallelism, AfterAllSlept) {
  for (int round = 0; round < 20; ++round) {
    weft::run([] { lock_step(procs(), 20); }, {.max_procs = procs()});
  }
}

// The same from plain threads, and spawned by a goroutine that keeps its P.
TEST_F(Parallelism, NestedAndForeign) {
  weft::run(
      [] {
        const int n = procs();
        std::atomic<int> running{0};
        std::atomic<bool> stop{false};
        weft::wait_group wg;
        for (int p = 1; p < n; ++p) {
          wg.go([&] {
            ++running;
            while (!stop) sched_yield();
          });
        }
        EXPECT_TRUE(weft::test::eventually_hogging([&] { return running == n - 1; }))
            << running << " of " << n - 1 << " while the spawner keeps its P";
        stop = true;
        wg.wait();
      },
      {.max_procs = procs()});
  std::atomic<int> running{0};
  std::atomic<bool> stop{false};
  const int n = procs();
  weft::wait_group wg;
  for (int p = 0; p < n; ++p) {
    wg.go([&] {
      ++running;
      while (!stop) sched_yield();
    });
  }
  EXPECT_TRUE(weft::test::eventually([&] { return running == n; })) << "from a plain thread";
  stop = true;
  wg.wait();
}

}  // namespace
