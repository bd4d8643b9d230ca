// sched/park.h: block and wake, for goroutines and plain threads. [PK-1], [PK-2], [PK-5]
#include "sched/park.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "gmp/g.h"
#include "sched/sched_api.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

class Park : public weft::test::over_procs {};

// A place for one waiter.
struct seat {
  std::atomic<waiter*> taken{nullptr};
  std::atomic<int> commits{0};
  bool refuse = false;

  static bool commit(waiter* w, void* self) {
    auto* s = static_cast<seat*>(self);
    if (s->refuse) {
      ++s->commits;
      return false;
    }
    ++s->commits;
    // From here on the waiter is its waker's. order: PT1 release to raise()
    s->taken.store(w, WEFT_COMMIT_ORDER(PT1, release));
    return true;
  }
  void sit() {
    waiter w;
    block(w, commit, this, &taken, wait_reason::semacquire);
  }
  void raise() {
    waiter* w = nullptr;
    EXPECT_TRUE(weft::test::eventually([&] {
      w = taken.exchange(nullptr, std::memory_order_acquire);
      return w != nullptr;
    }));
    wake(w);
  }
};

TEST_P(Park, WokenByAGoroutine) {
  run([] {
    for (int i = 0; i < weft::test::scaled(1000, 50); ++i) {
      seat s;
      weft::thread t([&s] { s.sit(); });
      s.raise();
      t.join();
      ASSERT_EQ(s.commits, 1);
    }
  });
}

TEST_P(Park, WokenByAPlainThread) {
  seat s;
  weft::thread t([&s] {
    for (int i = 0; i < 100; ++i) s.sit();
  });
  for (int i = 0; i < 100; ++i) s.raise();
  t.join();
  EXPECT_EQ(s.commits, 100);
}

TEST_P(Park, APlainThreadIsWoken) {
  seat s;
  std::thread t([&s] {
    for (int i = 0; i < 100; ++i) s.sit();
  });
  run([&s] {
    for (int i = 0; i < 100; ++i) s.raise();
  });
  t.join();
  EXPECT_EQ(s.commits, 100);
}

// [PK-1] a commit that refuses: nobody will wake the waiter, and it goes on at once
TEST_P(Park, RefusedCommit) {
  const auto body = [] {
    seat s;
    s.refuse = true;
    for (int i = 0; i < 100; ++i) s.sit();
    EXPECT_EQ(s.commits, 100);
    EXPECT_EQ(s.taken, nullptr);
  };
  run(body);
  body();
}

// [PK-2] the commit runs when the goroutine is off its stack: it is waiting already, and somebody else
// may be running.
TEST_P(Park, CommitRunsElsewhere) {
  run([] {
    struct probe {
      G* parked;
      bool waiting = false;
      bool other = false;
    } p{current_goroutine()};
    waiter w;
    block(
        w,
        [](waiter* self, void* arg) {
          auto* q = static_cast<probe*>(arg);
          q->waiting = self->gp == q->parked && q->parked->in(g_status::waiting);
          q->other = current_goroutine() != q->parked;
          return false;
        },
        &p, &p, wait_reason::semacquire);
    EXPECT_TRUE(p.waiting);
    EXPECT_TRUE(p.other);
    EXPECT_EQ(current_goroutine(), p.parked);
  });
}

// The reason is there to be read while it waits.
TEST_P(Park, SaysWhy) {
  run([] {
    seat s;
    std::atomic<G*> parked{nullptr};
    weft::thread t([&] {
      parked = current_goroutine();
      s.sit();
    });
    EXPECT_TRUE(weft::test::eventually([&s] { return s.taken != nullptr; }));
    EXPECT_EQ(parked.load()->reason, wait_reason::semacquire);
    EXPECT_TRUE(parked.load()->in(g_status::waiting));
    s.raise();
    t.join();
  });
}

// The waker may be faster than the parker gets off its stack: nothing is lost, nobody runs twice.
TEST_P(Park, RaceOfParkAndReady) {
  run([] {
    constexpr int kPairs = 8;
    const int rounds = weft::test::scaled(5000, 100);
    weft::wait_group wg;
    for (int p = 0; p < kPairs; ++p) {
      wg.go([rounds] {
        seat mine, yours;
        weft::thread other([&] {
          for (int i = 0; i < rounds; ++i) {
            yours.raise();
            mine.sit();
          }
        });
        for (int i = 0; i < rounds; ++i) {
          yours.sit();
          mine.raise();
        }
        other.join();
        EXPECT_EQ(mine.commits, rounds);
        EXPECT_EQ(yours.commits, rounds);
      });
    }
    wg.wait();
  });
}

WEFT_OVER_PROCS(Park);

}  // namespace
}  // namespace weft::rt
