// Go's os/signal: "If Notify is called for a blocked signal, it will be unblocked", and blocked again when nobody wants it
// any more. Here by the thread that sends signals into channels, whatever all others block. Signals that nobody has
// asked for stay with the program, which may wait for them in other ways.
//
// Each is a program of its own: what threads block is decided before weft is first used.
#include <csignal>
#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <thread>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/run.h>
#include <weft/signal.h>

#include "support/child_suite.h"

namespace {

namespace signals = weft::signal;
using weft::test::eventually;

constexpr int kAllIsWell = 7;

sigset_t set_of(std::initializer_list<int> list) {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : list) sigaddset(&set, s);
  return set;
}

// By all threads of the program: this is the only one.
void block(std::initializer_list<int> list) {
  const sigset_t set = set_of(list);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// To the process, not to a thread of it, as raise() would.
void send(int s) { ::kill(::getpid(), s); }

bool is_pending(int s) {
  sigset_t set;
  sigpending(&set);
  return sigismember(&set, s) == 1;
}

bool arrives(const weft::chan<int>& c, int s) {
  return eventually([&] { return c.size() != 0; }) && c.recv() == s;
}

WEFT_CHILD(wants_what_is_blocked) {
  block({SIGUSR1, SIGUSR2, SIGTERM});
  return weft::run([] {
    weft::chan<int> c(1);
    signals::notify(c, {SIGUSR1});
    for (int i = 0; i < 3; ++i) {
      send(SIGUSR1);
      if (!arrives(c, SIGUSR1)) return 1;
    }
    send(SIGUSR2);  // would end the process
    if (!is_pending(SIGUSR2)) return 2;
    signals::notify(c, {SIGUSR2});  // and what is pending is had
    if (!arrives(c, SIGUSR2)) return 3;
    send(SIGTERM);
    return is_pending(SIGTERM) ? kAllIsWell : 4;
  });
}

// It would end the process, were it not blocked: it has no handler any more.
template <class Leave>
int leaves_and_comes_back(Leave leave) {
  weft::chan<int> c(1);
  for (int i = 0; i < 3; ++i) {
    signals::notify(c, {SIGUSR1});
    if (i != 0 && !arrives(c, SIGUSR1)) return 1;  // what came while it was blocked
    send(SIGUSR1);
    if (!arrives(c, SIGUSR1)) return 2;
    leave(c);
    send(SIGUSR1);
    if (!is_pending(SIGUSR1) || c.size() != 0) return 3;
  }
  return kAllIsWell;
}

WEFT_CHILD(stops_and_blocks) {
  block({SIGUSR1});
  return weft::run([] { return leaves_and_comes_back([](auto& c) { signals::stop(c); }); });
}
WEFT_CHILD(resets_and_blocks) {
  block({SIGUSR1});
  return weft::run([] { return leaves_and_comes_back([](auto&) { signals::reset({SIGUSR1}); }); });
}
WEFT_CHILD(ignores_and_blocks) {
  block({SIGUSR1});
  return weft::run([] { return leaves_and_comes_back([](auto&) { signals::ignore({SIGUSR1}); }); });
}
WEFT_CHILD(resets_all_and_blocks) {
  block({SIGUSR1});
  return weft::run([] { return leaves_and_comes_back([](auto&) { signals::reset(); }); });
}

WEFT_CHILD(one_of_two_stops) {
  block({SIGUSR1});
  return weft::run([] {
    weft::chan<int> leaves(1), stays(1);
    signals::notify(leaves, {SIGUSR1});
    signals::notify(stays, {SIGUSR1});
    signals::stop(leaves);
    send(SIGUSR1);
    if (!arrives(stays, SIGUSR1) || leaves.size() != 0) return 1;
    signals::stop(stays);
    send(SIGUSR1);
    return is_pending(SIGUSR1) ? kAllIsWell : 2;
  });
}

// What was sent before stop() is in the channel after it, as ever.
WEFT_CHILD(stops_at_once) {
  block({SIGUSR1});
  return weft::run([] {
    weft::chan<int> c(1);
    for (int i = 0; i < weft::test::scaled(300, 30); ++i) {
      signals::notify(c, {SIGUSR1});
      send(SIGUSR1);
      signals::stop(c);
      if (c.size() != 1 || c.recv() != SIGUSR1 || is_pending(SIGUSR1)) return 1;
    }
    return kAllIsWell;
  });
}

// Everything that is wanted comes and goes, while the thread that sends has work to do.
WEFT_CHILD(changes_under_traffic) {
  block({SIGUSR1, SIGUSR2});
  return weft::run([] {
    weft::chan<int> always(1), now_and_then(1);
    signals::notify(always, {SIGUSR1});
    for (int i = 0; i < weft::test::scaled(300, 30); ++i) {
      send(SIGUSR1);
      signals::notify(now_and_then, {SIGUSR2});
      send(SIGUSR2);
      if (!arrives(always, SIGUSR1)) return 1;
      signals::stop(now_and_then);
      if (now_and_then.size() != 1 || now_and_then.recv() != SIGUSR2) return 2;
    }
    return kAllIsWell;
  });
}

// The program waits for others as it likes.
WEFT_CHILD(waits_by_itself) {
  block({SIGUSR1, SIGUSR2, SIGTERM});
  return weft::run([] {
    weft::chan<int> c(1), waited(1);
    signals::notify(c, {SIGUSR1});
    const sigset_t term = set_of({SIGTERM}), usr2 = set_of({SIGUSR2});
    const int fd = ::signalfd(-1, &term, SFD_CLOEXEC);
    constexpr int kTimes = 20;
    std::thread waits([&] {
      for (int i = 0; i < kTimes; ++i) {
        int s = 0;
        sigwait(&usr2, &s);
        waited.send(s);
      }
    });
    int wrong = 0;
    for (int i = 0; i < kTimes; ++i) {
      send(SIGUSR1);
      send(SIGUSR2);
      send(SIGTERM);
      signalfd_siginfo info{};
      wrong += ::read(fd, &info, sizeof info) != sizeof info || info.ssi_signo != SIGTERM;
      wrong += !arrives(waited, SIGUSR2);
      wrong += !arrives(c, SIGUSR1);
    }
    waits.join();
    ::close(fd);
    return wrong == 0 ? kAllIsWell : 1;
  });
}

class SignalBlocked : public weft::test::children_over_procs {};

TEST_P(SignalBlocked, ArrivesAllTheSame) { expect("wants_what_is_blocked", kAllIsWell, ""); }
TEST_P(SignalBlocked, IsBlockedAgainByStop) { expect("stops_and_blocks", kAllIsWell, ""); }
TEST_P(SignalBlocked, IsBlockedAgainByReset) {
  expect("resets_and_blocks", kAllIsWell, "");
  expect("resets_all_and_blocks", kAllIsWell, "");
}
TEST_P(SignalBlocked, IsBlockedAgainByIgnore) { expect("ignores_and_blocks", kAllIsWell, ""); }
TEST_P(SignalBlocked, StaysAsLongAsAnybodyWantsIt) { expect("one_of_two_stops", kAllIsWell, ""); }
TEST_P(SignalBlocked, IsNotForgottenByStop) { expect("stops_at_once", kAllIsWell, ""); }
TEST_P(SignalBlocked, ComesAndGoesUnderTraffic) { expect("changes_under_traffic", kAllIsWell, ""); }
TEST_P(SignalBlocked, OthersAreLeftToTheProgram) { expect("waits_by_itself", kAllIsWell, ""); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
