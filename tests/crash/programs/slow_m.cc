// The creation of an M takes long, or sysmon has what is left to do, while everybody else sleeps already: no deadlock.
//
// With five refusals it takes 15 ms, and those who sleep look for deadlocks after 2. The thread that
// creates it is the only one that can still act.
#include <chrono>
#include <thread>
#include <unistd.h>

#include <weft/weft.h>

#include "crash/programs/program.h"
#include "os/test_hooks.h"

namespace {

constexpr int kRefusals = 5;

// Nobody but the new goroutine calls done(), and the thread that starts it ends at once.
std::thread start_slowly(weft::wait_group& wg) {
  weft::rt::os::test_hooks.force_thread_eagain_count.set(kRefusals);
  return std::thread([&wg] { weft::go([&wg] { wg.done(); }); });
}

}  // namespace

// The first M of all, for a plain thread that waits.
CRASH_PROGRAM(slow_first_m) {
  weft::wait_group wg;
  wg.add();
  std::thread starter = start_slowly(wg);
  wg.wait();
  starter.join();
  return 7;
}

// A second M: the first is locked to a goroutine that waits.
CRASH_PROGRAM(slow_m_beside_locked_main) {
  return weft::run(
      [] {
        weft::wait_group wg;
        wg.add();
        std::thread starter = start_slowly(wg);
        wg.wait();
        starter.join();
        return 7;
      },
      {.lock_main_thread = true});
}

// A second M, created by the first one, which then sleeps.
CRASH_PROGRAM(slow_m_by_locked_main) {
  return weft::run(
      [] {
        weft::wait_group wg;
        weft::rt::os::test_hooks.force_thread_eagain_count.set(kRefusals);
        wg.go([] {});
        wg.wait();
        return 7;
      },
      {.lock_main_thread = true});
}

// All that is left to do is in the hands of sysmon: Ps whose goroutines block, and who was frozen for them.
CRASH_PROGRAM(last_work_is_sysmons) {
  for (int round = 0; round < 60; ++round) {
    weft::run([round] {
      weft::wait_group wg;
      for (int i = 0; i < 2; ++i) {
        const int us = 1000 + (round * 37 + i * 501) % 6000;
        wg.go([us] { usleep(static_cast<useconds_t>(us)); });  // sleep-ok: the call that blocks
      }
      wg.go([] {
        const auto until = weft::clock::now() + std::chrono::milliseconds(2);
        while (weft::clock::now() < until) {
        }
      });
      wg.wait();
    });
  }
  return 7;
}
