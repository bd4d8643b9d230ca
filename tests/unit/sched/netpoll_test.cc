// sysmon's back-stop: news that nobody looks for; and who must do without it.
#include "sched/netpoll.h"

#include <atomic>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/io.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "os/clock.h"
#include "os/test_hooks.h"
#include "sched/sched_api.h"
#include "support/fixture.h"

namespace {

// The test is sysmon: the real one looks at no time of ours.
class Netpoll : public weft::test::over_procs {
 protected:
  static void SetUpTestSuite() { weft::rt::os::test_hooks.no_sysmon.set(1); }
};

// As many goroutines as Ps compute and never yield. Whoever waits for a descriptor is made runnable all the
// same, by sysmon; it runs when a P is free.
TEST_P(Netpoll, TheBackStopLooksWhenAllAreBusy) {
  std::atomic<bool> over{false}, runnable{false};
  std::atomic<int> computing{0};
  const int event = eventfd(0, EFD_CLOEXEC);
  const std::uint64_t one = 1;
  std::thread sysmon([&] {
    while (computing < procs()) std::this_thread::yield();
    ASSERT_EQ(::write(event, &one, sizeof one), 8);
    // The clock is ours: ten milliseconds pass from one look to the next.
    for (std::int64_t now = 1; weft::rt::io_is_awaited(); now += 11'000'000) {
      weft::rt::netpoll_backstop(now);
      std::this_thread::yield();
    }
    runnable = true;
    over = true;
  });
  run([&] {
    weft::io::poll_fd p(event);
    weft::thread waits([&] { p.wait_readable(); });
    while (!weft::rt::io_is_awaited()) weft::gosched();
    weft::wait_group wg;
    for (int i = 1; i < procs(); ++i) {
      wg.go([&] {
        ++computing;
        while (!over) sched_yield();
      });
    }
    ++computing;
    while (!over) sched_yield();
    waits.join();
    wg.wait();
  });
  sysmon.join();
  EXPECT_TRUE(runnable);
  ::close(event);
}

// Go: TestNetpollWaiters. Whoever has been served, given up or was closed out waits no more.
TEST_P(Netpoll, NobodyWaitsAfterTraffic) {
  run([] {
    for (int i = 0; i < 20; ++i) {
      weft::wait_group ended;
      auto [r, w] = weft::io::pipe();
      auto [silent, other] = weft::io::pipe();
      ended.go([&, from = &r] {
        char byte;
        for (int n = 0; n < 10; ++n) {
          EXPECT_EQ(from->read_some(weft::mutable_buffer(&byte, 1)), 1u);
        }
      });
      ended.go([&, from = &silent] {
        char byte;
        std::error_code ec;
        from->read_some(weft::mutable_buffer(&byte, 1), ec);
        EXPECT_TRUE(ec) << "it was closed";
      });
      for (int n = 0; n < 10; ++n) {
        EXPECT_EQ(w.write_some(weft::const_buffer("x", 1)), 1u);
        weft::gosched();
      }
      silent.close();
      ended.wait();
      EXPECT_FALSE(weft::rt::io_is_awaited());
    }
  });
}

// The only goroutine is in a long call: its thread is awake, and will not look for anything. A plain thread that waits
// meanwhile is not left to sysmon.
TEST_P(Netpoll, PlainThreadsDoNotDependOnThoseInCalls) {
  const int event = eventfd(0, EFD_CLOEXEC);
  const std::uint64_t one = 1;
  run([&] {
    weft::runtime::blocking_for_long([&] {
      for (int i = 0; i < 20; ++i) {
        std::thread waits([&] {
          weft::io::poll_fd p(event);
          p.wait_readable();
        });
        while (!weft::rt::io_is_awaited()) std::this_thread::yield();
        EXPECT_EQ(::write(event, &one, sizeof one), 8);
        waits.join();
        std::uint64_t count = 0;
        EXPECT_EQ(::read(event, &count, sizeof count), 8);
      }
    });
  });
  ::close(event);
}

// Everybody who is awake computes or is in a call, and nobody is asleep; but Ps are free. Whom the back-stop finds run
// there, each on one of its own: they compute until all of them have come.
void expect_ps_for_news(int readers) {
  std::atomic<int> have_run{0};
  std::atomic<bool> ready{false};
  std::vector<int> events;
  for (int i = 0; i < readers; ++i) events.push_back(eventfd(0, EFD_CLOEXEC));
  const std::uint64_t one = 1;
  std::thread sysmon([&] {
    while (!ready) std::this_thread::yield();
    for (const int event : events) EXPECT_EQ(::write(event, &one, sizeof one), 8);
    for (std::int64_t now = 1; have_run < readers; now += 11'000'000) {
      weft::rt::netpoll_backstop(now);
      std::this_thread::yield();
    }
  });
  std::vector<weft::thread> waiting;
  for (const int event : events) {
    waiting.emplace_back([&, event] {
      weft::io::poll_fd(event).wait_readable();
      ++have_run;
      have_run.notify_all();
      const weft::no_preempt alone;
      while (have_run < readers) sched_yield();
    });
  }
  while (weft::rt::sched.io_waiters.load(WEFT_ORDER(IO0, relaxed)) < readers) {  // order: relaxed
    weft::gosched();
  }
  const auto threads = [] {
    const weft::rt::inside here;
    const weft::rt::scoped_lock held(weft::rt::sched.lock);
    return weft::rt::sched.m_count;
  };
  weft::wait_group in_calls;
  std::atomic<int> inside{0};
  for (int started = 0; threads() > started + 1;) {  // but for this one all are in calls
    ++started;
    in_calls.go([&] {
      weft::runtime::blocking_for_long([&] {
        ++inside;
        for (int n = 0; (n = have_run) < readers;) have_run.wait(n);
      });
    });
    while (inside < started) sched_yield();  // another M takes it
  }
  ready = true;
  while (have_run < readers) sched_yield();
  in_calls.wait();
  for (auto& t : waiting) t.join();
  sysmon.join();
  for (const int event : events) ::close(event);
}

TEST_P(Netpoll, TheBackStopFindsAnMForAFreeP) {
  if (procs() == 1) return;  // no P is free
  run([] { expect_ps_for_news(1); });
}
TEST_P(Netpoll, TheBackStopFindsMsForFreePs) {
  if (procs() != 4) return;  // three are free, and one M would take one of three at a time
  run([] { expect_ps_for_news(3); });
}

// Nobody polls, because all who are asleep fell asleep before anybody waited, or nobody is asleep; and all Ps are in use. Once
// the back-stop has looked somebody does, and the next news waits for no further look.
TEST_P(Netpoll, TheBackStopHasSomebodyPoll) {
  std::atomic<bool> over{false};
  std::atomic<int> computing{0};
  const int event = eventfd(0, EFD_CLOEXEC);
  const std::uint64_t one = 1;
  std::thread sysmon([&] {
    while (computing < procs()) std::this_thread::yield();
    std::int64_t now = 1;
    EXPECT_TRUE(weft::test::eventually_hogging([&] {
      weft::rt::netpoll_backstop(now += 11'000'000);
      return weft::rt::sched.poll_asleep.load(std::memory_order_relaxed) != 0;
    }));
    EXPECT_EQ(::write(event, &one, sizeof one), 8);
    EXPECT_TRUE(weft::test::eventually_hogging([] { return !weft::rt::io_is_awaited(); }));
    over = true;
  });
  run([&] {
    weft::io::poll_fd p(event);
    weft::thread waits([&] { p.wait_readable(); });
    while (!weft::rt::io_is_awaited()) weft::gosched();
    weft::wait_group wg;
    for (int i = 1; i < procs(); ++i) {
      wg.go([&] {
        ++computing;
        while (!over) sched_yield();
      });
    }
    ++computing;
    while (!over) sched_yield();
    waits.join();
    wg.wait();
  });
  sysmon.join();
  ::close(event);
}

}  // namespace
