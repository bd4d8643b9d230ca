// Making Ms, threads of the runtime, and ending them.
//
// A thread ends when a goroutine ends that was locked to it: the user may have done anything to it. Once
// it has left its M it is a plain thread, on which destructors of thread_locals still run and may
// use weft.
//
// How an M joins the others and leaves them is in joining.cc.
//
// Go: runtime/proc.go newm, mstart1, mcommoninit, checkmcount
#include "os/thread.h"

#include <cerrno>
#include <pthread.h>
#include <sys/prctl.h>
#include <utility>

#include "base/fatal.h"
#include "base/print.h"
#include "gmp/arena.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/test_hooks.h"
#include "sched/chaos.h"
#include "sched/scavenger.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

[[noreturn]] void thread_creation_failed(int error) {
  sched.lock.lock();
  const std::int32_t have = sched.m_count - 1;
  sched.lock.unlock();
  {
    printer out;
    out.str("runtime: failed to create new OS thread (have ").dec(have);
    out.str(" already; errno=").dec(error).str(")\n");
    if (error == EAGAIN) {
      out.str("runtime: may need to increase max user processes (ulimit -u)\n");
    }
  }
  fatal("newosproc");
}

// Where every M's thread begins. [M-2]
void* m_main(void* arg) {
  auto* mp = static_cast<M*>(arg);
  bind_thread(mp);
  pthread_sigmask(SIG_SETMASK, &sched.initial_mask, nullptr);
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // ns; by default timers may be 50 us late
  P* pp = mp->nextp;
  mp->nextp = nullptr;
  if (pp != nullptr) {
    sched.creators.fetch_sub(1, WEFT_ORDER(CT0, relaxed));  // order: relaxed, it hands nothing over
    acquire_p(mp, pp);
  } else {
    join_idle_ms(mp);
  }
  schedule(mp);
  leave_m(mp);
  return nullptr;
}

}  // namespace

void exceed_thread_limit(std::int32_t limit) {
  static constinit atomic<bool> said{false};
  // order: relaxed, it elects who says so, and ends the process: where the limit is lowered two may find that at once
  if (said.exchange(true, WEFT_ORDER(TL0, relaxed))) {
    for (note never;;) {
      never.sleep();
    }
  }
  {
    printer out;
    out.str("runtime: program exceeds ").dec(limit).str("-thread limit\n");
  }
  fatal("thread exhaustion");
}

M* reserve_m(std::int32_t beyond) {
  ++sched.m_count;
  if (ms_toward_limit_locked() > std::int64_t{sched.max_threads} + beyond) {
    exceed_thread_limit(sched.max_threads);
  }
  M* mp = sched.free_ms;
  if (mp != nullptr) {
    sched.free_ms = mp->idle_next;
    mp->idle_next = nullptr;
    return mp;
  }
  // Its thread is started later, which TSan knows; that goroutines come to it by switches it does not.
  tsan_ignore_begin();
  mp = arena_new<M>();
  tsan_ignore_end();
  mp->id = sched.m_next_id++;
  mp->random.seed(mp->id * 0x9e3779b97f4a7c15u + scheduling_seed());
  mp->all_next = sched.all_ms;
  sched.all_ms = mp;
  return mp;
}

void bind_thread(M* mp) {
  mp->begin_thread(gettid());
  note_time_now();
  mp->errno_location = &errno;
  mp->eh_globals = thread_eh_state();
  mp->tools.adopt_thread();
  mp->handlers.adopt();
  set_current_m(mp);
  watch_thread_exit();
}

void create_or_die(void* (*main)(void*), void* arg) {
  if (const int error = create_thread(main, arg)) {
    thread_creation_failed(error);
  }
}

namespace {

// True for one caller: nobody has started sysmon and the spawner yet.
bool begins() {
  const scoped_lock held(sched.lock);
  return !sched.begun.exchange(true, WEFT_ORDER(CT0, relaxed));  // order: relaxed, it only elects
}

// Counted when they are there: until then the caller is alive, and no deadlock is seen too early.
void count_system_thread() {
  const scoped_lock held(sched.lock);
  ++sched.system_threads;
}

// sysmon comes last: nobody is frozen before there is somebody who makes threads. What it reads is opened before, here on the
// program's own thread, which may do it as well as it may create one: no lock is held.
void create_system_threads() {
  start_spawner();
  count_system_thread();
  open_pressure_files();
  if (os::test_hooks.no_sysmon.get() == 0) {
    start_sysmon();
    count_system_thread();
  }
}

}  // namespace

void start_system_threads() {
  if (system_threads_begun()) {
    return;
  }
  const inside here;  // where there is no sysmon nobody is frozen with what libc needs
  if (begins()) {
    os::load_test_hooks();
    create_system_threads();
  }
}

bool may_create_threads() { return !is_sysmon(); }

void create_m_thread(M* mp) { create_or_die(m_main, mp); }

void start_thread(M* mp, P* pp, bool spinning) {
  mp->spinning = spinning;
  mp->nextp = pp;
  if (!system_threads_begun() && begins()) {
    // The first M inherits what the spawner does, and need not wait for it. What it asks of the spawner stays until
    // there is one.
    os::load_test_hooks();
    create_m_thread(mp);
    create_system_threads();
  } else if (!created_by_spawner(mp)) {
    create_m_thread(mp);
  }
}

}  // namespace weft::rt
