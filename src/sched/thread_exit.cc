// The end of threads that used weft, and the end of the process.
//
// When exit() begins, goroutines must stop before the destructors of static objects run under their
// feet. An atexit handler comes too late: it runs in reverse order of registration, so after the
// destructors of all statics that were constructed later than it was registered. But glibc runs the
// exiting thread's thread_local destructors before any of them. So every thread that has used weft
// has such an entry: on the main thread and on Ms it means exit(). (An M whose thread ends has become a
// plain thread before: joining.cc.) On plain threads it means either exit() or the end of the thread, and
// only the frames above tell which; at the end of a thread, one less can wake somebody. An atexit handler
// is the net for exit() on threads that weft never saw.
//
// A goroutine that calls pthread_exit() would end a thread that belongs to others, too: that is a fatal
// error. It is told from exit() by the stack: pthread_exit() goes back to the thread's own.
//
// Two threads may call exit() at once, and not every C library makes the second one wait. Here the
// first one does all the work, and whoever comes later sleeps for ever: it must neither run the
// destructors before goroutines have stopped, nor hold up those who stop them.
//
// P1: once process_is_exiting(), no goroutine is scheduled any more, and weft's own state is never
// destroyed.
// P2: only the thread whose id is in `exiting` comes back from here into exit().
//     Otherwise it destroys statics that goroutines still use.
// P3: the goroutine that calls exit() has a P, and keeps it, from before process_is_exiting() (freeze_world()).
//     Otherwise whoever starts the world next leaves it stopped, and the exiting thread waits for a P for ever.
#include "sched/thread_exit.h"

#include <cstdlib>
#include <unistd.h>

#include "base/at_start.h"
#include "base/fatal.h"
#include "os/process.h"
#include "sched/foreign.h"
#include "sched/freeze.h"
#include "sched/leak_roots.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "sched/world.h"

namespace weft::rt {

namespace {

WEFT_SET_AT_START constinit pid_t boot_pid = 0;      // constant after boot
WEFT_SET_AT_START constinit atomic<int> exiting{0};  // the id of the thread that called exit()

constexpr std::int64_t kPatience = 10'000'000;  // for goroutines between two scheduling points

// A child of fork() has none of the runtime's threads, and perhaps a lock that one of them held.
bool in_forked_child() { return getpid() != boot_pid; }

// True: nobody else has called exit() before.
bool begins_exit() {
  int first = 0;
  // order: relaxed, only the first one goes on; freeze_world() publishes it through sched.lock
  const bool is_first = exiting.compare_exchange_strong(first, gettid(), WEFT_ORDER(PX0, relaxed),
                                                        WEFT_ORDER(PX0, relaxed));
  if (is_sysmon()) {
    handler_is_over();  // it does not return to where it began
  }
  return is_first;
}

void begin_process_exit() {
  if (in_forked_child()) {
    return;
  }
  wait_for_crash();  // whoever reports a panic ends the process, with its status [EXT-2]
  if (this_thread_exits()) {
    return;  // the net, after the thread's own entry
  }
  const world_at_exit world = freeze_world(begins_exit, kPatience);
  if (world == world_at_exit::frozen_by_another) {
    stand_aside();
  }
  wait_for_crash();
  if (world == world_at_exit::runs_partly || somebody_is_outside()) {
    freeze_stragglers();
    wait_for_crash();
  }
  show_leak_roots();
}

// The goroutine of this M has left its stack, and not by way of the scheduler.
WEFT_NO_ASAN bool goroutine_ended_thread() {
  const M* mp = current_m();
  const G* gp = mp == nullptr ? nullptr : mp->curg;
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  return gp != nullptr && (here < gp->stk.lo || here >= gp->stk.hi);
}

void thread_ends(void*) {
  tsan_acquire(&boot_pid);  // libc frees what watch_thread_exit() made it allocate
  if (in_forked_child()) {
    return;
  }
  if (goroutine_ended_thread()) {
    fatal("pthread_exit called by a goroutine", user_fault);
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

namespace {

// Every M is asleep or frozen, and every other thread waits inside weft. Ms that were frozen do not
// count: until now they have been let go again and again (freeze.cc).
bool nobody_will_wake_exit() {
  const inside here;
  const scoped_lock held(sched.lock);
  // An M, or sysmon in a handler, and counted as blocked
  const std::int32_t also_blocked = current_m() != nullptr || is_sysmon() ? 1 : 0;
  return sched.foreign.nobody_can_act(sched.m_count + sched.system_threads - also_blocked,
                                      count_tasks);
}

}  // namespace

void sleep_in_exit(waiter& w) {
  constexpr std::int64_t kSuspicion = 2'000'000'000;
  while (!w.event.sleep_for(kSuspicion)) {
    if (nobody_will_wake_exit()) {
      fatal("exit waits for a goroutine, and all goroutines have been stopped", user_fault);
    }
  }
}

void watch_process_exit() {
  boot_pid = getpid();
  find_exit();
  std::atexit(begin_process_exit);
}

}  // namespace weft::rt
