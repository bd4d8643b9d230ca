// Exhaustive model of the deadlock check: gmp/foreign_count.h, foreign.cc and deadlock.cc, with an M
// that watches as idle.cc has it.
//
// D1: a report is never wrong. In these scenarios somebody may act at every moment, so a report (a
// fatal error, hence a failed execution) is a false one. The last scenario is about the opposite:
// whoever falls asleep last sees to it that somebody looks.
#include <gtest/gtest.h>

#include "gmp/completion.h"
#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/foreign.h"

namespace weft::model {
namespace {

// The kernel's list of tasks, one M included. Tasks are listed one by one; one that is created
// meanwhile may be left out.
struct kernel {
  static constexpr int kTasks = 4;
  rt::atomic<int> alive[kTasks];
  bool exists[kTasks] = {};  // the truth

  void add(int task) {
    exists[task] = true;
    alive[task].store(1, std::memory_order_release);  // order: clone() publishes, like any lock
  }
  void remove(int task) {
    alive[task].store(0, std::memory_order_release);  // order: so does the end of a task
    exists[task] = false;
  }
  int list() {
    bool at_start[kTasks];
    for (int i = 0; i < kTasks; ++i) at_start[i] = exists[i];
    int n = 1;
    for (int i = 0; i < kTasks; ++i) {
      if (alive[i].load(std::memory_order_acquire) == 0) continue;  // order: see add()
      const bool new_born = exists[i] && !at_start[i];
      if (!new_born || engine::get().choose(2) == 0) ++n;
    }
    if (engine::get().tracing()) engine::get().trace("tasks: " + std::to_string(n));
    return n;
  }
};

struct state {
  runtime r;
  kernel k;
  rt::completion<rt::waiter> ended, never;

  explicit state(world& w) : r(w, 1, 1) {
    r.idles(0);
    r.watcher(w, "M0", 0);
    r.count_goroutines(1);  // there is a parked goroutine, for which somebody might wait in vain
    tasks = [this] { return k.list(); };
  }
  static bool enlist(rt::waiter* w, void* event) {
    return static_cast<rt::completion<rt::waiter>*>(event)->enlist(w);
  }
  void block_on(rt::completion<rt::waiter>& event) {
    rt::waiter w;
    rt::block_thread(w, enlist, &event);
  }
  void complete() {
    if (rt::waiter* w = ended.complete()) rt::wake_thread(w);
  }
};

// One is woken by another. Then either of the two ends, and the other one lives on.
void woken(world& w, bool waker_ends) {
  auto* s = w.make<state>(w);
  s->k.add(0);
  s->k.add(1);
  w.thread("sleeper", [=] {
    s->block_on(s->ended);
    if (!waker_ends) s->k.remove(0);
  });
  w.thread("waker", [=] {
    s->complete();
    if (waker_ends) s->k.remove(1);
  });
}

// One creates another, and falls asleep.
void creates(world& w) {
  auto* s = w.make<state>(w);
  s->k.add(0);
  w.service("parent", [=] {
    s->k.add(1);
    s->block_on(s->never);
  });
}

// One is woken and ends; its waker creates another one and falls asleep: as many sleep as before.
void as_many_as_before(world& w) {
  auto* s = w.make<state>(w);
  s->k.add(0);
  s->k.add(1);
  w.thread("sleeper", [=] {
    s->block_on(s->ended);
    s->k.remove(0);
  });
  w.service("waker", [=] {
    s->complete();
    s->k.add(2);
    s->block_on(s->never);
  });
}

// One sleeps. Another one creates a third and ends.
void relay(world& w) {
  auto* s = w.make<state>(w);
  s->k.add(0);
  s->k.add(1);
  w.service("sleeper", [=] { s->block_on(s->never); });
  w.thread("relay", [=] {
    s->k.add(2);
    s->k.remove(1);
  });
}

// One sleeps with a limit, so that it may act when its time comes; another one may wake it before, and
// ends in any case. Afterwards nobody counts as asleep.
void with_limit(world& w) {
  auto* s = w.make<state>(w);
  auto* node = w.make<rt::waiter>();
  auto* claim = w.make<rt::wait_claim>();
  node->claim = claim;
  s->k.add(0);
  s->k.add(1);
  w.thread("sleeper", [=] {
    const bool woken = rt::block_thread_until(*node, state::enlist, &s->ended, 1);
    check(woken || claim->taken(), "it has timed out, and somebody may still wake it");
  });
  w.thread("waker", [=] {
    rt::waiter* found = s->ended.complete();
    if (found != nullptr && found->take()) rt::wake_thread(found);
    s->k.remove(1);
  });
  w.finally([] { check(rt::sched.foreign.blocked() == 0, "somebody counts as asleep"); });
}

// The last goroutine has ended and its M falls asleep, while the thread that waits for it does so,
// too. That is a deadlock, so somebody must look.
void last_one_looks(world& w) {
  auto* r = w.make<runtime>(w, 1, 1);
  auto* never = w.make<rt::completion<rt::waiter>>();
  auto* looked = w.make<bool>(false);
  r->holds(0, 0);
  r->dry(w, "M0", 0);
  tasks = [=] {
    *looked = rt::sched.foreign.blocked() == 1;
    return -1;
  };
  w.service("thread", [=] {
    rt::waiter node;
    rt::block_thread(node, state::enlist, never);
  });
  w.finally([=] {
    check(*looked || r->m(0)->watches_deadlock, "everybody sleeps and nobody looks for deadlocks");
  });
}

const protocol kProtocol{
    "deadlock",
    {"gmp/foreign_count.h", "sched/foreign.cc"},
    {"FB1", "tasks-listed-once", "word-read-once", "changes-not-compared", "sleeper-looks-not",
     "counted-with-limit", "counted-off-twice", "woken-before-counted"},
    {
        {"woken, sleeper ends", {.preemptions = 2}, [](world& w) { woken(w, false); }},
        {"woken, waker ends", {.preemptions = 2}, [](world& w) { woken(w, true); }},
        {"with a limit", {.preemptions = 2, .timeouts = 2}, with_limit},
        {"creates", {.preemptions = 3}, creates},
        {"as many as before", {.preemptions = 2}, as_many_as_before},
        {"relay", {.preemptions = 2}, relay},
        {"last one looks", {.preemptions = 3}, last_one_looks},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Deadlock) { expect_all_mutants_caught(kProtocol); }

TEST(Model, TrueDeadlockIsReported) {
  const report r = expect_fails({"all asleep", {}, [](world& w) {
                                   auto* s = w.make<state>(w);
                                   s->k.add(0);
                                   w.service("thread", [=] { s->block_on(s->never); });
                                 }});
  EXPECT_EQ(r.failure, "fatal error: all goroutines are asleep - deadlock!");
}

}  // namespace
}  // namespace weft::model
