// See timed.h.
//
// The difficulty. A limit that is armed before the goroutine has left its stack may end the wait too
// early: nobody may make a goroutine runnable whose registers are not saved yet. One that is armed
// afterwards comes too late: once the commit has published the waiter, the object may wake it, and
// the frame in which timer and hook live is gone. And nothing in that frame can tell "not yet" from
// "no longer". So the tie is broken by a word in the goroutine's record, which never goes away, and
// which carries the number of the wait:
//
//   G::timed_wait   4n + 0   wait n: arming, the goroutine may still be on its stack
//                   4n + 1   wait n: parked
//                   4n + 2   wait n: ended by its limit while arming; the commit lets it go on
//
//   goroutine            limit (timer, hook), having     commit (successor)
//                        won the claim
//   4n + 0               4n+0 → 4n+2: done, or           publish the waiter; from here on it may run
//   arm, park            finds 4n+1: wake it             4n+0 → 4n+1: parked. Finds 4n+2: refuse.
//                                                        Finds wait n over: leave it alone
//
// TW-a: the goroutine is made runnable once: by the object, or by the limit that found 4n+1, or by the
//       commit that found 4n+2. The last two exclude each other by the word, both exclude the object
//       by the claim.
//
// A plain thread is on its own stack all the time, so that there the commit just publishes.
//
// Rejected: holding the timers' lock across the commit (the object's lock ranks above it); arming
// after the park by a third party (needs memory that outlives the wait).
#include "sched/timed.h"

#include "sched/park.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

struct timed_wait : timer_event, cancel_hook {
  timed_wait(waiter& who, commit_fn publish, void* publish_arg, const wait_limit& until)
      : w(&who), commit(publish), arg(publish_arg), limit(until) {}

  wait_claim own_claim;
  waiter* w;
  commit_fn commit;
  void* arg;
  const wait_limit& limit;
  G* gp = nullptr;
  std::uint64_t number = 0;  // 4n
  wait_end end = wait_end::woken;
  bool refused = false;
  bool hooked = false;
};

enum : std::uint64_t { kArming = 0, kParked = 1, kEnded = 2 };

// By the timer or the hook.
void end_wait(timed_wait& t, wait_end how) {
  if (!t.w->claim->take()) {
    tsan_release(static_cast<timer_event*>(&t));  // its owner waits in timer_cancel()
    return;
  }
  t.end = how;
  if (t.gp != nullptr) {
    std::uint64_t arming = t.number + kArming;
    tsan_release(t.gp);
    // order: TB1 release publishes `end` to the commit, which passes it on; failure acquires nothing:
    // the goroutine's frames are ours by the claim
    if (t.gp->timed_wait.compare_exchange_strong(
            arming, t.number + kEnded, WEFT_ORDER(TB1, release), WEFT_ORDER(TB0, relaxed))) {
      return;
    }
  }
  wake(t.w);
}

void timer_fires(timer_event* e, std::int64_t) {
  end_wait(*static_cast<timed_wait*>(e), wait_end::timed_out);
}

void hook_fires(cancel_hook* h) { end_wait(*static_cast<timed_wait*>(h), wait_end::cancelled); }

void arm(timed_wait& t) {
  if (t.limit.source != nullptr) {
    t.cancel_hook::fire = hook_fires;
    t.hooked = t.limit.source->add(t);
    if (!t.hooked) {
      end_wait(t, wait_end::cancelled);
    }
  }
  if (t.limit.deadline != kNever) {
    t.when = t.limit.deadline;
    t.timer_event::fire = timer_fires;
    timer_start(t);
  }
}

void disarm(timed_wait& t) {
  timer_cancel(t);
  if (t.hooked) {
    t.limit.source->remove(t);
  }
}

// On the successor's stack.
bool commit_goroutine(waiter* w, void* arg) {
  auto* t = static_cast<timed_wait*>(arg);
  G* gp = t->gp;
  std::uint64_t arming = t->number + kArming;
  const std::uint64_t parked = t->number + kParked, ended = t->number + kEnded;
  if (!t->commit(w, t->arg)) {
    t->refused = true;  // it is still there: nobody wakes it while arming
    return false;
  }
  // order: TB1 acquire: `end` as the limit wrote it, for the goroutine that we let go on
  const bool waits = gp->timed_wait.compare_exchange_strong(
      arming, parked, WEFT_ORDER(TB0, relaxed), WEFT_ORDER(TB1, acquire));
  return waits || arming != ended;
}

// On the plain thread's own.
bool commit_thread(waiter* w, void* arg) {
  auto* t = static_cast<timed_wait*>(arg);
  if (!t->commit(w, t->arg)) {
    t->refused = true;
    return false;
  }
  arm(*t);
  return true;
}

// In exit() nobody runs timers any more: the thread watches its deadline itself.
wait_end block_in_exit(timed_wait& t) {
  if (!t.commit(t.w, t.arg)) {
    return wait_end::woken;
  }
  if (t.w->event.sleep_until(t.limit.deadline) || !t.w->claim->take()) {
    t.w->event.sleep();
    return wait_end::woken;
  }
  return wait_end::timed_out;
}

}  // namespace

wait_end block_until(waiter& w, commit_fn commit, void* arg, void* object, wait_reason reason,
                     const wait_limit& limit) {
  if (limit.none()) {
    block(w, commit, arg, object, reason);
    return wait_end::woken;
  }
  timed_wait t(w, commit, arg, limit);
  if (w.claim == nullptr) {
    w.claim = &t.own_claim;
  }
  if (this_thread_exits()) {
    w.gp = nullptr;
    if (limit.deadline != kNever) {
      return block_in_exit(t);
    }
  } else {
    w.gp = t.gp = current_goroutine();
  }
  if (t.gp == nullptr) {
    block(w, commit_thread, &t, object, reason);
  } else {
    // order: relaxed, its own; those who compare with it got it through a lock, or run after it
    t.number = (t.gp->timed_wait.load(WEFT_ORDER(TB0, relaxed)) / 4 + 1) * 4;
    // order: relaxed, as above
    t.gp->timed_wait.store(t.number + kArming, WEFT_ORDER(TB0, relaxed));
    arm(t);
    block(w, commit_goroutine, &t, object, reason);
  }
  disarm(t);
  return t.refused ? wait_end::woken : t.end;
}

}  // namespace weft::rt
