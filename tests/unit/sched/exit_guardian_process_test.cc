// exit() while goroutines compute: somebody guards those who are frozen, whoever exits, and whatever sysmon or the spawner
// are at (freeze.cc). Each in a process of its own.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <mutex>
#include <sched.h>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "os/process.h"
#include "os/test_hooks.h"
#include "sched/freeze.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"
#include "support/child_suite.h"
#include "support/patience.h"

namespace {

using namespace std::chrono_literals;
using weft::rt::os::test_hooks;
using weft::test::eventually_hogging;
using weft::test::test_clock;

constexpr int kRight = 3;

class ExitGuardian : public testing::Test {
 protected:
  void SetUp() override {
    if (WEFT_TEST_TSAN) GTEST_SKIP() << "TSan reports what handlers should not call";
  }
  static void expect(const char* child, const char* procs = "2") {
    const auto r = weft::test::run_child(child, {std::string("WEFTMAXPROCS=") + procs});
    EXPECT_EQ(r.status, kRight) << r.output;
  }
};

void compute(std::chrono::milliseconds d) {
  const auto until = test_clock::now() + d;
  while (test_clock::now() < until) {
  }
}

// Each thread gets it, and its handler asks who it is: only sysmon knows its number.
void send_to_all(int signal) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    syscall(SYS_tgkill, getpid(), std::stoi(task.path().filename().string()), signal);
  }
}

// Who computes never sleeps, unless it is frozen. This does not sleep either, or the guardian would let it go. Unless nobody has
// come in time to guard it, on a machine that is busy: then it runs, and whoever comes late freezes it while this sleeps.
std::atomic<int> hog{0};  // its thread
void hog_stands_still() {
  const bool still = eventually_hogging([] {
    if (weft::rt::task_state(hog) == 'S') return true;
    compute(5ms);
    if (weft::rt::task_state(hog) == 'S') return true;
    std::this_thread::sleep_for(20ms);  // sleep-ok: as above
    return false;
  });
  if (!still) _exit(2);
}
void compute_for_ever() {
  hog = gettid();
  for (;;) {
  }
}

// A goroutine computes with the lock until exit() wants it.
std::mutex lock;
std::atomic<bool> wanted{false};
void compute_with_lock() {
  lock.lock();
  hog = gettid();
  while (!wanted) {
  }
  lock.unlock();
  compute_for_ever();
}
void want_lock() {
  wanted = true;
  const std::lock_guard held(lock);
}

// One who creates a thread waits, as if for a lock of libc's.
void lock_libc() { test_hooks.hold_threads.set(1); }
void unlock_libc() { test_hooks.hold_threads.set(0); }
// The spawner is at it, and returns when that is unlocked.
bool spawner_waits() {
  {
    const weft::rt::inside here;
    const weft::rt::scoped_lock held(weft::rt::sched.lock);
    weft::rt::request_spare_ms_locked(weft::rt::sched.idle_m_count + weft::rt::sched.spares_coming +
                                      1);
  }
  return eventually_hogging([] { return test_hooks.threads_held.get() != 0; });
}

// It is created last, and goroutines do not wait for it.
bool sysmon_is_there() {
  return eventually_hogging([] {
    const weft::rt::inside here;
    const weft::rt::scoped_lock held(weft::rt::sched.lock);
    return weft::rt::sched.system_threads == 2;
  });
}

// f() in a goroutine, beside one that computes.
template <class F>
int beside(void (*computes)(), F f) {
  return weft::run([&] {
    weft::go(computes);
    return sysmon_is_there() && eventually_hogging([] { return hog != 0; }) ? f() : 1;
  });
}

// -- two who exit, one of them in a handler on sysmon

std::atomic<bool> in_handler{false};
void exit_second(int) {
  if (!weft::rt::is_sysmon()) return;
  in_handler = true;
  while (!weft::rt::process_is_exiting()) sched_yield();
  std::exit(1);
}
[[noreturn]] void exit_with_sysmon() {
  send_to_all(SIGUSR2);
  if (!eventually_hogging([] { return in_handler.load(); })) _exit(1);
  std::exit(kRight);
}

WEFT_CHILD(sysmon_second) {
  std::signal(SIGUSR2, exit_second);
  std::atexit(want_lock);
  std::atexit(hog_stands_still);
  return beside(compute_with_lock, []() -> int { exit_with_sysmon(); });
}
TEST_F(ExitGuardian, SysmonStandsAside) { expect("sysmon_second"); }

// It is one of those who will wake nobody: that exit() waits for them is reported.
WEFT_CHILD(waits_beside_sysmon) {
  std::signal(SIGUSR2, exit_second);
  std::atexit([] { weft::chan<int>(1).recv(); });
  return weft::run([] {
    weft::rt::start_system_threads();  // nobody else does, where no goroutine is started
    if (!sysmon_is_there()) _exit(1);  // exit() without it would be reported, too
    exit_with_sysmon();
  });
}
TEST_F(ExitGuardian, SysmonIsCountedOnce) {
  const auto r = weft::test::run_child("waits_beside_sysmon");
  EXPECT_EQ(r.status, 2) << r.output;
  EXPECT_NE(r.output.find("exit waits for a goroutine"), std::string::npos) << r.output;
}

void exit_first(int) {
  if (weft::rt::is_sysmon()) std::exit(kRight);
}
WEFT_CHILD(sysmon_first) {
  std::signal(SIGUSR2, exit_first);
  std::atexit(want_lock);
  std::atexit(hog_stands_still);
  return beside(compute_with_lock, [] {
    send_to_all(SIGUSR2);
    if (!eventually_hogging(weft::rt::process_is_exiting)) return 1;
    std::exit(1);
  });
}
TEST_F(ExitGuardian, MainStandsAside) { expect("sysmon_first"); }

// -- the spawner guards

WEFT_CHILD(spawner_guards) {
  std::signal(SIGUSR2, exit_first);
  std::atexit(want_lock);  // asleep, until its holder is let go
  std::atexit(hog_stands_still);
  return beside(compute_with_lock, [] {
    send_to_all(SIGUSR2);
    return eventually_hogging([] { return false; }) ? 0 : 1;
  });
}
TEST_F(ExitGuardian, SpawnerLetsTheHolderGo) { expect("spawner_guards"); }

// It is asked while it creates a thread.
WEFT_CHILD(spawner_is_busy) {
  std::signal(SIGUSR2, exit_first);
  std::atexit(hog_stands_still);
  std::thread([] {
    while (!weft::rt::freezing_for_exit()) sched_yield();
    compute(10ms);  // it is asked meanwhile; or it is roused later, which is right, too
    unlock_libc();
  }).detach();
  return beside(compute_for_ever, [] {
    lock_libc();
    if (!spawner_waits()) return 1;
    send_to_all(SIGUSR2);
    return eventually_hogging([] { return false; }) ? 0 : 1;
  });
}
TEST_F(ExitGuardian, SpawnerComesWhenItIsDone) { expect("spawner_is_busy"); }

// -- sysmon guards, the spawner cannot

WEFT_CHILD(signal_to_guardian) {
  std::signal(SIGUSR2, [](int) {
    if (weft::rt::is_sysmon()) std::exit(1);
  });
  std::atexit([] {
    hog_stands_still();  // so that the guardian is there
    send_to_all(SIGUSR2);
    want_lock();
  });
  return beside(compute_with_lock, [] {
    lock_libc();
    if (spawner_waits()) std::exit(kRight);
    return 1;
  });
}
TEST_F(ExitGuardian, TakesNoSignals) { expect("signal_to_guardian"); }

// -- nobody does: the spawner waits for what a goroutine holds whom preemption has frozen

std::atomic<weft::rt::G*> holder{nullptr};
void compute_with_libc() {
  holder = weft::rt::current_goroutine();
  lock_libc();
  hog = gettid();
  while (!wanted) {
  }
  unlock_libc();
  compute_for_ever();
}
bool holder_is_frozen() {
  const weft::rt::scoped_lock held(weft::rt::sched.lock);
  for (const weft::rt::M* mp = weft::rt::sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (mp->frozen_outside && mp->curg == holder) return true;
  }
  return false;
}
WEFT_CHILD(nobody_guards) {
  std::signal(SIGUSR2, [](int) {  // nobody is frozen or let go while sysmon is here
    if (weft::rt::is_sysmon() && holder_is_frozen()) std::exit(kRight);
  });
  std::atexit([] {
    wanted = true;
    if (!eventually_hogging([] { return test_hooks.hold_threads.get() == 0; })) _exit(2);
  });
  return beside(compute_with_libc, [] {
    if (!spawner_waits()) return 1;
    static_cast<void>(eventually_hogging([] {
      send_to_all(SIGUSR2);
      compute(1ms);
      return false;
    }));
    return 1;
  });
}
TEST_F(ExitGuardian, HolderGoesOnIfNobodyGuards) { expect("nobody_guards", "1"); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
