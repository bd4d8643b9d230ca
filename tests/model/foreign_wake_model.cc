// Exhaustive model of how a P reaches a sleeping M, above all from plain threads: inject() against Ms
// that fall asleep, and the note on which they sleep, which the deadlock check pokes as well.
//
// What a plain thread makes runnable runs; no P gets lost on its way; no note is set twice (which is
// fatal, because one of the two wake-ups would be lost).
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "model/scheduler.h"

namespace weft::model {
namespace {

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

// … and nobody may be created for what is injected: the M that is about to sleep comes back.
WEFT_NO_THREAD_SAFETY_ANALYSIS void relies_on_those_there(world& w) {
  auto* s = w.make<state>(w, 1, 2);
  s->holds(0, 0);
  s->dry(w, "M0", 0);
  w.thread("T", [s] {
    s->jobs[0]->prepare();
    rt::sched.lock.lock();
    rt::inject_to_present_unlock(s->jobs[0]);
  });
  s->all_run(w, 1, 1);
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
    {"sched/idle.cc", "sched/deadlock.cc"},
    {"hand-over-ignores-poke", "poke-not-cleared", "poked-twice", "stops-without-looking"},
    {
        {"runs dry", {.preemptions = 3}, runs_dry},
        {"relies on those there", {.preemptions = 3}, relies_on_those_there},
        {"spins", {.preemptions = 2, .old_loads = 2}, spins},
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
