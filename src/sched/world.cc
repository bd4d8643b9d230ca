// Stopping the world and setting it going again, and changing the number of Ps meanwhile.
//
//   stopper                                   every other M that holds a P
//   1. wait for one's turn (world_held)
//   2. lock; attention on every P; own P and  at its next scheduling point it finds `attention`:
//      idle Ps stopped; close the gate        lock; gate closed? P stopped, arrive at the gate;
//   3. unlock; wait until all have arrived    unlock; sleep like an idle M
//   4. the world is stopped
//   5. lock; resize; open the gate; Ps with work get an M, the others are idle; unlock; wake_p
//
// W1: every P stops exactly once per stop, by its stopper (own, idle) or by its M (running, or on the
//     way to an M that was handed it). See gmp/stop_gate.h.
// W3: a P that was handed out with work as the world started, timers that are due and frozen goroutines included, runs one
//     goroutine before it stops again, save for one that waits for a thread to be created. A thread takes longer to wake than a world that is stopped again at once takes to start: beside
//     somebody who does nothing else nobody would ever run.
//
// A goroutine that computes without ever coming to a scheduling point is frozen where it is (sched/preempt.cc).
//
// Go: runtime/proc.go stopTheWorldWithSema, startTheWorldWithSema, procresize
#include "sched/world.h"

#include "base/fatal.h"
#include "gmp/arena.h"
#include "os/memory.h"
#include "sched/netpoll.h"
#include "sched/park.h"
#include "sched/pauses.h"
#include "sched/sched_api.h"
#include "sched/switch.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

void set_attention(P* pp, std::uint32_t on) {
  // order: AT1 relaxed; whoever sees it takes sched.lock to learn what it is about
  pp->attention.store(on, WEFT_ORDER(AT1, relaxed));
}

void set_stopped(P* pp) {
  // order: relaxed, under sched.lock
  pp->status.store(p_status::stopped, WEFT_ORDER(PS0, relaxed));
}

// Hands the turn straight to the next stopper, in order. [STW-3]
void pass_world_on() {
  const inside here;
  sched.lock.lock();
  tsan_acquire(&sched.world_held);  // whoever waits has released it: queue_for_world()
  waiter* w = sched.world_first;
  if (w == nullptr) {
    tsan_release(&sched.world_held);  // to whoever finds it free
    sched.world_held = false;
  } else {
    sched.world_first = w->next;
    if (sched.world_first == nullptr) {
      sched.world_last = nullptr;
    }
  }
  sched.lock.unlock();
  if (w != nullptr) {
    wake(w);
  }
}

bool is_stopped(const P* pp) {
  // order: relaxed, under sched.lock
  return pp->status.load(WEFT_ORDER(PS0, relaxed)) == p_status::stopped;
}

// Step 2. At exit the gate may be closed already: then only our own P remains to be stopped. keeps W2
void request_stop_locked(P* own) WEFT_REQUIRES(sched.lock) {
  if (sched.gate.closed() && !WEFT_MUTANT("gate-closed-twice")) {
    if (own != nullptr && !is_stopped(own)) {
      set_stopped(own);
      sched.gate.arrive();
    }
    return;
  }
  if (own != nullptr) {
    set_stopped(own);
  }
  while (P* pp = WEFT_MUTANT("stop-forgets-idle") ? nullptr : idle_p_get()) {
    set_stopped(pp);
  }
  while (P* pp = unmanned_p_get()) {  // or the stop would wait for a thread that is being created
    set_stopped(pp);
  }
  std::int32_t busy = 0;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    set_attention(sched.p(i), WEFT_MUTANT("stop-asks-nobody") ? 0 : 1);
    busy += is_stopped(sched.p(i)) ? 0 : 1;
  }
  for (const M* mp = sched.robbed_ms; mp != nullptr; mp = mp->robbed_next) {
    if (mp->lends && !WEFT_MUTANT("stop-forgets-lenders")) {
      ++busy;  // it computes, and somebody else has its P
    }
  }
  if (busy != 0 || sched.robbed_count != 0) {
    wake_sysmon_locked();  // some may have to be made to stop, now or when they come back
  }
  sched.dozer.poke_fenced();  // who dozes would look only at the end of its nap
  sched.gate.close(busy);
}

P* own_p(M* self) { return self != nullptr ? self->p : nullptr; }

// The runtime's own view of "who am I": a section without the switch of TSan fibers at its end.
struct section {
  M* mp = enter_runtime();
  ~section() { leave_runtime(mp); }
};

}  // namespace

// Takes the turn, or queues for it. The commit of a park: false means that it is ours now.
bool queue_for_world(waiter* w, void*) {
  const scoped_lock held(sched.lock);
  if (!sched.world_held) {
    tsan_acquire(&sched.world_held);  // from whoever had it last: pass_world_on()
    sched.world_held = true;
    return false;
  }
  w->next = nullptr;
  (sched.world_last != nullptr ? sched.world_last->next : sched.world_first) = w;
  sched.world_last = w;
  return true;
}

void stop_world(bool for_gc) {
  ensure_started();
  if (this_thread_exits()) {
    return;  // from a destructor of a static: everybody is frozen already
  }
  pause_clock pause;
  waiter w;
  block(w, queue_for_world, nullptr, &sched.world_held, wait_reason::stopping_the_world);
  stop_world_in_turn();
  pause.stopped(for_gc);
}

void stop_world_in_turn() {
  const section here;
  sched.lock.lock();
  if (own_p(here.mp) != nullptr) {
    sched.gate.stopper_runs();
  }
  request_stop_locked(own_p(here.mp));
  const bool wait = sched.gate.busy() > 0;
  const bool outside = sched.robbed_count != 0;
  sched.lock.unlock();
  if (wait || outside) {
    start_system_threads();  // they may compute, now or after a call, and sysmon sees to them
  }
  if (wait) {
    sched.gate.wait();
  }
  set_thread_stops_world(here.mp == nullptr);
}

void stop_for_world(M* mp) {
  sched.lock.lock();
  if (!sched.gate.closed()) {
    sched.lock.unlock();
    return;
  }
  if (mp->spinning) {  // whoever starts the world wakes somebody again [MS-6]
    mp->spinning = false;
    sched.idle.found_work();
  }
  release_p(mp, p_status::stopped);
  sched.gate.arrive();
  sched.lock.unlock();
  stop_m(mp);
}

namespace {

P* make_p(std::int32_t id) {
  P* pp = arena_new_sparse<P>();
  pp->id = id;
  return pp;
}

// A P that is no longer one: its goroutines go to the head of the global queue, in order; its
// reserves go to everybody. [MP-4]
void retire_p(P* pp) WEFT_REQUIRES(sched.lock) {
  G* gs[kRunQueueSize + 1];
  const std::uint32_t n = pp->runq.drain(gs, kRunQueueSize + 1);
  for (std::uint32_t i = n; i-- > 0;) {
    sched.runq.push_front(gs[i]);
  }
  {
    const scoped_lock held(sched.gfree_lock);
    while (G* gp = pp->free_gs) {
      pp->free_gs = gp->schedlink;
      gp->schedlink = nullptr;
      gp->chain_next = sched.free_gs;
      gp->chain_length = 1;
      sched.free_gs = gp;
      ++sched.free_g_count;
    }
    pp->free_count = 0;
  }
  the_stacks.give(pp->stacks, pp->stack_count);
  pp->stack_count = 0;
  pp->status.store(p_status::dead, WEFT_ORDER(PS0, relaxed));  // order: relaxed, world stopped
}

// The stopper runs on a P that is about to go: it moves to P 0.
void move_stopper_locked(M* self, std::int32_t n) WEFT_REQUIRES(sched.lock) {
  if (self == nullptr || self->p == nullptr || self->p->id < n) {
    return;
  }
  P* old = self->p;
  old->m.store(nullptr, WEFT_ORDER(PM1, relaxed));  // order: relaxed, says nothing
  old->thread.store(0, WEFT_ORDER(PT0, relaxed));   // order: relaxed, as in acquire_p()
  self->p = sched.p(0);
  self->p->m.store(self, WEFT_ORDER(PM1, release));            // order: PM1 as in acquire_p()
  self->p->thread.store(self->tid, WEFT_ORDER(PT0, relaxed));  // order: relaxed, as above
  begin_holding(self, self->p);
  count_slice(self->p);
}

bool has_work(const P* pp) {
  if (!pp->runq.empty()) {
    return true;
  }
  const std::int64_t next = run_time(pp);
  return next != kNever && next <= nanotime();
}

// Step 5. Ps that have work are chained by idle_next and returned; the others go idle.
P* restart_locked(M* self) WEFT_REQUIRES(sched.lock) {
  P* with_work = nullptr;
  sched.gate.open();
  sched.restarting = true;
  for (std::int32_t i = sched.proc_count(); i-- > 0;) {
    P* pp = sched.p(i);
    set_attention(pp, 0);
    pp->has_turn = false;
    if (self != nullptr && self->p == pp) {
      pp->status.store(p_status::running, WEFT_ORDER(PS0, relaxed));  // order: relaxed, locked
    } else if (!has_work(pp)) {
      idle_p_put(pp);
    } else {
      pp->has_turn = !WEFT_MUTANT("start-gives-no-turn");
      pp->status.store(p_status::idle, WEFT_ORDER(PS0, relaxed));  // order: relaxed, locked
      pp->idle_next = with_work;
      with_work = pp;
    }
  }
  return with_work;
}

// Those whom the stop has frozen go on by themselves, with the Ps that they had. keeps PE4 (preempt.cc)
// But where no P would be left for those who have just become runnable, these have their share: by the time that they are
// frozen again, for the next stop, nobody would have looked at them.
void thaw_all() {
  sched.lock.lock();
  if (sched.runq.has_free() && sched.runq.has_frozen() && sched.idle_ps != nullptr &&
      !sched.runq.frozen_are_next(/*fresh=*/true, nanotime())) {
    P* pp = idle_p_get();
    pp->has_turn = true;
    start_m_unlock(pp, /*spinning=*/false);
    sched.lock.lock();
  }
  while (sched.runq.has_frozen() && sched.idle_ps != nullptr) {
    M* mp = sched.runq.pop_frozen(nanotime())->m;
    P* pp = idle_p_get_of(mp);
    pp->has_turn = !WEFT_MUTANT("thaw-gives-no-turn");
    hand_p_unlock(mp, pp);
    sched.lock.lock();
  }
  sched.lock.unlock();
}

}  // namespace

void resize_procs(std::int32_t n) {
  for (; sched.ps_made < n; ++sched.ps_made) {
    sched.ps.put(sched.ps_made, make_p(sched.ps_made));
  }
  move_stopper_locked(current_m(), n);
  for (std::int32_t i = n; i < sched.proc_count(); ++i) {
    retire_p(sched.p(i));
  }
  for (std::int32_t i = 0; i < n; ++i) {
    P* pp = sched.ps.ever(i);
    pp->lone = pp->wakes_nobody = n == 1;
    pp->runq.set_lone(n == 1);
  }
  sched.ps.set_count(n);
}

void start_world_with(std::int32_t procs) {
  {
    const section here;
    set_thread_stops_world(false);
    move_timers(procs);
    sched.lock.lock();
    if (process_is_exiting()) {  // freeze_world() came meanwhile: nobody may be started again
      sched.gate.stopper_rests();
      sched.lock.unlock();
      if (here.mp != nullptr && !this_thread_exits()) {
        note never;
        never.sleep();
      }
      return;
    }
    resize_procs(procs);
    P* with_work = restart_locked(here.mp);
    sched.lock.unlock();
    while (P* pp = with_work) {
      with_work = pp->idle_next;
      pp->idle_next = nullptr;
      sched.lock.lock();
      start_m_unlock(pp, /*spinning=*/false);
    }
    thaw_all();
    sched.lock.lock();
    sched.restarting = false;
    P* pp = sched.runq.empty() ? nullptr : idle_p_get_for_work();
    if (pp != nullptr) {
      pp->has_turn = !WEFT_MUTANT("start-gives-no-turn");
      start_m_unlock(pp, /*spinning=*/false);
    } else {
      sched.lock.unlock();
    }
    if (sched.proc_count() > 1 && !WEFT_MUTANT("start-wakes-nobody") && sched.idle.claim_wake()) {
      wake_p_slow();
    }
    if (!WEFT_MUTANT("restart-forgets-timers")) {
      find_timer_watcher();
    }
    if (io_is_awaited()) {
      somebody_must_poll();
    }
  }
  pause_ends();
  pass_world_on();
}

void start_world() { start_world_with(sched.proc_count()); }

world_at_exit freeze_world(bool (*is_ours)(), std::int64_t ns) {
  // In which it may wait for a P until others have started the world. They do not, once they know of the exit.
  const bool early = WEFT_MUTANT("exit-before-p") && is_ours();
  const section here;
  if (!early && !is_ours()) {
    return world_at_exit::frozen_by_another;
  }
  sched.lock.lock();
  P* own = own_p(here.mp);
  if (own != nullptr && is_stopped(own)) {
    sched.gate.stopper_rests();  // the stopper itself calls exit()
  }
  request_stop_locked(own);
  const bool wait = sched.gate.freeze();
  sched.lock.unlock();
  return !wait || sched.gate.wait_frozen(ns) ? world_at_exit::frozen : world_at_exit::runs_partly;
}

void stand_aside() {
  const section here;  // for good: outside it would be asked to make room, and has no P
  P* own = own_p(here.mp);
  sched.lock.lock();
  const bool stopper = own != nullptr && is_stopped(own);
  if (stopper) {
    sched.gate.stopper_rests();
  }
  sched.lock.unlock();
  if (own != nullptr && !stopper) {
    hand_off_p(release_p(here.mp, p_status::idle));  // arrives at the gate, if that is closed yet
  }
  if (here.mp == nullptr && !is_sysmon()) {  // who is counted among the system's threads
    sched.foreign.falls_asleep();            // it will wake nobody any more
  }
  note never;
  never.sleep();
  fatal("a thread came back into exit()");
}

void freeze_world_for_crash() {
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    set_attention(sched.p(i), 1);
  }
  if (sched.lock.try_lock()) {
    sched.gate.close_for_good();
    sched.lock.unlock();
  }
}

}  // namespace weft::rt
