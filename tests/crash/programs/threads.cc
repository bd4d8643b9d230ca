// Goroutines locked to threads that end or wait for ever, and goroutines that misuse their thread.
#include <atomic>
#include <pthread.h>

#include <weft/weft.h>

#include "crash/programs/program.h"

namespace {

weft::wait_group never;

[[gnu::noinline]] void wait_locked() {
  weft::runtime::lock_os_thread();
  never.wait();
  asm volatile("");
}

}  // namespace

// [DD-7]
CRASH_PROGRAM(deadlock_locked) {
  never.add();
  return weft::run([] { wait_locked(); });
}
CRASH_PROGRAM(deadlock_two_locked) {
  never.add();
  return weft::run(
      [] {
        weft::go(wait_locked);
        weft::gosched();
        wait_locked();
      },
      {.lock_main_thread = true});
}
// The thread of the only goroutine that ran is gone when everybody else turns out to be asleep.
CRASH_PROGRAM(deadlock_after_locked_end) {
  never.add();
  return weft::run([] {
    weft::go([] { weft::runtime::lock_os_thread(); });
    never.wait();
  });
}
// … and there is no goroutine any more.
CRASH_PROGRAM(goexit_locked) {
  return weft::run([] {
    weft::runtime::lock_os_thread();
    weft::goexit();
  });
}

CRASH_PROGRAM(pthread_exit_by_goroutine) {
  return weft::run([] { pthread_exit(nullptr); });
}
