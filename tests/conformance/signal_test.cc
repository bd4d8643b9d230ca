// Go's os/signal: signals into channels.
#include <csignal>
#include <gtest/gtest.h>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/signal.h>
#include <weft/thread.h>

#include "support/fixture.h"

namespace {

class Signal : public weft::test::over_procs {
 protected:
  void TearDown() override {
    weft::signal::reset();
    over_procs::TearDown();
  }
};

TEST_P(Signal, ArrivesAtEveryChannelThatWantsIt) {
  run([] {
    weft::chan<int> a(1), b(4), c(4);
    weft::signal::notify(a, {SIGUSR1});
    weft::signal::notify(b, {SIGUSR1, SIGUSR2});
    weft::signal::notify(c, {SIGUSR2});
    ::raise(SIGUSR1);
    EXPECT_EQ(a.recv(), SIGUSR1);
    EXPECT_EQ(b.recv(), SIGUSR1);
    ::raise(SIGUSR2);
    EXPECT_EQ(b.recv(), SIGUSR2);
    EXPECT_EQ(c.recv(), SIGUSR2);
    EXPECT_EQ(a.size(), 0u);
  });
}

// A channel without room misses it; the others do not wait for it.
TEST_P(Signal, NobodyWaitsForAReceiver) {
  run([] {
    weft::chan<int> unbuffered, full(1), b(1);
    full.send(0);
    weft::signal::notify(unbuffered, {SIGUSR1});
    weft::signal::notify(full, {SIGUSR1});
    weft::signal::notify(b, {SIGUSR1});
    for (int i = 0; i < 3; ++i) {
      ::raise(SIGUSR1);
      EXPECT_EQ(b.recv(), SIGUSR1);
    }
    EXPECT_EQ(full.recv(), 0);
    EXPECT_EQ(full.size(), 0u);
  });
}

TEST_P(Signal, StopsAndComesBackToWhatItDid) {
  run([] {
    static volatile sig_atomic_t count = 0;
    struct sigaction mine = {};
    mine.sa_handler = [](int) { count = count + 1; };
    sigaction(SIGUSR1, &mine, nullptr);
    const int before = count;
    weft::chan<int> a(10);
    weft::signal::notify(a, {SIGUSR1});
    weft::signal::stop(a);
    ::raise(SIGUSR1);
    EXPECT_EQ(count, before + 1);
    EXPECT_EQ(a.size(), 0u);
    weft::signal::ignore({SIGUSR1});
    ::raise(SIGUSR1);
    EXPECT_EQ(count, before + 1);
    weft::signal::reset({SIGUSR1});
    ::raise(SIGUSR1);
    EXPECT_EQ(count, before + 2);
    ::signal(SIGUSR1, SIG_DFL);
  });
}

// Go waits for it, too: what arrived before stop() is in the channel after it.
TEST_P(Signal, WhatHasArrivedIsNotForgotten) {
  run([] {
    for (int i = 0; i < weft::test::scaled(200, 50); ++i) {
      weft::chan<int> c(1);
      weft::signal::notify(c, {SIGUSR1});
      ::raise(SIGUSR1);
      weft::signal::stop(c);
      ASSERT_EQ(c.size(), 1u) << i;
      EXPECT_EQ(c.recv(), SIGUSR1);
      weft::signal::notify(c, {SIGUSR2});
      ::raise(SIGUSR2);
      weft::signal::reset({SIGUSR2});
      ASSERT_EQ(c.size(), 1u) << i;
      EXPECT_EQ(c.recv(), SIGUSR2);
    }
  });
}

// Without a list: all of them.
TEST_P(Signal, AllThatCanBeCaught) {
  run([] {
    weft::chan<int> c(8);
    weft::signal::notify(c);
    for (int s : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD, SIGWINCH, SIGTSTP, SIGPIPE}) {
      ::raise(s);
      EXPECT_EQ(c.recv(), s);
    }
    weft::signal::stop(c);
    ::raise(SIGWINCH);  // is ignored, if nobody wants it
    EXPECT_EQ(c.size(), 0u);
    // … and those of the process itself still do what they do.
    struct sigaction fault = {};
    sigaction(SIGSEGV, nullptr, &fault);
    weft::signal::notify(c);
    struct sigaction now = {};
    sigaction(SIGSEGV, nullptr, &now);
    EXPECT_EQ(now.sa_sigaction, fault.sa_sigaction);
  });
}

TEST_P(Signal, SomeCannotBeHad) {
  run([] {
    weft::chan<int> a(1);
    for (int s : {SIGKILL, SIGSTOP, SIGSEGV, SIGURG, 0, -1, 65, 1000}) {
      std::error_code ec;
      weft::signal::notify(a, {s}, ec);
      EXPECT_EQ(ec, std::errc::invalid_argument) << s;
    }
    EXPECT_THROW(weft::signal::notify(nullptr, {SIGUSR1}), std::system_error);
  });
}

}  // namespace
