// Exhaustive model of sync/wait_group_core.h.
//
// What was done before done() is seen after wait(); everybody who waits is woken exactly once; and the
// object may be destroyed as soon as wait() has returned: nobody touches it any more.
#include <gtest/gtest.h>
#include <memory>

#include "base/note.h"
#include "model/sleepers.h"
#include "sync/wait_group_core.h"

namespace weft::model {
namespace {

struct waiter;

// A plain pointer, race-checked.
class link {
 public:
  link& operator=(waiter* w) {
    to_.set(w);
    return *this;
  }
  operator waiter*() const { return to_.get(); }

 private:
  rt::cell<waiter*> to_;
};

struct waiter {
  link next;
  rt::note event;
};

using core = rt::wait_group_core<waiter, sleeper>;

struct state {
  core wg;
  waiter w[3];
  sleeper timed[2];
  rt::cell<int> result[3];
  rt::cell<int> there;  // wg

  // As wait_group::wait() and add() do, with threads for goroutines.
  void wait(int i) {
    if (wg.zero() || !wg.push(&w[i])) return;
    w[i].event.sleep();
  }
  // False: the limit came first.
  bool wait_for(int i) {
    sleeper& n = timed[i];
    return wg.zero() || !wg.push_timed(&n) || sleep_for(i);
  }
  bool sleep_for(int i) {
    sleeper& n = timed[i];
    if (n.event.sleep_for(1)) return true;
    if (wg.give_up(&n)) return false;
    n.event.sleep();
    return true;
  }
  bool add(int n, const std::function<void()>& changed = {}) {
    const core::outcome done = wg.add(n);
    if (changed) changed();  // no schedule point since the counter changed
    for (waiter* next = done.wake; waiter* p = next;) {
      next = p->next;
      p->event.wake();
    }
    for (sleeper* next = done.rouse; sleeper* p = next;) {
      next = p->next;
      p->event.wake();
    }
    return !done.negative;
  }
  void finish(int i) {
    result[i].set(1);
    check(add(-1), "refused");
  }
  void check_result(int i) {
    check(result[i].get() == 1, "wait() returns before the work is done");
  }
};

state* make(world& w, int count) {
  auto* s = w.make<state>();
  check(s->add(count), "refused");
  for (int i = 0; i < 3; ++i) name(&s->w[i], "w", i);
  return s;
}

void destroyed_after_wait(world& w) {
  state* s = make(w, 2);
  w.thread("worker 0", [=] { s->finish(0); });
  w.thread("worker 1", [=] { s->finish(1); });
  w.thread("waiter", [=] {
    s->wait(0);
    std::destroy_at(&s->wg);
    s->check_result(0);
    s->check_result(1);
  });
}

void two_waiters(world& w) {
  state* s = make(w, 1);
  w.thread("worker", [=] { s->finish(0); });
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "waiter 0" : "waiter 1", [=] {
      s->wait(i);
      s->check_result(0);
    });
  }
  w.finally([=] { check(s->wg.zero(), "not zero at the end"); });
}

// Somebody adds, and is done, while the last one makes the counter zero. If he was in time, waiters
// wait for him as well.
void add_in_time(world& w) {
  state* s = make(w, 1);
  auto* added = w.make<int>(0);
  auto* in_time = w.make<bool>(false);
  w.thread("worker", [=] {
    s->result[0].set(1);
    check(s->add(-1, [=] { *in_time = *added == 2; }), "refused");
  });
  w.thread("adder", [=] {
    if (s->wg.zero()) return;  // too late: that would be a mistake
    check(s->add(1), "refused");
    ++*added;
    s->result[1].set(1);
    check(s->add(-1), "refused");
    ++*added;
  });
  w.thread("waiter", [=] {
    s->wait(0);
    s->check_result(0);
    if (*in_time) s->check_result(1);
  });
  w.finally([=] { check(s->wg.zero(), "not zero at the end"); });
}

// One takes more than there is: it is refused, nothing has changed, and nobody sleeps for ever.
void negative(world& w) {
  state* s = make(w, 2);
  w.thread("greedy", [=] {
    if (!s->add(-2)) check(s->add(-1), "the rest is refused");
  });
  w.thread("worker", [=] { s->add(-1); });
  w.thread("waiter", [=] { s->wait(0); });
  w.finally([=] {
    check(s->wg.zero(), "not zero at the end");
    check(!s->add(-1), "the counter fell below zero");
    check(s->wg.zero(), "a refused call has changed the counter");
  });
}

// Two wait with a limit; one of them, or both, may give up at any moment.
void limits(world& w) {
  state* s = make(w, 1);
  w.thread("worker", [=] { s->finish(0); });
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "hurried 0" : "hurried 1", [=] {
      if (s->wait_for(i)) s->check_result(0);
    });
  }
  w.finally([=] { check(s->wg.zero(), "not zero at the end"); });
}

// Somebody adds while the waiters are taken out: they are put back, and one gives up.
void limit_and_add(world& w) {
  state* s = make(w, 1);
  w.thread("worker", [=] { s->finish(0); });
  w.thread("adder", [=] {
    if (s->wg.zero()) return;
    check(s->add(1), "refused");
    s->finish(1);
  });
  w.thread("hurried", [=] {
    if (s->wait_for(0)) s->check_result(0);
  });
}

// One waits without a limit and destroys the object; what the other one knows is in its own node.
void destroyed_beside_limit(world& w) {
  state* s = make(w, 1);
  s->timed[0].leaves.object = &s->there;
  check(s->wg.push_timed(&s->timed[0]), "nothing to wait for");
  w.thread("worker", [=] { s->finish(0); });
  w.thread("waiter", [=] {
    s->wait(0);
    s->there.set(0);
    std::destroy_at(&s->wg);
    s->check_result(0);
  });
  w.thread("hurried", [=] {
    if (s->sleep_for(0)) s->check_result(0);
  });
}

// Used again by the waiter, with another worker.
void reuse(world& w) {
  state* s = make(w, 1);
  w.thread("worker 0", [=] { s->finish(0); });
  w.thread("waiter", [=] {
    s->wait(0);
    s->check_result(0);
    check(s->add(1), "refused");
    s->w[2].event.wake();  // starts worker 1
    s->wait(1);
    s->check_result(1);
  });
  w.thread("worker 1", [=] {
    s->w[2].event.sleep();
    s->finish(1);
  });
}

const protocol kProtocol{
    "wait_group",
    {"sync/wait_group_core.h", "sync/withdrawal.h"},
    {},
    {
        {"destroyed after wait", {.preemptions = 3}, destroyed_after_wait},
        {"two waiters", {.preemptions = 2, .old_loads = 2}, two_waiters},
        {"add in time", {.preemptions = 2}, add_in_time},
        {"negative", {.preemptions = 2}, negative},
        {"limits", {.preemptions = 2, .old_loads = 1}, limits},
        {"destroyed beside a limit", {.preemptions = 2, .old_loads = 1}, destroyed_beside_limit},
        {"limit and add", {.preemptions = 2, .old_loads = 1}, limit_and_add},
        {"reuse", {.preemptions = 3}, reuse},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, WaitGroup) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
