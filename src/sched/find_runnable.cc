// Where work comes from, in Go's order. [FR-1]
//
//   1  the world is stopping: stop
//   3  timers of this P that are due
//   6  every 61st slice, and in the middle of a long one: one from the global queue, so that it does not
//      starve behind local chains
//   8  local: runnext, then the ring
//   9  a share of the global queue
//   10 whoever waits for a descriptor that has become ready
//   11 other Ps' queues, spinning; and their timers
//   14 nothing: idle.cc
//
// Go: runtime/proc.go findRunnable
#include "base/fatal.h"
#include "os/clock.h"
#include "sched/netpoll.h"
#include "sched/sched_api.h"
#include "sched/switch.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

bool world_is_stopping(const P* pp) {
  // order: AT1 relaxed; the request is acted upon under sched.lock
  return pp->attention.load(WEFT_ORDER(AT1, relaxed)) != 0;
}

// … unless it has not had its turn since the world started, and takes it now. keeps W3 (world.cc)
bool must_stop(P* pp) {
  const bool has_turn = pp->has_turn;
  if (has_turn) {
    pp->has_turn = false;
  }
  if (!world_is_stopping(pp)) [[likely]] {
    return false;
  }
  const scoped_lock held(sched.lock);  // exit() has said so before it asked
  return !has_turn || process_is_exiting() || crashing();
}

G* overdue_news(M* mp) {
  if (!mp->looks_for_news && !news_are_due(mp->p)) {
    return nullptr;
  }
  mp->looks_for_news = false;
  return poll_for_work(mp);
}

G* fair_share(P* pp) {
  if (!global_is_due(pp)) {
    return nullptr;
  }
  const scoped_lock held(sched.lock);
  return sched.runq.pop_in_turn(nanotime());
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

// Does not wait for the lock: the caller may hold a channel's, for which others spin, until its successor has dropped
// that. g0 finds the turn still due: it comes by switches, and going there is none.
G* take_global() {
  if (!sched.lock.try_lock()) {
    return nullptr;
  }
  G* gp = sched.runq.has_frozen() ? nullptr : sched.runq.pop_free();
  sched.lock.unlock();
  return gp;
}

namespace {

// All of a record that is about to run. It may be of no use, and null: only what it is worth to a cache counts.
void fetch_soon(const G* gp) {
  const auto at = reinterpret_cast<std::uintptr_t>(gp);
  for (std::uintptr_t line = 0; line < sizeof(G); line += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(at + line), 1);
  }
}

}  // namespace

G* global_batch_get(P* pp) {
  const auto procs = static_cast<std::uint32_t>(sched.proc_count());
  std::uint32_t n = global_batch(sched.runq.size(), procs, kRunQueueSize);
  G* first = sched.runq.pop(nanotime());
  if (first != nullptr && first->frozen) {
    return first;  // pp goes to its M: nobody else shall wait there
  }
  while (n-- > 1) {
    G* gp = sched.runq.pop_free();
    if (gp == nullptr) {
      break;  // the rest is frozen, each on its own M
    }
    fetch_soon(gp->chain_next);
    const bool fits = pp->runq.push(gp);
    WEFT_CHECK(fits, "global batch does not fit the local queue");
  }
  return first;
}

found find_runnable(M* mp) {
  for (;;) {
    P* pp = mp->p;
    if (pp == nullptr) {
      return {};
    }
    if (must_stop(pp)) {
      stop_for_world(mp);
      continue;
    }
    run_own_timers(mp);
    if (G* gp = overdue_news(mp)) {
      return {gp, false};
    }
    if (mp->lender != nullptr) {
      end_long_errand(mp);
    }
    if (G* gp = mp->lender == nullptr ? fair_share(pp) : nullptr) {
      return {gp, false};
    }
    if (found f = local(pp); f.gp != nullptr) {
      return f;
    }
    if (mp->lender != nullptr && repay_p(mp)) {
      continue;
    }
    if (G* gp = from_global(pp)) {
      return {gp, false};
    }
    if (G* gp = poll_for_work(mp)) {
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
