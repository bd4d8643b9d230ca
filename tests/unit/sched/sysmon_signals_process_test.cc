// Signals that are sent to the process, and that no other thread takes: sysmon does. Each in a process of its own.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <pthread.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "os/process.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "support/child_suite.h"
#include "support/preemptions.h"
#include "support/tasks.h"

namespace {

using namespace std::chrono_literals;

constexpr int kRight = 3;

class SysmonSignals : public testing::Test {
 protected:
  static void expect(const char* child) {
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=2"});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

std::atomic<int> taken{0};
std::atomic<long> sysmon_tid{0};
void take(int) {
  if (weft::rt::is_sysmon()) sysmon_tid = weft::test::thread_now();
  ++taken;
}

// True: it has been taken.
bool send(int signal) {
  const int before = taken;
  kill(getpid(), signal);
  return weft::test::eventually_hogging([&] { return taken > before; });
}

// Ms have the signals open from their first steps on.
bool ms_are_on_their_way() {
  const weft::rt::inside here;
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.spares_coming != 0 ||
         weft::rt::sched.creators.load(WEFT_ORDER(CT0, relaxed)) != 0;  // order: relaxed, a count
}

bool others_take(int signal) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const int tid = std::stoi(task.path().filename().string());
    if (tid != sysmon_tid && !weft::rt::task_blocks(tid, signal)) return true;
  }
  return false;
}

void block(const sigset_t& signals) { pthread_sigmask(SIG_BLOCK, &signals, nullptr); }

// The calling goroutine and more and more others lock their threads and block the signals there, until only sysmon is
// left for them.
// (SIGUSR1 alone does not tell: whoever is still in its handler blocks it.)
bool leave_to_sysmon(const sigset_t& signals, int also) {
  static weft::chan<int> never;
  weft::runtime::lock_os_thread();
  block(signals);
  for (;;) {
    if (!send(SIGUSR1)) return false;
    if (sysmon_tid != 0 && !ms_are_on_their_way() && !others_take(SIGUSR1) && !others_take(also))
      return true;
    weft::chan<int> blocked;
    weft::go([&] {
      weft::runtime::lock_os_thread();
      block(signals);
      blocked.send(0);
      never.recv();
    });
    blocked.recv();
  }
}

// SIGUSR1, for which there is a handler, and another one. The main thread, which the kernel would prefer, blocks them
// when the runtime has already seen that it does not.
sigset_t blocked_by_main(int also) {
  static_cast<void>(weft::runtime::gomaxprocs());
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, also);
  std::signal(SIGUSR1, take);
  block(signals);
  return signals;
}

// f() when nobody but sysmon can take them.
template <class F>
int with_sysmon_alone(int also, F f) {
  const sigset_t signals = blocked_by_main(also);
  return weft::run([&] { return leave_to_sysmon(signals, also) ? f() : 1; });
}

// Again and again, beside one who computes.
WEFT_CHILD(takes) {
  return with_sysmon_alone(SIGUSR2, [] {
    for (int i = 0; i < 50; ++i) {
      if (!send(SIGUSR1)) return 1;
    }
    return kRight;
  });
}
TEST_F(SysmonSignals, AreTaken) { expect("takes"); }

// … and from its deep sleep, in a process in which everybody is parked.
WEFT_CHILD(takes_asleep) {
  static std::atomic<bool> alone{false};
  const sigset_t signals = blocked_by_main(SIGUSR2);
  std::thread([=] {
    weft::run([&] {
      alone = leave_to_sysmon(signals, SIGUSR2);
      weft::chan<int>().recv();
    });
  }).detach();
  if (!weft::test::eventually_hogging([] { return alone.load(); })) _exit(2);
  for (int i = 0; i < 20; ++i) {
    if (!weft::test::eventually_hogging([] { return weft::rt::sysmon_sleeps(); })) _exit(2);
    if (!send(SIGUSR1)) _exit(1);
  }
  _exit(kRight);
}
TEST_F(SysmonSignals, AreTakenInItsSleep) { expect("takes_asleep"); }

// Other people's SIGURG goes to the handler that was there before weft's.
WEFT_CHILD(chains) {
  std::signal(SIGURG, take);
  return with_sysmon_alone(SIGURG, [] { return send(SIGURG) ? kRight : 1; });
}
TEST_F(SysmonSignals, ArePassedOn) { expect("chains"); }

WEFT_CHILD(reports) {
  return with_sysmon_alone(SIGQUIT, [] {
    kill(getpid(), SIGQUIT);
    static_cast<void>(weft::test::eventually_hogging([] { return false; }));
    return 1;
  });
}
TEST_F(SysmonSignals, ReportOnQuit) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "what reports look like";
  const auto r = weft::test::run_child("reports", {"WEFTMAXPROCS=2"});
  EXPECT_EQ(r.status, 2) << r.output;
  EXPECT_NE(r.output.find("SIGQUIT: quit"), std::string::npos) << r.output;
  EXPECT_NE(r.output.find("[sysmon]"), std::string::npos) << r.output;
}

// exit() in a handler: goroutines stand still, as in any other exit(), though their guardian is the one that exits. It
// does not sleep meanwhile, or the guardian would let them go.
std::atomic<long> rounds{0};
WEFT_CHILD(exits) {
  std::signal(SIGUSR2, [](int) { std::exit(weft::rt::is_sysmon() ? kRight : 1); });
  std::atexit([] {
    const long before = rounds;
    const auto until = weft::test::test_clock::now() + 20ms;
    while (weft::test::test_clock::now() < until) {
    }
    if (rounds != before) _exit(2);
  });
  return with_sysmon_alone(SIGUSR2, [] {
    kill(getpid(), SIGUSR2);
    for (;;) ++rounds;
    return 1;
  });
}
TEST_F(SysmonSignals, MayEndTheProcess) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan reports what handlers should not call";
  expect("exits");
}

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
