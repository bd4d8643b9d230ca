// Making Ms: threads of the runtime.
//
// Go: runtime/proc.go newm, mstart1, mcommoninit, checkmcount
#include "os/thread.h"

#include <cerrno>
#include <pthread.h>
#include <sys/prctl.h>

#include "base/fatal.h"
#include "base/print.h"
#include "gmp/arena.h"
#include "os/process.h"
#include "sched/chaos.h"
#include "sched/sched_api.h"
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
  acquire_p(mp, pp);
  schedule(mp);
  fatal("an M left its loop");
}

}  // namespace

M* reserve_m() {
  if (++sched.m_count > sched.max_threads) {
    {
      printer out;
      out.str("runtime: program exceeds ").dec(sched.max_threads).str("-thread limit\n");
    }
    fatal("thread exhaustion");
  }
  M* mp = sched.free_ms;
  if (mp != nullptr) {
    sched.free_ms = mp->idle_next;
    mp->idle_next = nullptr;
    return mp;
  }
  mp = arena_new<M>();
  mp->id = sched.m_next_id++;
  mp->random.seed(mp->id * 0x9e3779b97f4a7c15u + scheduling_seed());
  mp->all_next = sched.all_ms;
  sched.all_ms = mp;
  return mp;
}

void release_m(M* mp) {
  const scoped_lock held(sched.lock);
  mp->idle_next = sched.free_ms;
  sched.free_ms = mp;
  --sched.m_count;
}

void bind_thread(M* mp) {
  mp->tid = gettid();
  mp->errno_location = &errno;
  mp->eh_globals = thread_eh_state();
  mp->tools.adopt_thread();
  mp->handlers.adopt();
  set_current_m(mp);
  watch_thread_exit();
}

void unbind_thread(M* mp) {
  set_current_m(nullptr);
  mp->handlers.abandon();
}

void start_thread(M* mp, P* pp, bool spinning) {
  mp->spinning = spinning;
  mp->nextp = pp;
  if (const int error = create_thread(m_main, mp)) {
    thread_creation_failed(error);
  }
}

}  // namespace weft::rt
