// Calls of which the goroutine says that they may block.
//
// A note for sysmon, and nothing else: it takes the P after 20 us if somebody needs it, instead of making
// sure first that the thread is asleep (retake.cc). Whoever knows that it will take long gives the P away.
//
// If sysmon has had to take a P so, the next calls are expected to take long, too: they give their Ps away themselves, where
// somebody waits for them and an M is there, until one of them turns out to have been short. So a program whose calls
// are all long hands its Ps on at once, and one in whose calls nothing lasts never does.
//
// The goroutine stays on its thread throughout, and comes back to it.
//
// Go: runtime/proc.go entersyscall, exitsyscall, entersyscallblock [SC-1]…[SC-9]
#include <cerrno>

#include <weft/runtime.h>

#include "base/fatal.h"
#include "os/clock.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kShortCall = 20'000;  // ns; sysmon would have left it alone

// As if it had been taken.
void give_p_away_unlock(M* mp) WEFT_RELEASE(sched.lock) {
  G* gp = mp->curg;
  P* pp = mp->p;
  gp->transition<g_status::running, g_status::syscall>();
  mp->border.be_robbed();
  mp->border.begin_slice();  // it makes room
  release_p(mp, p_status::idle);
  list_robbed_locked(mp);
  sched.lock.unlock();
  hand_off_p(pp);
}

// The caller has stopped the world. Its P has arrived at the gate, and does not leave it. keeps W1
bool stops_world_locked(const M* mp) WEFT_REQUIRES(sched.lock) {
  // order: relaxed, its own, and under sched.lock
  return mp->p->status.load(WEFT_ORDER(PS0, relaxed)) == p_status::stopped;
}

// True: it has no P now.
bool give_p_away(M* mp) {
  if (this_thread_exits()) {
    return false;  // it keeps its P (P3 in thread_exit.cc), for which nobody waits any more
  }
  sched.lock.lock();
  if (thread_is_created_locked() ||  // keeps PE2
      (stops_world_locked(mp) && !WEFT_MUTANT("away-while-stopping"))) {
    sched.lock.unlock();
    return false;
  }
  give_p_away_unlock(mp);
  return true;
}

// … if somebody waits for it who could run at once.
bool give_p_to_waiting(M* mp) {
  const std::uint32_t local = mp->p->runq.size();
  if (local == 0 && sched.runq.empty()) {
    return false;
  }
  sched.lock.lock();
  const std::uint32_t fresh = local + sched.runq.free();
  request_spare_ms_locked(spares_for(fresh));
  // While the world stops nobody gets a P; and it may be ours that stops it. keeps W1
  const bool stops = sched.gate.closed() && !WEFT_MUTANT("to-waiting-while-stopping");
  if (fresh == 0 || sched.idle_ms == nullptr || stops || thread_is_created_locked()) {
    sched.lock.unlock();
    return false;
  }
  mp->call_began = nanotime();
  give_p_away_unlock(mp);
  return true;
}

}  // namespace

}  // namespace weft::rt

namespace weft::detail {

using namespace rt;  // NOLINT: a thin cover

// Not instrumented: errno is the thread's, whichever goroutine is there.
WEFT_NO_TSAN blocking_call::blocking_call(bool surely) noexcept {
  M* mp = current_m();
  if (mp == nullptr || mp->curg == nullptr) {
    return;
  }
  if (!surely) {
    outermost_ = mp->begin_call();
    // Who has no P has nothing to give, and needs none for the call.
    // order: IC0 relaxed, a hint
    if (!outermost_ || !sched.calls_last.load(WEFT_ORDER(IC0, relaxed)) || mp->border.robbed())
        [[likely]] {
      return;
    }
  }
  const int saved = errno;  // a call may be judged by whether it changes it
  mp = enter_runtime();
  const bool given = surely ? give_p_away(mp) : give_p_to_waiting(mp);
  if (given && !WEFT_MUTANT("asked-too-late")) {
    leave_without_p(mp);  // or it would wait for a P before the call
  } else {
    outermost_ =
        outermost_ || (!given && mp->begin_call());  // then sysmon takes it, if it is needed
    leave_runtime(mp);
  }
  errno = saved;
}

WEFT_NO_TSAN blocking_call::~blocking_call() {
  M* mp = current_m();
  if (mp == nullptr || mp->curg == nullptr) {
    return;
  }
  if (outermost_) {
    mp->end_call();
  }
  const int saved = errno;  // the result of the call
  if (mp->call_began != 0) [[unlikely]] {
    if (nanotime() - mp->call_began < kShortCall) {
      sched.calls_last.store(false, WEFT_ORDER(IC0, relaxed));  // order: IC0 relaxed, a hint
    }
    mp->call_began = 0;
  }
  leave_runtime(enter_runtime());
  errno = saved;
}

}  // namespace weft::detail

namespace weft {

// Inside the border, so that it begins with a P, and who has taken a P sees whether he may keep it (borrow.cc).
no_preempt::no_preempt() noexcept {
  if (rt::G* gp = rt::current_goroutine()) {
    rt::M* mp = WEFT_MUTANT("scope-without-p") ? nullptr : rt::enter_runtime();
    ++gp->keeps_p;
    rt::leave_runtime(mp);
  }
}

no_preempt::~no_preempt() {
  if (rt::G* gp = rt::current_goroutine()) {
    rt::M* mp = rt::enter_runtime();
    --gp->keeps_p;
    rt::leave_runtime(mp);  // what was asked meanwhile
  }
}

}  // namespace weft
