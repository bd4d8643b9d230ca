// weft::task_group, as golang.org/x/sync/errgroup. Go: errgroup_test.go
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/panic.h>
#include <weft/run.h>
#include <weft/task_group.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::test::scaled;

class TaskGroup : public weft::test::over_procs {};

TEST_P(TaskGroup, WaitsForAll) {
  run([] {
    std::atomic<int> ran{0};
    weft::task_group g;
    for (int i = 0; i < 100; ++i) g.run([&ran] { weft::gosched(), ++ran; });
    g.wait();
    EXPECT_EQ(ran, 100);
    EXPECT_EQ(g.ctx().err(), std::errc::operation_canceled) << "over";
    g.run([&ran] { ++ran; });
    g.wait();
    EXPECT_EQ(ran, 101);
  });
}

TEST_P(TaskGroup, TheDestructorWaits) {
  run([] {
    std::atomic<int> ran{0};
    {
      weft::task_group g;
      for (int i = 0; i < 20; ++i) g.run([&ran] { weft::gosched(), ++ran; });
    }
    EXPECT_EQ(ran, 20);
  });
}

// Go: TestZeroGroup, TestWithContext
TEST_P(TaskGroup, TheFirstExceptionCancelsTheOthersAndComesOut) {
  run([] {
    weft::task_group g;
    std::atomic<int> saw{0};
    for (int i = 0; i < 5; ++i) {
      g.run([&saw, c = g.ctx()] {
        c.done().recv();
        ++saw;
        throw std::runtime_error("because of the other");
      });
    }
    g.run([] { throw std::out_of_range("first"); });
    try {
      g.wait();
      FAIL() << "no exception";
    } catch (const std::out_of_range& e) {
      EXPECT_STREQ(e.what(), "first");
    }
    EXPECT_EQ(saw, 5);
    try {
      std::rethrow_exception(g.ctx().cause());
    } catch (const std::exception& e) {
      EXPECT_STREQ(e.what(), "first");
    }
    g.wait();  // taken once
  });
}

// One of several who wait gets it, also with a limit; and those who have returned may go on with the group.
TEST_P(TaskGroup, SeveralWait) {
  run([] {
    for (weft::test::budget b(scaled(2000, 100)); b.next();) {
      weft::task_group g;
      std::atomic<int> thrown{0}, got{0};
      const auto fail = [&] {
        g.run([&thrown] {
          ++thrown;
          throw std::runtime_error("x");
        });
      };
      fail();
      weft::wait_group waiters;
      for (int i = 0; i < 4; ++i) {
        waiters.go([&, i] {
          try {
            i % 2 == 0 ? g.wait() : void(g.wait(weft::context::background()));
          } catch (const std::runtime_error& e) {
            EXPECT_STREQ(e.what(), "x");
            if (++got == 1) fail();
          }
        });
      }
      waiters.wait();
      try {
        g.wait();
      } catch (const std::runtime_error&) {
        ++got;
      }
      EXPECT_EQ(thrown, 2);
      EXPECT_EQ(got, 2);
    }
  });
}

TEST_P(TaskGroup, TheParentCancelsTasks) {
  run([] {
    auto [parent, cancel] = weft::with_cancel(weft::context::background());
    weft::task_group g(parent);
    g.run([c = g.ctx()] { c.done().recv(); });
    cancel();
    g.wait();
  });
}

// Cancelled before it waits, because another exception leaves the block.
TEST_P(TaskGroup, UnwindingCancels) {
  run([] {
    std::atomic<bool> ended{false};
    try {
      weft::task_group g;
      g.run([&ended, c = g.ctx()] {
        c.done().recv();
        ended = true;
        throw std::runtime_error("lost: another one is on its way");
      });
      throw std::logic_error("out");
    } catch (const std::logic_error&) {
    }
    EXPECT_TRUE(ended);
  });
}

// Go: TestGoLimit, TestTryGo
TEST_P(TaskGroup, Limit) {
  run([] {
    weft::task_group g;
    constexpr int kLimit = 3;
    g.set_limit(kLimit);
    std::atomic<int> active{0}, most{0};
    for (int i = 0; i < 200; ++i) {
      g.run([&] {
        const int now = ++active;
        for (int m = most; now > m && !most.compare_exchange_weak(m, now);) {
        }
        weft::gosched();
        --active;
      });
    }
    g.wait();
    EXPECT_GE(most, 1);
    EXPECT_LE(most, kLimit);

    g.set_limit(1);
    weft::chan<weft::unit> gate;
    EXPECT_TRUE(g.try_run([gate] { gate.recv(); }));
    EXPECT_FALSE(g.try_run([] { FAIL(); }));
    try {
      g.set_limit(2);
      FAIL() << "changed while tasks run";
    } catch (const weft::panic_error& e) {
      EXPECT_STREQ(e.what(),
                   "errgroup: modify limit while 1 goroutines in the group are still active");
    }
    gate.send({});
    g.wait();
    g.set_limit(0);
    EXPECT_FALSE(g.try_run([] { FAIL(); }));
  });
}

// Also if there was no limit: the tasks of before have no places to give back.
TEST_P(TaskGroup, FirstLimitWhileTasksRun) {
  run([] {
    weft::task_group g;
    weft::chan<weft::unit> gate;
    for (int i = 0; i < 2; ++i) g.run([gate] { gate.recv(); });
    try {
      g.set_limit(2);
      ADD_FAILURE() << "changed while tasks run";
    } catch (const weft::panic_error& e) {
      EXPECT_STREQ(e.what(),
                   "errgroup: modify limit while 2 goroutines in the group are still active");
    }
    for (int i = 0; i < 2; ++i) gate.send({});
    g.wait();
    g.set_limit(2);
  });
}

TEST_P(TaskGroup, Goexit) {
  run([] {
    weft::task_group g;
    g.set_limit(1);
    for (int i = 0; i < 10; ++i) g.run([] { weft::goexit(); });
    g.wait();
  });
}

TEST_P(TaskGroup, TasksStartTasks) {
  run([] {
    std::atomic<int> ran{0};
    weft::task_group g;
    g.run([&] {
      for (int i = 0; i < 10; ++i) g.run([&] { ++ran; });
    });
    g.wait();
    EXPECT_EQ(ran, 10);
  });
}

WEFT_OVER_PROCS(TaskGroup);

}  // namespace
