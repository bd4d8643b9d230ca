// Nobody starves: goroutines that compute, that call without parking, that make short system calls, that hand a token to
// and fro, beside each other on few Ps. Go: runtime/proc_test.go
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/preemptions.h"

namespace {

using namespace std::chrono_literals;
using weft::test::scaled;
using weft::test::test_clock;

class Fairness : public weft::test::runtime_test {
 protected:
  template <class F>
  static void on_procs(int procs, F f) {
    weft::run(f, {.max_procs = procs});
  }
};

[[gnu::noinline]] unsigned called_often(unsigned x) {
  asm volatile("");
  return x + 1;
}

// Go: TestPreemption. Two that take turns by a shared variable, and do nothing but call.
TEST_F(Fairness, TwoTakeTurns) {
  for (const int procs : {1, 2}) {
    on_procs(procs, [] {
      const unsigned turns = scaled(8u, 4u);
      std::atomic<unsigned> x{0};
      weft::wait_group ended;
      for (unsigned i = 0; i < 2; ++i) {
        ended.go([&, i] {
          for (unsigned n = 0; n < turns; ++n) {
            unsigned calls = 0;
            while (x.load(std::memory_order_relaxed) % 2 != i) calls = called_often(calls);
            ++x;
          }
        });
      }
      ended.wait();
      EXPECT_EQ(x, 2 * turns);
    });
  }
}

// Go: TestPreemptionGC
TEST_F(Fairness, TheWorldStopsBesideThoseWhoCall) {
  on_procs(4, [] {
    std::atomic<bool> stop{false};
    weft::wait_group ended;
    for (int i = 0; i < 4; ++i) {
      ended.go([&] {
        unsigned calls = 0;
        while (!stop.load(std::memory_order_relaxed)) calls = called_often(calls);
      });
    }
    for (int i = 0; i < 5; ++i) weft::runtime::stop_the_world([] {});
    stop = true;
    ended.wait();
  });
}

// Go: TestAsyncPreempt. A loop with calls to nothing of ours, one without a frame, an empty one: all three.
void loop_without_calls(const std::atomic<bool>& stop) {
  volatile int sum = 0;
  while (!stop.load(std::memory_order_relaxed)) sum = sum + 1;
}
#if defined(__x86_64__)
[[gnu::naked, gnu::noinline]] void loop_without_frame(const std::atomic<bool>&) {
  asm volatile("1: cmpb $0, (%rdi)\n je 1b\n ret");
}
#else
[[gnu::noinline]] void loop_without_frame(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
  }
}
#endif
[[gnu::noinline]] void empty_loop(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) asm volatile("");
}

TEST_F(Fairness, AnyLoopIsInterrupted) {
  for (auto* loop : {loop_without_calls, loop_without_frame, empty_loop}) {
    if (WEFT_TEST_TSAN && loop == loop_without_frame) continue;  // where TSan delivers no signal
    on_procs(1, [&] {
      std::atomic<bool> stop{false};
      weft::wait_group ended;
      ended.go([&] { loop(stop); });
      weft::this_thread::sleep_for(1ms);  // sleep-ok: the loop runs meanwhile, and must be stopped
      stop = true;
      ended.wait();
    });
  }
}

// Go: TestGCFairness. Endless short system calls on one P do not keep a sleeper from waking.
TEST_F(Fairness, ShortSystemCalls) {
  on_procs(1, [] {
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    std::atomic<bool> stop{false};
    weft::wait_group ended;
    for (int i = 0; i < 2; ++i) {
      ended.go([&] {
        while (!stop.load(std::memory_order_relaxed)) EXPECT_EQ(write(null, ".", 1), 1);
      });
    }
    weft::this_thread::sleep_for(10ms);  // sleep-ok: what is tested
    stop = true;
    ended.wait();
    close(null);
  });
}

// Go: TestGCFairness2. Three who allocate all run within 30 ms; sooner or later, as a busy machine may take longer for a while.
TEST_F(Fairness, ThreeWhoAllocate) {
  on_procs(1, [] {
    const auto in_time = [] {
      std::atomic<bool> stop{false};
      std::atomic<int> ran[3] = {};
      weft::wait_group ended;
      const auto began = test_clock::now();
      for (auto& mine : ran) {
        ended.go([&] {
          std::vector<std::string> kept(16);
          for (std::size_t n = 0; !stop.load(std::memory_order_relaxed); ++n) {
            kept[n % 16] = std::string(1024, 'x');
            mine.store(1, std::memory_order_relaxed);
          }
        });
      }
      EXPECT_TRUE(weft::test::eventually([&] { return ran[0] + ran[1] + ran[2] == 3; }));
      const auto took = test_clock::now() - began;
      stop = true;
      ended.wait();
      return took < 30ms * weft::test::slowness();
    };
    EXPECT_TRUE(weft::test::eventually(in_time));
  });
}

// Go: TestPingPongHog. Two who hand a token to and fro and count a thousand in between share a time slice, and so do two who
// count to a million: each pair comes to about as much in the end.
TEST_F(Fairness, TokenBesideHogs) {
  on_procs(1, [] {
    const auto enough = scaled<std::uint64_t>(300'000'000, 30'000'000);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> hogs{0}, light{0};
    weft::wait_group ended;
    const auto pair = [&](std::atomic<std::uint64_t>& count, int limit) {
      const weft::chan<bool> token(1);
      for (int i = 0; i < 2; ++i) {
        ended.go([&, token, limit] {
          while (token.recv() && !stop.load(std::memory_order_relaxed)) {
            for (int n = 0; n < limit; ++n) {  // one at a time has its turn
              count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            }
            token.send(true);
          }
          token.send(true);  // the other one ends, too
        });
      }
      token.send(true);
    };
    pair(hogs, 1'000'000);
    pair(light, 1'000);
    // Slices are time, whatever a machine with other work to do lets them have of it: in the end, not after a few.
    EXPECT_TRUE(weft::test::eventually([&] {
      weft::this_thread::sleep_for(1ms);  // sleep-ok: a look
      const std::uint64_t h = hogs, l = light;
      return h + l >= enough && 20 * l > h && 20 * h > l;
    })) << "one pair starves beside the other: "
        << hogs << " and " << light;
    stop = true;
    ended.wait();
  });
}

// Go: TestPreemptionAfterSyscall. Whoever makes short calls that announce themselves is preempted all the same: otherwise not all
// of them would begin, since each goes on until all have.
TEST_F(Fairness, AfterShortBlockingCalls) {
  constexpr int kRounds = 10, kCallers = 8;
  for (const auto delay : {10us, 100us, 1000us}) {
    for (int round = 0; round < kRounds; ++round) {
      on_procs(2, [&] {
        const weft::chan<bool> started(kCallers);
        std::atomic<bool> stop{false};
        weft::wait_group ended;
        for (int i = 0; i < kCallers; ++i) {
          ended.go([&] {
            started.send(true);
            while (!stop.load(std::memory_order_relaxed)) {
              weft::runtime::blocking([&] {
                const auto enough = test_clock::now() + delay;
                while (test_clock::now() < enough) {
                }
              });
            }
          });
        }
        for (int i = 0; i < kCallers; ++i) EXPECT_EQ(started.recv(), true);
        stop = true;
        ended.wait();
      });
    }
  }
}

// Go: TestTraceSTW. Who computes when the world stops goes on where it was: here always, since it is never moved.
TEST_F(Fairness, GoesOnWhereItWas) {
  on_procs(4, [] {
    std::atomic<bool> stop{false};
    std::atomic<int> running{0}, moved{0};
    weft::wait_group ended;
    for (int i = 0; i < 2; ++i) {
      ended.go([&] {
        const long thread = syscall(SYS_gettid);
        ++running;
        while (!stop.load(std::memory_order_relaxed)) {
          if (syscall(SYS_gettid) != thread) ++moved;
        }
      });
    }
    while (running < 2) weft::gosched();
    for (int i = 0; i < 20; ++i) weft::runtime::stop_the_world([] {});
    stop = true;
    ended.wait();
    EXPECT_EQ(moved, 0);
  });
}

// Go: TestCgoCallbackGC. Threads of a library call in, with deep stacks, while the world stops all the time.
[[gnu::noinline]] int deep(int depth, const weft::chan<int>& c) {
  volatile char room[256];
  room[0] = static_cast<char>(depth);
  if (depth == 0) {
    c.send(1);
    return *c.recv();
  }
  return deep(depth - 1, c) + (room[0] == static_cast<char>(depth) ? 0 : 1);
}

TEST_F(Fairness, CallbacksWhileTheWorldStops) {
  on_procs(2, [] {
    std::atomic<bool> over{false};
    weft::wait_group stopper;
    stopper.go([&] {
      while (!over) {
        weft::runtime::stop_the_world([] {});
        weft::gosched();
      }
    });
    std::vector<std::thread> library;
    std::atomic<int> right{0};
    const int rounds = scaled(2000, 20);
    for (int t = 0; t < 4; ++t) {
      library.emplace_back([&] {
        const weft::chan<int> c(1);
        for (int n = 0; n < rounds; ++n) right += deep(20, c);
      });
    }
    for (auto& t : library) t.join();  // blocks the thread, unannounced
    over = true;
    stopper.wait();
    EXPECT_EQ(right, 4 * rounds);
  });
}

// X4: after a deep sleep of sysmon news of a descriptor starts somebody who computes: others run all the same, within 20 ms;
// sooner or later, as a busy machine may take longer for a while.
TEST_F(Fairness, SysmonWakesFromItsDeepSleep) {
  on_procs(1, [] {
    const auto in_time = [] {
      test_clock::duration took{};  // of the hog's, until another one ran
      auto [r, w] = weft::io::pipe();
      std::atomic<bool> stop{false};
      weft::wait_group ended;
      ended.go([&, reader = &r] {
        char byte;
        EXPECT_EQ(reader->read_some(weft::mutable_buffer(&byte, 1)), 1u);
        const auto began = test_clock::now();
        ended.go([&] { stop = true; });
        while (!stop.load(std::memory_order_relaxed)) {
        }
        took = test_clock::now() - began;
      });
      std::thread writer([fd = w.native_handle()] {
        // Five rounds of ten milliseconds until it sleeps for good.
        std::this_thread::sleep_for(120ms);  // sleep-ok: so that sysmon is asleep, as a rule
        EXPECT_EQ(write(fd, "x", 1), 1);
      });
      ended.wait();
      writer.join();
      return took < 20ms * weft::test::slowness();
    };
    EXPECT_TRUE(weft::test::eventually(in_time));
  });
}

// X5: all Ps go idle while news of descriptors arrives, again and again: none is lost.
TEST_F(Fairness, NewsWhileEverybodyGoesIdle) {
  for (const int procs : {2, 4}) {
    on_procs(procs, [] {
      auto [r, w] = weft::io::pipe();
      auto [back_r, back_w] = weft::io::pipe();
      const int there = w.native_handle(), back = back_r.native_handle();
      const int rounds = scaled(300, 20);
      std::thread partner([&] {
        char byte = 'x';
        for (int i = 0; i < rounds; ++i) {
          if (write(there, &byte, 1) != 1) break;
          while (read(back, &byte, 1) != 1 && errno == EAGAIN) sched_yield();
        }
      });
      weft::wait_group ended;
      ended.go([&, reader = &r, writer = &back_w] {
        char byte;
        for (int i = 0; i < rounds; ++i) {
          EXPECT_EQ(reader->read_some(weft::mutable_buffer(&byte, 1)), 1u);
          weft::thread([] {}).join();  // wakes another P, which goes idle again
          EXPECT_EQ(writer->write_some(weft::const_buffer(&byte, 1)), 1u);
        }
      });
      ended.wait();
      partner.join();
    });
  }
}

// Nobody is interrupted in such a scope, and whoever waits is served at its end. But its P may be taken while its thread waits
// for a page, and then the round says nothing.
TEST_F(Fairness, NoPreemptScope) {
  on_procs(1, [] {
    for (bool kept_its_p = false; !kept_its_p;) {
      const auto lost_before = weft::test::handoffs();
      std::atomic<bool> other_ran{false};
      weft::wait_group ended;
      {
        const weft::no_preempt scope;
        const weft::no_preempt nested;
        ended.go([&] { other_ran = true; });
        for (const auto until = test_clock::now() + 30ms; test_clock::now() < until;) {
        }
        const bool ran = other_ran;
        kept_its_p = weft::test::handoffs() == lost_before;
        EXPECT_FALSE(ran && kept_its_p);
      }
      while (!other_ran.load(std::memory_order_relaxed)) {
      }
      ended.wait();
    }
  });
}

}  // namespace
