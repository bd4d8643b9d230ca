// Threads that are not the runtime's.
//
// A plain thread may start goroutines, wake them, and wait for them. It has no P, so what it makes
// runnable goes to the global queue under sched.lock, and in the same critical section an idle P is
// taken for it. An M that runs dry looks at the global queue under that lock before it lets its P
// go: so one of the two sees the other, and no fence is needed. [IJ]
//
// Those asleep here are counted, because the deadlock check has to tell a thread that waits for
// goroutines from one that may still act (gmp/foreign_count.h).
#include "sched/foreign.h"

#include "base/fatal.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

// As long as there is no M, which looks for deadlocks now and then, those who block do (MT1 in joining.cc). Nobody
// tells them that a thread has ended that never used weft.
bool woken_while_there_is_no_m(waiter& w) {
  for (std::int64_t pause = kFirstLook; !w.event.sleep_for(pause); pause = longer(pause)) {
    const scoped_lock held(sched.lock);
    if (sched.m_count > 0) {
      return false;
    }
    check_dead();
  }
  return true;
}

}  // namespace

namespace {

bool publish(waiter& w, commit_fn commit, void* arg) {
  ensure_started();
  watch_thread_exit();
  tsan_ignore_begin();  // as in a section: block() has released the object for us
  const bool published = commit(&w, arg);
  tsan_ignore_end();
  return published;
}

}  // namespace

// sysmon, in a handler of the program's, is counted among the system's threads, who wake nobody. Asleep it does not; but once
// it is woken, or if its sleep has a limit, it may, until the handler is over: so long the count stays too low by
// one for each time, and nothing is reported. (What a handler does before it first waits here is not seen.)
namespace {

constinit atomic<int> owed_for_handlers{0};  // by sysmon alone, but handlers nest

void owe_for_handler() {
  owed_for_handlers.fetch_add(1, WEFT_ORDER(FB0, relaxed));  // order: relaxed, its own thread's
  wake_sysmon();  // which may have slept for good: it pays when it wakes
}

}  // namespace

void handler_is_over() {
  const int owed =
      owed_for_handlers.exchange(0, WEFT_ORDER(FB0, relaxed));  // order: relaxed, as above
  for (int i = 0; i < owed; ++i) {
    sched.foreign.was_not_asleep();
  }
  if (owed > 0) {
    look_for_deadlock_soon();  // others who looked meanwhile have found that it may act
  }
}

void block_thread(waiter& w, commit_fn commit, void* arg) {
  if (!publish(w, commit, arg)) {
    return;
  }
  const bool exits = this_thread_exits();
  if (!exits && thread_stops_world()) {
    fatal(kBlocksInStoppedWorld, user_fault);
  }
  if (!exits && is_sysmon()) {
    w.event.sleep();
    owe_for_handler();
    return;
  }
  sched.foreign.falls_asleep();
  if (exits) {
    sleep_in_exit(w);
    return;
  }
  // The last M may have fallen asleep before this thread counted.
  const bool others_look = WEFT_MUTANT("sleeper-looks-not") || look_for_deadlock_soon();
  if (!others_look && woken_while_there_is_no_m(w)) {
    return;
  }
  w.event.sleep();
}

// It is not counted: until its time comes it may act. Its waker counts it off all the same.
bool block_thread_until(waiter& w, commit_fn commit, void* arg, std::int64_t deadline) {
  if (!publish(w, commit, arg)) {
    return true;
  }
  if (!this_thread_exits() && thread_stops_world()) {
    fatal(kBlocksInStoppedWorld, user_fault);
  }
  if (WEFT_MUTANT("counted-with-limit")) {
    sched.foreign.falls_asleep();
  }
  const bool in_handler = !this_thread_exits() && is_sysmon();
  if (in_handler) {
    sched.foreign.is_woken();
    owe_for_handler();
  }
  if (!w.event.sleep_until(deadline > 0 ? deadline : 0)) {
    if (w.claim->take()) {
      return false;
    }
    w.event.sleep();  // somebody else ends this wait, and is about to wake us
  }
  if (in_handler) {
    owe_for_handler();
  } else if (!WEFT_MUTANT("counted-off-twice")) {
    sched.foreign.was_not_asleep();
  }
  return true;
}

void wake_thread(waiter* w) {
  if (current_m() == nullptr) {
    watch_thread_exit();  // it may call exit(), or end and leave nobody who could wake the others
  }
  if (WEFT_MUTANT("woken-before-counted")) {
    w->event.wake();
    sched.foreign.is_woken();
    return;
  }
  sched.foreign.is_woken();
  w->event.wake();
}

void inject(G* gp) {
  sched.lock.lock();
  inject_unlock(gp);
}

void inject_unlock(G* gp) {
  sched.runq.push_back(gp);
  P* pp = idle_p_get_for_work();
  if (pp == nullptr) {
    sched.lock.unlock();
    if (!WEFT_MUTANT("inject-lets-doze")) {
      sched.dozer.poke_fenced();
    }
    wake_sysmon();
    return;
  }
  start_m_unlock(pp, /*spinning=*/false);
}

}  // namespace weft::rt
