// No hidden global lock: on a P that has work, spawning, yielding, parking and readying take no lock
// and write no word that Ps share. Built with WEFT_COUNT_LOCKS, which counts both (base/counters.h).
//
// Sixteen goroutines meet, so that each has a P of its own, and then do the same thing at the same
// time, a million times together. What may be counted is written at kLocks and kSharedWrites.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <gtest/gtest.h>
#include <sched.h>
#include <utility>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/wait_group.h>

#include "base/counters.h"
#include "os/test_hooks.h"
#include "sched/park.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

constexpr int kProcs = 16;
constexpr int kEach = 1'000'000 / kProcs;
constexpr int kWarmUp = 2'000;

// Nothing refills a lock-protected reserve on these paths; a stray one is not a hidden lock.
constexpr std::uint64_t kLocks = kProcs;
// Each P fetches blocks of ids that double from 16: at most 20 times for a million.
constexpr std::uint64_t kSharedWrites = kProcs * 20 + kProcs;

// Everybody waits for everybody, each on its own P.
class meeting {
 public:
  void meet() {
    const int now = arrived_.fetch_add(1) + 1;
    const int all = (now + kProcs - 1) / kProcs * kProcs;
    while (arrived_.load() < all) sched_yield();
  }

 private:
  std::atomic<int> arrived_{0};
};

struct counts {
  std::uint64_t locks = lock_acquisitions.load();
  std::uint64_t writes = shared_writes.load();
};

// operate(n) does something n times on the P it is called on.
template <class F>
void expect_local(F operate) {
  meeting m;
  weft::run(
      [&] {
        weft::wait_group wg;
        std::uint64_t locks = 0, writes = 0;
        for (int p = 0; p < kProcs; ++p) {
          wg.go([&, p] {
            m.meet();
            operate(kWarmUp);
            m.meet();
            const counts before;
            m.meet();
            operate(kEach);
            m.meet();
            if (p == 0) {
              const counts after;
              locks = after.locks - before.locks;
              writes = after.writes - before.writes;
            }
            m.meet();
          });
        }
        wg.wait();
        EXPECT_LE(locks, kLocks);
        EXPECT_LE(writes, kSharedWrites);
        testing::Test::RecordProperty("locks", static_cast<int>(locks));
        testing::Test::RecordProperty("shared_writes", static_cast<int>(writes));
        std::printf("%llu locks, %llu shared writes\n", static_cast<unsigned long long>(locks),
                    static_cast<unsigned long long>(writes));
      },
      {.max_procs = kProcs});
}

// Nobody watches: what is spawned here runs on this P when it yields, and at no other time.
class LocalPaths : public weft::test::runtime_test {
 protected:
  static void SetUpTestSuite() { os::test_hooks.no_sysmon.set(1); }
};

TEST_F(LocalPaths, SpawnAndEnd) {
  expect_local([](int n) {
    int ran = 0;
    for (int i = 0; i < n; ++i) {
      weft::go([&ran] { ++ran; });
      weft::gosched();
    }
    EXPECT_EQ(ran, n);
  });
}

TEST_F(LocalPaths, SpawnInBatches) {
  expect_local([](int n) {
    constexpr int kBatch = 25;  // a P keeps at least so many records and stacks
    int ran = 0;
    for (int i = 0; i < n; i += kBatch) {
      for (int k = 0; k < kBatch; ++k) weft::go([&ran] { ++ran; });
      weft::gosched();
    }
    EXPECT_GE(ran, n);
  });
}

TEST_F(LocalPaths, Yield) {
  expect_local([](int n) {
    bool stop = false;
    int others = 0;
    weft::wait_group wg;
    for (int k = 0; k < 3; ++k) {
      wg.go([&] {
        while (!stop) {
          ++others;
          weft::gosched();
        }
      });
    }
    for (int i = 0; i < n; ++i) weft::gosched();
    EXPECT_GE(others, n);
    stop = true;
    wg.wait();
  });
}

// Somebody who is parked until somebody else on the same P wakes him.
class baton {
 public:
  void wait() {
    waiter w;
    block(w, publish, this, this, wait_reason::semacquire);
  }
  void pass() { wake(std::exchange(waiting_, nullptr)); }
  bool waits() const { return waiting_ != nullptr; }

 private:
  static bool publish(waiter* w, void* self) {
    static_cast<baton*>(self)->waiting_ = w;
    return true;
  }
  waiter* waiting_ = nullptr;
};

TEST_F(LocalPaths, ParkAndReady) {
  expect_local([](int n) {
    baton ping, pong;
    weft::wait_group wg;
    wg.go([&] {
      for (int i = 0; i < n; ++i) {
        ping.wait();
        pong.pass();
      }
    });
    while (!ping.waits()) weft::gosched();
    for (int i = 0; i < n; ++i) {
      ping.pass();
      pong.wait();
    }
    wg.wait();
  });
}

TEST_F(LocalPaths, WaitGroupRoundTrip) {
  expect_local([](int n) {
    for (int i = 0; i < n; ++i) {
      weft::wait_group wg;
      wg.go([] {});
      wg.wait();
    }
  });
}

// The counters count: what goes through the global queue does take the lock.
TEST_F(LocalPaths, OverflowIsCounted) {
  const counts before;
  weft::run(
      [] {
        weft::wait_group wg;
        for (int i = 0; i < 2000; ++i) wg.go([] {});
        wg.wait();
      },
      {.max_procs = 1});
  const counts after;
  EXPECT_GE(after.locks - before.locks, 10u);
  EXPECT_GE(after.writes - before.writes, 1000u);
}

}  // namespace
}  // namespace weft::rt
