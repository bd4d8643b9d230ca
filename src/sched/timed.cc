// See timed.h. Who wakes a goroutine whose limit comes while it parks: gmp/park_gate.h.
//
// A plain thread watches its deadline itself: its sleep in the kernel ends then, and it competes for the
// claim like everybody else. A timer would do so only where a P is free to run it. The thread is on its
// own stack all the time, so that a hook is added once the waiter is published, by the thread itself.
#include "sched/timed.h"

#include "base/fatal.h"
#include "sched/foreign.h"
#include "sched/park.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

struct timed_wait : timer_event, cancel_hook {
  timed_wait(waiter& who, commit_fn publish, void* publish_arg, const wait_limit& until)
      : w(&who), commit(publish), arg(publish_arg), limit(until) {}

  waiter* w;
  commit_fn commit;
  void* arg;
  const wait_limit& limit;
  G* gp = nullptr;
  std::uint64_t number = 0;  // of the wait
  wait_end end = wait_end::woken;
  bool refused = false;
  bool hooked = false;
};

// By the timer or the hook.
void end_wait(timed_wait& t, wait_end how) {
  waiter* w = t.w;
  G* gp = t.gp;
  const std::uint64_t number = t.number;
  const bool mine = w->claim->take();
  if (mine) {
    t.end = how;
  }
  tsan_release(static_cast<timer_event*>(&t), "WAKE");  // acquired by its owner: timer_cancel()
  if (!mine) {
    return;
  }
  if (gp != nullptr) {
    tsan_release(gp, "WAKE");
    if (!gp->gate.end(number)) {
      return;
    }
  }
  wake(w);
}

void timer_fires(timer_event* e, std::int64_t) {
  end_wait(*static_cast<timed_wait*>(e), wait_end::timed_out);
}

void hook_fires(cancel_hook* h) { end_wait(*static_cast<timed_wait*>(h), wait_end::cancelled); }

void add_hook(timed_wait& t) {
  if (t.limit.source != nullptr) {
    t.cancel_hook::fire = hook_fires;
    t.hooked = t.limit.source->add(t);
    if (!t.hooked) {
      end_wait(t, wait_end::cancelled);
    }
  }
}

void arm(timed_wait& t) {
  add_hook(t);
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
  const std::uint64_t number = t->number;
  if (!t->commit(w, t->arg)) {
    t->refused = true;  // it is still there: nobody wakes it while arming
    return false;
  }
  return gp->gate.parked(number);
}

// On the plain thread's own.
bool commit_thread(waiter* w, void* arg) {
  auto* t = static_cast<timed_wait*>(arg);
  if (!t->commit(w, t->arg)) {
    t->refused = true;
    return false;
  }
  add_hook(*t);
  return true;
}

}  // namespace

wait_end block_until(waiter& w, commit_fn commit, void* arg, void* object, wait_reason reason,
                     const wait_limit& limit) {
  if (limit.none()) {
    block(w, commit, arg, object, reason);
    return wait_end::woken;
  }
  WEFT_CHECK(w.claim != nullptr, "a wait with a limit needs a claim");
  timed_wait t(w, commit, arg, limit);
  // In exit() a goroutine's thread, too, can only sleep as a thread.
  w.gp = t.gp = this_thread_exits() ? nullptr : current_goroutine();
  if (t.gp == nullptr && limit.deadline != kNever) {
    tsan_release(object);
    if (!block_thread_until(w, commit_thread, &t, limit.deadline)) {
      t.end = wait_end::timed_out;
    }
  } else if (t.gp == nullptr) {
    block(w, commit_thread, &t, object, reason);
  } else {
    t.number = t.gp->gate.begin();
    arm(t);
    block(w, commit_goroutine, &t, object, reason);
  }
  disarm(t);
  return t.refused ? wait_end::woken : t.end;
}

}  // namespace weft::rt
