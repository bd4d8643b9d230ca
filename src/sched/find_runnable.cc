// Where work comes from, in Go's order. [FR-1]
//
//   1  the world is stopping: stop
//   3  timers of this P that are due
//   6  every 61st slice: one from the global queue, so that it does not starve behind local chains
//   8  local: runnext, then the ring
//   9  a share of the global queue
//   11 other Ps' queues, spinning; and their timers
//   14 nothing: idle.cc
//
// The poller (step 10) goes between 9 and 11; it will return lists of goroutines and wake nobody.
//
// Go: runtime/proc.go findRunnable
#include "base/fatal.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

bool world_is_stopping(const P* pp) {
  // order: AT1 relaxed; the request is acted upon under sched.lock
  return pp->attention.load(WEFT_ORDER(AT1, relaxed)) != 0;
}

G* fair_share(P* pp) {
  if (pp->schedtick % kFairnessTick != 0 || sched.runq.empty()) {
    return nullptr;
  }
  const scoped_lock held(sched.lock);
  return sched.runq.pop();
}

found local(P* pp) {
  found f{};
  f.gp = take_local(pp, &f.inherit_time);
  return f;
}

G* from_global(P* pp) {
  if (sched.runq.empty()) {
    return nullptr;
  }
  const scoped_lock held(sched.lock);
  return global_batch_get(pp);
}

// At most half of the busy Ps' number of Ms spin: more would only fight each other. [FR-1] 11
bool may_spin(const M* mp) {
  return mp->spinning || 2 * sched.idle.spinning() < sched.proc_count() - sched.idle.idle();
}

// Every other P is idle, so its queue is empty. What may come from outside takes one of those Ps itself,
// and timers are looked at by whoever falls asleep.
bool alone() { return sched.idle.idle() >= sched.proc_count() - 1; }

G* from_others(M* mp) {
  if (alone() || !may_spin(mp)) {
    return nullptr;
  }
  if (!mp->spinning) {
    mp->spinning = true;
    sched.idle.become_spinning();
  }
  return spin_for_work(mp);
}

}  // namespace

G* global_batch_get(P* pp) {
  const auto procs = static_cast<std::uint32_t>(sched.proc_count());
  std::uint32_t n = global_batch(sched.runq.size(), procs, kRunQueueSize);
  G* first = sched.runq.pop();
  while (n-- > 1) {
    G* gp = sched.runq.pop();
    const bool fits = pp->runq.push(gp);
    WEFT_CHECK(fits, "global batch does not fit the local queue");
  }
  return first;
}

found find_runnable(M* mp) {
  for (;;) {
    P* pp = mp->p;
    if (world_is_stopping(pp)) {
      stop_for_world(mp);
      continue;
    }
    run_own_timers(mp);
    if (G* gp = fair_share(pp)) {
      return {gp, false};
    }
    if (found f = local(pp); f.gp != nullptr) {
      return f;
    }
    if (G* gp = from_global(pp)) {
      return {gp, false};
    }
    if (G* gp = from_others(mp)) {
      return {gp, false};
    }
    if (world_is_stopping(pp)) {
      continue;
    }
    if (G* gp = go_idle(mp)) {
      return {gp, false};
    }
  }
}

}  // namespace weft::rt
