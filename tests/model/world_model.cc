// Exhaustive model of stopping the world: gmp/stop_gate.h, and world.cc, idle.cc and find_runnable.cc
// around it.
//
// W1 and what follows from it: a stopper always comes to stop the world; while it is stopped no other
// goroutine runs; and when it goes on, everything that was runnable runs, and no P is lost.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/world.h"

namespace weft::model {
namespace {

struct state : runtime {
  bool stopped = false;
  int running = 0;  // goroutines, the stopper not counted
  std::vector<job*> jobs;

  using runtime::runtime;

  // A goroutine that takes a while.
  job* worker(world& w, const char* text) {
    job* j = make_job(w, text);
    j->body = [this] {
      ++running;
      check(!stopped, "a goroutine runs in a stopped world");
      engine::get().point();
      check(!stopped, "a goroutine runs in a stopped world");
      --running;
    };
    jobs.push_back(j);
    return j;
  }
  // It is queued on P p, whose M will run it.
  void queued(int m, job* j) {
    j->prepare();
    rt::queue_put(this->m(m), this->m(m)->p, j, /*next=*/false);
  }
  void stop_and_start(int procs) {
    rt::stop_world();
    check(running == 0, "the world has stopped, and a goroutine runs");
    stopped = true;
    engine::get().point();
    stopped = false;
    rt::start_world_with(procs);
  }
  void stopper(world& w, const char* text) {
    const int procs = rt::sched.proc_count();
    w.thread(text, [this, procs] { stop_and_start(procs); });
  }
  void injector(world& w, const char* text, job* j) {
    w.thread(text, [j] {
      j->prepare();
      rt::inject(j);
    });
  }
  void all_run(world& w, int idle_ps) {
    w.finally([this, idle_ps] {
      for (job* j : jobs) check(j->ran == 1, "a goroutine got lost");
      check_quiet(idle_ps);
    });
  }
};

// An M has work; it stops between two goroutines.
void running(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  s->holds(0, 0);
  s->queued(0, s->worker(w, "a"));
  s->queued(0, s->worker(w, "b"));
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->stopper(w, "S");
  s->all_run(w, 2);
}

void goes_idle(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->holds(0, 0);
  s->dry(w, "M0", 0);
  s->spares(w, 1);
  s->stopper(w, "S");
  s->all_run(w, 1);
}

// A P is on its way to a sleeping M, or the goroutine comes when the world has stopped.
void on_its_way(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->idles(0);
  s->sleeper(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", s->worker(w, "a"));
  s->stopper(w, "S");
  s->all_run(w, 1);
}

void handed_off(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  s->queued(1, s->worker(w, "a"));
  s->thread(w, "M0", 0, [s] { rt::hand_off_p(rt::release_p(s->m(0), rt::p_status::idle)); });
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->stopper(w, "S");
  s->all_run(w, 2);
}

// The stopper is a goroutine.
void by_goroutine(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  job* stopping = s->make_job(w, "s");
  stopping->body = [s] { s->stop_and_start(2); };
  s->queued(0, stopping);
  s->queued(1, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->all_run(w, 2);
}

void two_stoppers(world& w) {
  auto* s = w.make<state>(w, 1, 4);
  s->holds(0, 0);
  s->queued(0, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->stopper(w, "S");
  s->stopper(w, "R");
  s->all_run(w, 1);
}

// Somebody relied on a spinner that stops. Whoever starts the world wakes another one. [MS-6]
void relied_on_a_spinner(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1, /*spinning=*/true);
  job* a = s->worker(w, "a");
  s->thread(w, "M0", 0, [s, a] {
    s->submit(0, a);
    rt::P* pp = s->m(0)->p;
    // A scheduling point, and then it computes for ever.
    if (pp->attention.load(WEFT_ORDER(AT1, relaxed)) != 0) rt::stop_for_world(s->m(0));
  });
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->stopper(w, "S");
  s->all_run(w, 1);
}

// Fewer Ps than before: what was queued on the one that goes runs elsewhere. [MP-4]
void shrinks(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  s->queued(1, s->worker(w, "a"));
  s->queued(1, s->worker(w, "b"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  w.thread("S", [s] { s->stop_and_start(1); });
  s->all_run(w, 1);
}

const protocol kProtocol{
    "world",
    {"gmp/stop_gate.h", "sched/world.cc", "sched/idle.cc"},
    {"gate-shuts-early", "stop-forgets-idle", "stop-asks-nobody", "start-wakes-nobody",
     "idle-passes-gate", "hand-off-passes-gate"},
    {
        {"running", {.preemptions = 2, .old_loads = 1}, running},
        {"goes idle", {.preemptions = 3, .old_loads = 1}, goes_idle},
        {"on its way", {.preemptions = 3, .old_loads = 1}, on_its_way},
        {"handed off", {.preemptions = 2, .old_loads = 1}, handed_off},
        {"by goroutine", {.preemptions = 2, .old_loads = 1}, by_goroutine},
        {"two stoppers", {.preemptions = 2, .old_loads = 1}, two_stoppers},
        {"relied on a spinner", {.preemptions = 2, .old_loads = 1}, relied_on_a_spinner},
        {"shrinks", {.preemptions = 2, .old_loads = 1}, shrinks},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, World) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
