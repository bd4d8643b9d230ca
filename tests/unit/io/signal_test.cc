// signal::stop() and a thread that is in the handler: nothing is lost between the two.
#include <atomic>
#include <csignal>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/signal.h>

#include "os/test_hooks.h"
#include "support/fixture.h"

namespace {

using weft::rt::os::test_hooks;
using weft::test::eventually;

std::atomic<int> seen_by_us{0};
std::atomic<int> sender{0};

class SignalHandler : public weft::test::runtime_test {
 protected:
  void SetUp() override {
    runtime_test::SetUp();
    seen_by_us = 0;
    sender = 0;
    struct sigaction mine = {};
    mine.sa_sigaction = [](int, siginfo_t* info, void*) {
      seen_by_us.fetch_add(1);
      sender = info->si_pid;
    };
    mine.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &mine, nullptr);
  }
  void TearDown() override {
    test_hooks.reset();
    weft::signal::reset();
    ::signal(SIGUSR1, SIG_DFL);
    runtime_test::TearDown();
  }

  // A thread that stays in the handler, at that place, until go_on().
  void hold_at(int place) {
    test_hooks.hold_signals.set(place);
    thread_ = std::thread([] { ::raise(SIGUSR1); });
    ASSERT_TRUE(eventually([=] { return test_hooks.signals_held.get() == place; }));
  }
  void go_on() { test_hooks.hold_signals.set(0); }
  void join() { thread_.join(); }

  static bool is_restored() {
    struct sigaction now = {};
    sigaction(SIGUSR1, nullptr, &now);
    return (now.sa_flags & SA_ONSTACK) == 0;
  }

 private:
  std::thread thread_;
};

// stop() does not know of it, so it does what it would have done a little later.
TEST_F(SignalHandler, IsTooLateForTheChannel) {
  weft::run([&] {
    weft::chan<int> c(1);
    weft::signal::notify(c, {SIGUSR1});
    hold_at(1);
    weft::signal::stop(c);
    EXPECT_EQ(seen_by_us.load(), 0);
    go_on();
    join();
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(seen_by_us.load(), 1);
    EXPECT_EQ(sender.load(), ::getpid());
  });
}

TEST_F(SignalHandler, IsTooLateAndIgnored) {
  weft::run([&] {
    weft::chan<int> c(1);
    weft::signal::notify(c, {SIGUSR1});
    hold_at(1);
    weft::signal::ignore({SIGUSR1});
    go_on();
    join();
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(seen_by_us.load(), 0);
  });
}

TEST_F(SignalHandler, IsWaitedFor) {
  weft::run([&] {
    weft::chan<int> c(1);
    weft::signal::notify(c, {SIGUSR1});
    hold_at(2);
    std::thread stopper([&] { weft::signal::stop(c); });
    EXPECT_TRUE(eventually(is_restored));
    go_on();
    stopper.join();
    join();
    EXPECT_EQ(c.size(), 1u);
    EXPECT_EQ(seen_by_us.load(), 0);
  });
}

// Two channels want it: one that leaves gets what has arrived, too.
TEST_F(SignalHandler, IsWaitedForByOneOfTwo) {
  weft::run([&] {
    weft::chan<int> c(1), stays(1), begun;
    weft::signal::notify(c, {SIGUSR1});
    weft::signal::notify(stays, {SIGUSR1});
    hold_at(2);
    std::thread stopper([&] {
      begun.close();
      weft::signal::stop(c);
    });
    begun.recv();
    go_on();
    stopper.join();
    join();
    EXPECT_EQ(c.size(), 1u);
    EXPECT_EQ(stays.recv(), SIGUSR1);
    EXPECT_EQ(seen_by_us.load(), 0);
  });
}

}  // namespace
