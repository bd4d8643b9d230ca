// Exhaustive model of how a P reaches a sleeping M, above all from plain threads: inject() against Ms
// that fall asleep, and the note on which they sleep, which the deadlock check pokes as well.
//
// What a plain thread makes runnable runs; no P gets lost on its way; no note is set twice (which is
// fatal, because one of the two wake-ups would be lost).
#include <gtest/gtest.h>

#include "gmp/completion.h"
#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/foreign.h"

namespace weft::model {
namespace {

// At the end, when there are no threads.
WEFT_NO_THREAD_SAFETY_ANALYSIS std::int32_t spares_on_their_way() {
  return rt::sched.spares_coming;
}

struct state : runtime {
  job* jobs[3] = {};

  state(world& w, int procs, int ms) : runtime(w, procs, ms) {
    static const char* const kNames[] = {"a", "b", "c"};
    for (int i = 0; i < 3; ++i) jobs[i] = make_job(w, kNames[i]);
    count_goroutines(1);  // so that Ms that fall asleep last watch for deadlocks
    tasks = [] { return -1; };
  }
  void inject(int i) {
    jobs[i]->prepare();
    rt::inject(jobs[i]);
  }
  void injector(world& w, const char* text, int i) {
    w.thread(text, [this, i] { inject(i); });
  }
  // A plain thread ends or falls asleep: somebody shall look for deadlocks.
  void poker(world& w, const char* text) {
    w.thread(text, [] { rt::look_for_deadlock_soon(); });
  }
  void all_run(world& w, int n, int idle_ps) {
    w.finally([this, n, idle_ps] {
      for (int i = 0; i < n; ++i) check(jobs[i]->ran == 1, "lost wake-up: it never runs");
      check_quiet(idle_ps);
    });
  }
};

// The only M runs dry meanwhile.
void runs_dry(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->holds(0, 0);
  s->dry(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", 0);
  s->all_run(w, 1, 1);
}

// … for somebody who may create no threads: the spawner does, if it must. As start_helper().
WEFT_NO_THREAD_SAFETY_ANALYSIS void helper(world& w, state* s, int idle_ps) {
  w.thread("T", [s] {
    sysmon_thread = engine::get().current();
    s->jobs[0]->prepare();
    rt::sched.lock.lock();
    rt::inject_unlock(s->jobs[0]);
  });
  s->all_run(w, 1, idle_ps);
}
void helper_while_one_runs_dry(world& w) {
  auto* s = w.make<state>(w, 1, 2);
  s->holds(0, 0);
  s->dry(w, "M0", 0);
  s->spares(w, 1);
  helper(w, s, 1);
}

// The only M sleeps for its goroutine. [MS-5]
void helper_beside_a_locked_one(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->holds(0, 0);
  s->m(0)->locked_g = s->jobs[1];  // which never wakes
  s->jobs[1]->locked_m = s->m(0);
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  helper(w, s, 1);
}

// One leaves for good, the other one computes for ever. [M-5]
void helper_beside_a_leaving_one(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  s->holds(0, 0);
  s->holds(1, 1);
  s->thread(w, "M0", 0, [s] { rt::leave_m(s->m(0)); });
  s->spares(w, 2);
  helper(w, s, 1);
}

// Who leaves last leaves somebody who looks for deadlocks.
void last_one_leaves(world& w) {
  auto* s = w.make<state>(w, 1, 2);
  auto* never = w.make<rt::completion<rt::waiter>>();
  auto* looked = w.make<bool>(false);
  s->holds(0, 0);
  s->thread(w, "M0", 0, [s] { rt::leave_m(s->m(0)); });
  s->spares(w, 1);
  tasks = [=] {
    *looked = rt::sched.foreign.blocked() == 1;
    return -1;
  };
  w.service("T", [=] {
    rt::waiter node;
    rt::block_thread(
        node,
        [](rt::waiter* sleeper, void* event) {
          return static_cast<rt::completion<rt::waiter>*>(event)->enlist(sleeper);
        },
        never);
  });
  w.finally([=] {
    check(*looked || s->m(1)->watches_deadlock, "everybody sleeps and nobody looks for deadlocks");
    check(spares_on_their_way() == 0, "a spare M is counted that will not come");
  });
}

// The same where the last goroutine has ended: then only who sleeps already needs somebody.
void last_one_leaves_nothing(world& w) {
  last_one_leaves(w);
  rt::sched.foreign_goroutines.store(0,
                                     std::memory_order_relaxed);  // order: before there are threads
}

// The first goroutine, on a thread that is lent to it only until it leaves that: it parks, and is woken meanwhile,
// and others could run it at once.
void loan_ends(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  auto* event = w.make<rt::completion<rt::waiter>>();
  auto* node = w.make<rt::waiter>();
  auto* left = w.make<bool>(false);
  job* j = s->jobs[0];
  rt::M* mp = s->m(0);
  node->gp = j;
  s->holds(0, 0);
  rt::link_to_m(mp, j);
  mp->locked_by_runtime = 1;
  mp->lent = mp->lent_once = mp->leaves_loop = true;
  j->prepare();
  mp->preselected = j;
  j->steps = {[=] {
                park(
                    node,
                    [](rt::waiter* sleeper, void* e) {
                      return static_cast<rt::completion<rt::waiter>*>(e)->enlist(sleeper);
                    },
                    event);
              },
              [=] { check(rt::current_m() != mp, "it runs on a thread that is wanted back"); }};
  s->leaver(w, "M0", 0, *left);
  s->spares(w, 1);
  w.thread("T", [=] {
    if (rt::waiter* sleeper = event->complete()) rt::wake(sleeper);
  });
  w.finally([=] {
    check(j->ran == 1, "lost wake-up: it never runs");
    check(*left, "the thread is not given back");
    s->check_quiet(2);
  });
}

// The same where an M may spin.
void spins(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0, /*spinning=*/true);
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", 0);
  s->all_run(w, 1, 2);
}

// … and dozes with the only P.
void dozes(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->holds(0, 0, /*spinning=*/true);
  s->napper(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", 0);
  s->all_run(w, 1, 1);
}

void two_threads(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->idles(0);
  s->watcher(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", 0);
  s->injector(w, "U", 1);
  s->all_run(w, 2, 2);
}

// A P and a poke reach the M that watches.
void poked(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->idles(0);
  s->watcher(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", 0);
  s->poker(w, "U");
  s->poker(w, "V");
  s->all_run(w, 1, 1);
}

// Two Ms sleep, one watches; a P and a poke.
void poked_beside_another(world& w) {
  auto* s = w.make<state>(w, 1, 2);
  s->idles(0);
  s->idles(1);
  s->sleeper(w, "M0", 0);
  s->watcher(w, "M1", 1);
  s->injector(w, "T", 0);
  s->poker(w, "U");
  s->all_run(w, 1, 1);
}

// The goroutine of a locked M is made runnable while that M still falls asleep. [MS-5]
void locked(world& w) {
  auto* s = w.make<state>(w, 1, 4);
  s->holds(0, 0);
  s->idles(1);
  s->m(0)->locked_g = s->jobs[0];
  s->jobs[0]->locked_m = s->m(0);
  s->jobs[0]->endless = true;
  s->serve(w, "M0", 0);
  s->watcher(w, "M1", 1);
  s->spares(w, 2);
  s->injector(w, "T", 0);
  s->poker(w, "U");
  s->all_run(w, 1, 0);
}

const protocol kProtocol{
    "foreign",
    {"sched/idle.cc", "sched/deadlock.cc", "sched/foreign.cc", "sched/joining.cc"},
    {"hand-over-ignores-poke", "poke-not-cleared", "poked-twice", "helper-waits-for-an-m",
     "unmanned-unnoticed", "leaves-nobody", "leaves-a-sleeper", "inject-lets-doze"},
    {
        {"runs dry", {.preemptions = 3}, runs_dry},
        {"helper while one runs dry", {.preemptions = 3}, helper_while_one_runs_dry},
        {"helper beside a locked one", {.preemptions = 3}, helper_beside_a_locked_one},
        {"helper beside a leaving one", {.preemptions = 3}, helper_beside_a_leaving_one},
        {"last one leaves", {.preemptions = 3}, last_one_leaves},
        {"last one leaves nothing", {.preemptions = 3}, last_one_leaves_nothing},
        {"loan ends", {.preemptions = 2, .old_loads = 1, .timeouts = 0}, loan_ends},
        {"spins", {.preemptions = 2, .old_loads = 2}, spins},
        {"dozes", {.preemptions = 3, .timeouts = 0}, dozes},
        {"two threads", {.preemptions = 2, .old_loads = 1, .timeouts = 0}, two_threads},
        {"poked", {.preemptions = 2, .old_loads = 1}, poked},
        {"poked beside another", {.preemptions = 2, .old_loads = 1}, poked_beside_another},
        {"locked", {.preemptions = 2, .old_loads = 1}, locked},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, ForeignWake) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
