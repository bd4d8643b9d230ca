// The end of threads that used weft, and the end of the process.
//
// When exit() begins, goroutines must stop before the destructors of static objects run under their
// feet. An atexit handler comes too late: it runs in reverse order of registration, so after the
// destructors of all statics that were constructed later than it was registered. But glibc runs the
// exiting thread's thread_local destructors before any of them. So every thread that has used weft
// has such an entry: on the main thread and on Ms, which never end by themselves, it means exit().
// On other plain threads it means either exit() or the end of the thread, and only the frames above
// tell which; at the end of a thread, one less can wake somebody. An atexit handler is the net for
// exit() on threads that weft never saw.
//
// P1: once process_is_exiting(), no goroutine is scheduled any more, and weft's own state is never
// destroyed.
#include "sched/thread_exit.h"

#include <cstdlib>
#include <unistd.h>

#include "base/fatal.h"
#include "os/process.h"
#include "sched/freeze.h"
#include "sched/sched_api.h"
#include "sched/world.h"

namespace weft::rt {

namespace {

constinit pid_t boot_pid = 0;      // constant after boot
constinit atomic<int> exiting{0};  // the id of the thread that called exit()

constexpr std::int64_t kPatience = 10'000'000;  // for goroutines between two scheduling points

// A child of fork() has none of the runtime's threads, and perhaps a lock that one of them held.
bool in_forked_child() { return getpid() != boot_pid; }

void begin_process_exit() {
  if (in_forked_child()) {
    return;
  }
  wait_for_crash();  // whoever reports a panic ends the process, with its status [EXT-2]
  int nobody = 0;
  // order: relaxed, only the first one goes on; freeze_world() publishes it through sched.lock
  if (exiting.compare_exchange_strong(nobody, gettid(), WEFT_ORDER(PX0, relaxed),
                                      WEFT_ORDER(PX0, relaxed))) {
    const bool frozen = freeze_world(kPatience);
    wait_for_crash();
    if (!frozen) {
      freeze_stragglers();
      wait_for_crash();
    }
  }
}

void thread_ends(void*) {
  tsan_acquire(&boot_pid);  // libc frees what watch_thread_exit() made it allocate
  if (in_forked_child()) {
    return;
  }
  if (current_m() != nullptr || gettid() == getpid() || called_by_exit()) {
    begin_process_exit();
  } else {
    look_for_deadlock_soon();
  }
}

}  // namespace

void watch_thread_exit() {
  on_thread_end(thread_ends);
  tsan_release(&boot_pid);
}

bool process_is_exiting() {
  return exiting.load(WEFT_ORDER(PX0, relaxed)) != 0;  // order: relaxed, advisory
}

bool this_thread_exits() {
  return process_is_exiting() &&
         exiting.load(WEFT_ORDER(PX0, relaxed)) == gettid();  // order: relaxed, its own store
}

void watch_process_exit() {
  boot_pid = getpid();
  std::atexit(begin_process_exit);
}

}  // namespace weft::rt
