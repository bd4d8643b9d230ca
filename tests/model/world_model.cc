// Exhaustive model of stopping the world: gmp/stop_gate.h, and world.cc, idle.cc and find_runnable.cc
// around it.
//
// W1, W2 and what follows from it: a stopper always comes to stop the world; while it is stopped no other
// goroutine runs; and when it goes on, everything that was runnable runs, and no P is lost.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/world.h"

namespace weft::model {
namespace {

struct state : runtime {
  bool stopped = false;
  bool started = false;  // again
  bool frozen = false;
  int running = 0;  // goroutines, the stopper not counted
  std::vector<job*> jobs;

  using runtime::runtime;

  // A goroutine that takes a while.
  job* worker(world& w, const char* text) {
    job* j = make_job(w, text);
    j->steps = {[this] {
      ++running;
      check(!stopped && !frozen, "a goroutine runs in a stopped world");
      engine::get().point();
      check(!stopped && !frozen, "a goroutine runs in a stopped world");
      --running;
    }};
    jobs.push_back(j);
    return j;
  }
  void stop_and_start(int procs) {
    rt::stop_world();
    stopped_and_start(procs);
  }
  void stopped_and_start(int procs) {
    check(running == 0 && !stopped, "the world has stopped, and a goroutine runs");
    stopped = true;
    engine::get().point();
    check(!frozen || rt::current_m() == nullptr,
          "a goroutine that stopped the world runs in exit()");
    stopped = false;
    started = true;
    rt::start_world_with(procs);
  }
  // A goroutine that waits for its turn as goroutines do.
  job* stopping_goroutine(world& w, const char* text) {
    job* j = make_job(w, text);
    auto* turn = w.make<rt::waiter>();
    j->steps = {[=] {
                  turn->gp = j;
                  park(turn, rt::queue_for_world, nullptr);
                },
                [this] {
                  rt::stop_world_in_turn();
                  stopped_and_start(rt::sched.proc_count());
                }};
    jobs.push_back(j);
    return j;
  }
  void stopper(world& w, const char* text) {
    const int procs = rt::sched.proc_count();
    w.thread(text, [this, procs] { stop_and_start(procs); });
  }
  // As thread_exit.cc.
  void exit() {
    const auto begins = [] {
      exiting_thread = engine::get().current();
      return true;
    };
    check(rt::freeze_world(begins, 1) == rt::world_at_exit::frozen,
          "exit() is not told that all have stopped");
    check(running == 0, "a goroutine runs in exit()");
    frozen = true;
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
  stopping->steps = {[s] { s->stop_and_start(2); }};
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

// It is stopped again at once: who was queued when it started has had his turn by then, however slow his M was to wake.
void again_at_once(world& w, bool globally) {
  auto* s = w.make<state>(w, 1, 3);
  job* a = s->worker(w, "a");
  if (globally) {
    s->idles(0);
    s->sleeper(w, "M0", 0);
  } else {
    s->holds(0, 0);
    s->queued(0, a);
    s->serve(w, "M0", 0);
  }
  s->spares(w, 1);
  w.thread("S", [=] {
    if (globally) {
      a->prepare();
      rt::inject(a);
    }
    rt::stop_world();
    const bool waited = !rt::sched.p(0)->runq.empty() || !rt::sched.runq.empty();
    s->stopped_and_start(1);
    rt::stop_world();
    check(!waited || a->ran == 1, "it was not its turn between two stops");
    s->stopped_and_start(1);
  });
  s->all_run(w, 1);
}

// Goroutines that wait for their turn, parked: whoever starts the world makes the next one runnable.
void goroutines_queue(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  s->queued(0, s->stopping_goroutine(w, "s"));
  s->queued(1, s->stopping_goroutine(w, "r"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->all_run(w, 2);
}

void goroutine_and_thread(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->holds(0, 0);
  s->queued(0, s->stopping_goroutine(w, "s"));
  s->queued(0, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->stopper(w, "S");
  s->all_run(w, 1);
}

// A goroutine that runs on one M only: that M is being handed a P when the world stops.
WEFT_NO_THREAD_SAFETY_ANALYSIS void locked(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->holds(1, 0);
  job* a = s->worker(w, "a");
  s->m(0)->locked_g = a;
  a->locked_m = s->m(0);
  s->queued(1, a);
  ++rt::sched.m_count;  // M0 has no P, and waits for its goroutine
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->stopper(w, "S");
  w.finally([a] { check(a->ran == 1, "a locked goroutine got lost"); });
}

// Two goroutines were queued in view of a spinner, which stops; then the first one computes for ever.
// Whoever starts the world wakes somebody for the second. [MS-6]
void relied_on_a_spinner(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1, /*spinning=*/true);
  job* a = s->worker(w, "a");
  a->steps.front() = [=] { a->endless = s->started; };
  s->queued(0, a);
  s->queued(0, s->worker(w, "b"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->stopper(w, "S");
  w.finally([=] {
    for (job* j : s->jobs) check(j->ran == 1, "a goroutine waits beside an idle P");
    s->check_quiet(a->endless ? 1 : 2);
  });
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

// A deadlock watcher looks just when the world starts again and work has not reached an M yet.
void watched(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->idles(0);
  s->count_goroutines(1);
  s->watcher(w, "M0", 0);
  s->spares(w, 1);
  s->injector(w, "T", s->worker(w, "a"));
  s->stopper(w, "S");
  s->all_run(w, 1);
}

// exit() on a plain thread, while a plain thread stops the world. Both come back.
void exit_beside_stopper(world& w) {
  auto* s = w.make<state>(w, 2, 3);
  s->holds(0, 0);
  s->queued(0, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  s->stopper(w, "S");
  w.thread("E", [s] { s->exit(); });
}

// … while a goroutine does, which is stopped like any other when it has done so.
void exit_beside_goroutine(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  job* stopping = s->make_job(w, "s");
  stopping->steps = {[s] { s->stop_and_start(2); }};
  s->queued(0, stopping);
  s->queued(1, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  w.thread("E", [s] { s->exit(); });
}

// exit() in a goroutine, whose own P a stopper waits for.
void exit_in_goroutine(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  job* ending = s->make_job(w, "e");
  ending->steps = {[s] { s->exit(); }};
  ending->endless = true;
  s->queued(0, ending);
  s->queued(1, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->stopper(w, "S");
  w.finally([s] { check(s->frozen, "exit() does not come back"); });
}

// The stopper itself calls exit().
void exit_by_stopper(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  s->holds(0, 0);
  s->holds(1, 1);
  job* ending = s->make_job(w, "e");
  ending->steps = {[s] {
    rt::stop_world();
    s->exit();
  }};
  ending->endless = true;
  s->queued(0, ending);
  s->queued(1, s->worker(w, "a"));
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  w.finally([s] { check(s->frozen, "exit() does not come back"); });
}

const protocol kProtocol{
    "world",
    {"gmp/stop_gate.h", "sched/world.cc", "sched/idle.cc", "sched/deadlock.cc"},
    {"gate-shuts-early", "stop-forgets-idle", "stop-asks-nobody", "start-wakes-nobody",
     "idle-passes-gate", "hand-off-passes-gate", "restart-unnoticed", "gate-closed-twice",
     "freeze-forgets-stopper", "start-gives-no-turn"},
    {
        {"running", {.preemptions = 2, .old_loads = 1}, running},
        {"goes idle", {.preemptions = 3, .old_loads = 1}, goes_idle},
        {"on its way", {.preemptions = 3, .old_loads = 1}, on_its_way},
        {"handed off", {.preemptions = 2, .old_loads = 0}, handed_off},
        {"by goroutine", {.preemptions = 2, .old_loads = 1}, by_goroutine},
        {"two stoppers", {.preemptions = 2, .old_loads = 0}, two_stoppers},
        {"again at once",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { again_at_once(w, false); }},
        {"again at once, injected",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { again_at_once(w, true); }},
        {"goroutines queue", {.preemptions = 2, .old_loads = 0}, goroutines_queue},
        {"goroutine and thread", {.preemptions = 2, .old_loads = 1}, goroutine_and_thread},
        {"locked", {.preemptions = 2, .old_loads = 0}, locked},
        {"relied on a spinner", {.preemptions = 1, .old_loads = 1}, relied_on_a_spinner},
        {"shrinks", {.preemptions = 1, .old_loads = 1}, shrinks},
        {"watched", {.preemptions = 2, .old_loads = 1}, watched},
        // No time runs out while anybody can run: freezing ends by being told.
        {"exit beside stopper",
         {.preemptions = 2, .old_loads = 0, .timeouts = 0},
         exit_beside_stopper},
        {"exit beside goroutine",
         {.preemptions = 1, .old_loads = 1, .timeouts = 0},
         exit_beside_goroutine},
        {"exit in goroutine", {.preemptions = 2, .old_loads = 0, .timeouts = 0}, exit_in_goroutine},
        {"exit by stopper", {.preemptions = 2, .old_loads = 1, .timeouts = 0}, exit_by_stopper},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, World) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
