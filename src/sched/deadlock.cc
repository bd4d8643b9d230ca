// Is everybody asleep, and can nobody wake them?
//
// A goroutine can be woken by a goroutine, by a timer or by a plain thread. If every M sleeps, no
// goroutine runs. A pending timer may do anything, so as long as there is one nobody is dead; nor while
// somebody waits for a descriptor. [DD-2], [DD-4]
// A plain thread may act unless it sleeps inside weft itself, and only the kernel knows which threads
// exist: so when everything is asleep the tasks of the process are compared with the runtime's own
// threads and the blocked ones. That costs a directory listing, so it is not done at once but after
// everything has been quiet for a while (idle.cc), and with a growing pause if plain threads are
// about.
//
// D1: a report is never wrong. How that is kept while threads come and go: gmp/foreign_count.h.
//
// Go: runtime/proc.go checkdead
#include "base/fatal.h"
#include "os/process.h"
#include "sched/netpoll.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

bool anything_runnable() {
  if (!sched.runq.empty()) {
    return true;
  }
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    if (!sched.p(i)->runq.empty()) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::int64_t live_goroutines() {
  // order: relaxed, a sum of statistics; exact when nobody runs
  std::int64_t n = sched.foreign_goroutines.load(WEFT_ORDER(PC0, relaxed));
  for (std::int32_t i = 0; P* pp = sched.ps.ever(i); ++i) {
    n += pp->goroutines.load(WEFT_ORDER(PC0, relaxed));  // order: relaxed, as above
  }
  return n;
}

bool all_asleep() {
  const std::int32_t running = sched.m_count - sched.idle_m_count - sched.locked_m_idle;
  WEFT_CHECK(running >= 0, "checkdead: inconsistent counts");
  const bool restarting = sched.restarting && !WEFT_MUTANT("restart-unnoticed");
  // Somebody will come for it, and is not counted yet.
  const bool unmanned = sched.unmanned_ps != nullptr && !WEFT_MUTANT("unmanned-unnoticed");
  return running == 0 && !sched.gate.closed() && !restarting && !unmanned &&
         !process_is_exiting() && (live_goroutines() > 0 || sched.foreign.blocked() > 0) &&
         earliest_timer() == kNever && !io_is_awaited();
}

void check_dead() {
  if (!all_asleep() || crashing()) {
    return;
  }
  WEFT_CHECK(!anything_runnable(), "checkdead: runnable g");
  if (!sched.foreign.nobody_can_act(sched.m_count + sched.system_threads, count_tasks)) {
    return;
  }
  // order: relaxed, written by goroutines that have ended
  if (live_goroutines() == 0 && sched.runs_left.load(WEFT_ORDER(MS0, relaxed)) != 0) {
    fatal("no goroutines (main called runtime.Goexit) - deadlock!", user_fault);
  }
  fatal("all goroutines are asleep - deadlock!", user_fault);
}

bool look_for_deadlock_soon() {
  const inside here;
  const scoped_lock held(sched.lock);
  if (!all_asleep()) {
    return sched.m_count > 0;  // whoever falls asleep last will look
  }
  M* chosen = sched.idle_ms;
  for (M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (mp->watches_deadlock) {
      chosen = mp;
    }
  }
  if (chosen == nullptr) {
    check_dead();  // there is no M
    return false;
  }
  if ((!chosen->poked || WEFT_MUTANT("poked-twice")) && chosen->nextp == nullptr) {
    chosen->poked = true;
    wake_sleeping_m(chosen, chosen == sched.poller);
  }
  return true;
}

}  // namespace weft::rt
