// The creation of an M takes long, while everybody else sleeps already: no deadlock.
//
// With five refusals it takes 15 ms, and those who sleep look for deadlocks after 2. The thread that
// creates it is the only one that can still act.
#include <thread>

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
