// Handlers of the program's that sysmon runs, and that wait inside weft there: what is counted meanwhile, and that all of it
// is paid back in the end. Each in a process of its own.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <sched.h>
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
using weft::test::eventually_hogging;

constexpr int kRight = 3;

class SysmonHandlers : public testing::Test {
 protected:
  void SetUp() override {
    if (weft::test::emulated()) GTEST_SKIP() << "the emulator has threads of its own";
    if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan reports what handlers should not call";
  }
  static void expect(const char* child) {
    const auto r = weft::test::run_child(child, {"WEFTMAXPROCS=2"});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

std::atomic<long> sysmon_tid{0};  // of whoever is in a handler
std::atomic<int> through{0};      // handlers that have waited
std::atomic<bool> may_go{false};  // and may return

weft::chan<int>*told, *also_told;

// Everybody gets it; handlers do nothing but on sysmon.
void send_to_sysmon(int signal) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    syscall(SYS_tgkill, getpid(), std::stoi(task.path().filename().string()), signal);
  }
}

bool sysmon_waits() {
  return eventually_hogging([] {
    return sysmon_tid != 0 && weft::test::task_status(sysmon_tid, "State:").starts_with('S');
  });
}
bool has_settled() {
  return eventually_hogging([] { return weft::rt::sched.foreign.blocked() == 0; });
}
bool have_waited(int handlers) {
  return eventually_hogging([=] { return through == handlers; });
}

bool only_main_can_act() {
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::test::task_count() == weft::rt::sched.m_count + weft::rt::sched.system_threads + 1;
}
bool is_dead() {
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  return weft::rt::sched.foreign.nobody_can_act(
      weft::rt::sched.m_count + weft::rt::sched.system_threads, weft::rt::count_tasks);
}
// As if the main thread waited for what a handler is about to do.
bool would_be_dead() {
  weft::rt::sched.foreign.falls_asleep();
  const bool dead = is_dead();
  weft::rt::sched.foreign.is_woken();
  return dead;
}

// The runtime is there, and nobody else.
bool begin() {
  told = new weft::chan<int>();
  also_told = new weft::chan<int>();
  weft::thread([] {}).join();  // there is a sysmon
  return eventually_hogging(only_main_can_act);
}

// Waits with f, and stays.
template <class F>
void wait_on_sysmon(F f) {
  if (!weft::rt::is_sysmon()) return;
  sysmon_tid = weft::test::thread_now();
  f();
  ++through;
  while (!may_go) sched_yield();
}

// sysmon is one of the system's threads still, and not one of the program's who wait. Here the main thread can act, so that
// there is no deadlock; nor is there once the handler goes on, and may act itself.
WEFT_CHILD(waits) {
  std::signal(SIGUSR2, [](int) { wait_on_sysmon([] { told->recv(); }); });
  if (!begin()) return 1;
  send_to_sysmon(SIGUSR2);
  if (!sysmon_waits() || is_dead()) return 1;
  told->send(1);
  if (!have_waited(1) || would_be_dead()) return 1;
  may_go = true;
  return has_settled() ? kRight : 1;
}
TEST_F(SysmonHandlers, MayWait) { expect("waits"); }

// With a limit it may act even while it waits. What it waits for comes …
WEFT_CHILD(waits_for_a_while) {
  std::signal(SIGUSR2, [](int) { wait_on_sysmon([] { told->recv_for(1h); }); });
  if (!begin()) return 1;
  send_to_sysmon(SIGUSR2);
  if (!sysmon_waits() || is_dead() || would_be_dead()) return 1;
  told->send(1);
  if (!have_waited(1) || would_be_dead()) return 1;
  may_go = true;
  return has_settled() ? kRight : 1;
}
TEST_F(SysmonHandlers, MayWaitWithALimit) { expect("waits_for_a_while"); }

// … or does not.
WEFT_CHILD(waits_too_long) {
  std::signal(SIGUSR2, [](int) { wait_on_sysmon([] { told->recv_for(1ms); }); });
  if (!begin()) return 1;
  send_to_sysmon(SIGUSR2);
  if (!have_waited(1) || would_be_dead()) return 1;
  may_go = true;
  return has_settled() ? kRight : 1;
}
TEST_F(SysmonHandlers, MayWaitInVain) { expect("waits_too_long"); }

// One handler interrupts the other, which waits; both have something to pay back, when the first is over.
WEFT_CHILD(waits_twice) {
  std::signal(SIGUSR2, [](int) { wait_on_sysmon([] { told->recv(); }); });
  std::signal(SIGUSR1, [](int) { wait_on_sysmon([] { also_told->recv(); }); });
  if (!begin()) return 1;
  send_to_sysmon(SIGUSR2);
  if (!sysmon_waits()) return 1;
  const long outer = sysmon_tid.exchange(0);
  send_to_sysmon(SIGUSR1);
  if (!sysmon_waits() || sysmon_tid != outer || is_dead()) return 1;
  also_told->send(1);
  if (!have_waited(1) || would_be_dead()) return 1;
  told->send(1);
  may_go = true;
  return have_waited(2) && has_settled() ? kRight : 1;
}
TEST_F(SysmonHandlers, MayInterruptEachOther) { expect("waits_twice"); }

// It never returns, since it calls exit(): what it owes is paid all the same, or exit() would not see that it waits in vain.
WEFT_CHILD(waits_and_exits) {
  std::signal(SIGUSR2, [](int) {
    if (!weft::rt::is_sysmon()) return;
    told->recv();
    std::exit(0);
  });
  std::atexit([] { _exit(weft::rt::sched.foreign.blocked() == 0 ? kRight : 1); });
  if (!begin()) return 1;
  send_to_sysmon(SIGUSR2);
  told->send(1);
  for (;;) pause();
}
TEST_F(SysmonHandlers, MayWaitAndEndTheProcess) { expect("waits_and_exits"); }

// Whoever looks for deadlocks has found that sysmon may act, and would not look again for long: it is told when that is over.
long looks_of(long tid) {
  return std::stol("0" + weft::test::task_status(tid, "voluntary_ctxt_switches:"));
}
long looks_for_deadlock() {
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  for (weft::rt::M* mp = weft::rt::sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (mp->watches_deadlock) return mp->tid;
  }
  return 0;
}
WEFT_CHILD(waits_while_others_look) {
  std::signal(SIGUSR2, [](int) { wait_on_sysmon([] { told->recv_for(1ms); }); });
  if (!begin()) return 1;
  may_go = true;
  std::thread([] { weft::run([] { weft::chan<int>().recv(); }); }).detach();
  // Each pause is twice as long as the one before. Three looks follow each other closely only if it begins anew.
  for (int round = 0; round < 5; ++round) {
    long tid = 0;
    if (!eventually_hogging([&] { return (tid = looks_for_deadlock()) != 0; })) break;
    const long first = looks_of(tid);
    if (!eventually_hogging([&] { return looks_of(tid) >= first + 8; })) break;
    const long before = looks_of(tid);
    const auto until = weft::test::test_clock::now() + 600ms;
    send_to_sysmon(SIGUSR2);
    while (weft::test::test_clock::now() < until) {
      if (looks_of(tid) >= before + 4) _exit(kRight);
    }
  }
  _exit(1);
}
TEST_F(SysmonHandlers, MayWaitWhileOthersLookForDeadlocks) { expect("waits_while_others_look"); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
