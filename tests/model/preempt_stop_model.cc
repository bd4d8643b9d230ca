// Exhaustive models of goroutines that lose their P (preempt_model.cc) while somebody stops the world. The stop comes about,
// nobody computes meanwhile, and everybody goes on afterwards.
#include <gtest/gtest.h>

#include "model/preempted.h"
#include "model/protocol.h"
#include "sched/world.h"

namespace weft::model {
namespace {

using namespace preempt;  // NOLINT: its whole vocabulary

void stopper(world& w, state* s, const char* text) {
  w.thread(text, [s] {
    rt::stop_world();
    s->stopped = s->has_stopped = true;
    engine::get().point();
    s->stopped = false;
    rt::start_world_with(rt::sched.proc_count());
    s->over = true;
  });
}
// … or has been.
bool gate_is_closed(const void* s) {
  return rt::sched.gate.closed() || static_cast<const state*>(s)->has_stopped;
}

// A goroutine that computes, and says so: not while the world is stopped, unless its P was taken.
job* watched_hog(world& w, state* s, const char* text) {
  job* j = s->add(w, text);
  j->steps = {[s] {
    user_code([s] {
      s->computes[0] = true;
      s->call();
      compute(s->over);
      check(!s->stopped, "a goroutine computes in a stopped world");
      s->call();
    });
  }};
  return j;
}

// sysmon asks those who compute, once the stop has been requested.
void stop_and_ask(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->runs_only(w, watched_hog(w, s, "h"));
  stopper(w, s, "S");
  s->sysmon(w, [=] {
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask_once(0);  // once is enough
  });
  s->all_run(w, 1);
}

// The one that the stop has frozen goes on before the next one, which follows at once.
void stop_again_at_once(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* went_on = w.make<bool>(false);
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([=] {
      s->computes[0] = true;
      compute(s->over);
      *went_on = true;
    });
  }};
  s->runs_only(w, h);
  s->sysmon(w, [=] {
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask_once(0);
  });
  w.thread("S", [=] {
    state::wait_for(s->computes[0]);
    rt::stop_world();
    const bool frozen = rt::sched.frozen_ms > 0;
    s->over = s->has_stopped = true;
    rt::start_world_with(1);
    rt::stop_world();
    check(!frozen || *went_on, "it was not its turn between two stops");
    rt::start_world_with(1);
  });
  s->all_run(w, 1);
}

// One that waits already has a turn before the one whom the stop has frozen, which had one.
void stop_again_beside_one_who_waits(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* went_on = w.make<bool>(false);
  job* older = s->add(w, "h");
  older->steps = {[=] {
    user_code([=] {
      s->computes[0] = true;
      compute(s->over);
      *went_on = true;
    });
  }};
  job* other = s->add(w, "i");
  other->steps = {[=] {
    user_code([=] {
      s->computes[1] = true;
      compute(s->over);
    });
  }};
  s->runs_alone(w, older);
  s->sysmon(w, [=] {
    state::comes(other);
    s->ask_once(0);
    state::wait_for(s->computes[1]);
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask_once(1);
  });
  w.thread("S", [=] {
    state::wait_for(s->computes[1]);
    rt::stop_world();
    const bool both = rt::sched.frozen_ms == 2;
    s->over = s->has_stopped = true;
    rt::start_world_with(1);
    rt::stop_world();
    check(!both || *went_on, "it was not its turn between two stops");
    rt::start_world_with(1);
  });
  s->all_run(w, 1);
}

// One is frozen, and is about to be let go, when the world stops.
void stop_and_thaw(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* ran = w.make<bool>(false);
  s->runs_alone(w, watched_hog(w, s, "h"));
  job* other = s->plain(w, "a", *ran);
  s->sysmon(w, [=] {
    state::comes(other);
    s->ask_once(0);
    // … and again for the stop, if it runs by then.
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask(0, s->has_stopped);
  });
  stopper(w, s, "S");
  s->all_run(w, 1);
}

void stop_and_rob(world& w) {
  auto* s = w.make<state>(w, 1, 4);
  job* h = s->add(w, "h");
  h->steps = {[s] {
    user_code([s] {
      s->computes[0] = true;
      state::wait_for(s->over);  // it blocks: nobody's business in a stopped world
      s->call();
    });
  }};
  s->runs_only(w, h);
  s->sysmon(w, [=] {
    for (int i = 0; i < 2 && !rt::rob(s->p(0), s->m(0), 1, 1, either()) && !s->has_stopped; ++i) {
    }
  });
  stopper(w, s, "S");
  s->all_run(w, 1);
}

// … while somebody else is frozen, who would have got that P.
void stop_and_rob_for_the_frozen(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* freed = w.make<bool>(false);
  s->runs_alone(w, watched_hog(w, s, "h"));
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      s->computes[1] = true;
      state::wait_for(*freed);
      s->call();
    });
  }};
  s->sysmon(w, [=] {
    state::comes(b);
    s->ask_once(0);
    state::wait_for(s->computes[1]);
    rt::rob(s->p(0), s->m(1), 1, 0, either());  // no load is old here
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask(0, s->has_stopped);
    *freed = true;
  });
  w.thread("S", [=] {
    state::wait_for(s->computes[1]);
    rt::stop_world();
    s->stopped = s->has_stopped = true;
    engine::get().point();
    s->stopped = false;
    rt::start_world_with(1);
    s->over = true;
  });
  s->all_run(w, 1);
}

// A timer is due while the only P computes, and an M that stands in borrows it: before the stop, or not at all. Its lender
// computes without it, and is waited for.
void stop_and_lend(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* ran = w.make<bool>(false);
  job* h = s->add(w, "h");
  h->steps = {[s] {
    user_code([s] {
      s->computes[0] = true;
      compute(s->has_stopped);
      check(!s->stopped, "a goroutine computes in a stopped world");
      s->call();
    });
  }};
  state::alarm* a = s->may_be_lent(w, h, *ran);
  s->sysmon(w, [=] {
    rt::arm_timer(nullptr, *a);
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask(0, s->has_stopped);
  });
  stopper(w, s, "S");
  s->all_run(w, 1);
}

// One computes with a lock of libc's, for which an M waits that creates a thread: its P is not taken meanwhile. Otherwise a stop
// of the world, which waits for the thread, would keep it from unlocking when it next calls the runtime.
void stop_and_create(world& w) {
  auto* s = w.make<state>(w, 3, 5, /*anywhere=*/false);
  auto* locked = w.make<bool>(false);
  libc_is_locked = locked;
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([=] {
      *locked = true;
      s->computes[0] = true;
      s->call();
      *locked = false;
    });
  }};
  s->runs(0, 0, h);
  s->serve(w, "M0", 0);
  job* c = s->add(w, "c");
  job* fresh = s->plain(w, "f", *w.make<bool>(false));
  c->steps = {[=] {
    fresh->prepare();
    rt::M* mp = rt::current_m();
    rt::queue_put(mp, mp->p, fresh, /*next=*/true);
    rt::wake_p(mp->p);
  }};
  s->runs(1, 1, c);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    engine::get().block(
        [](const void* f) { return libc_is_wanted || static_cast<const job*>(f)->ran != 0; }, fresh,
        "the creation of a thread");
    if (!s->computes[0] || !libc_is_wanted) return;
    const int wishes = libc_wishes;
    const bool waits = libc_waiters > 0;
    const bool robbed = rt::rob(s->p(0), s->m(0), 1, 1, false);
    const bool same = waits && libc_waiters > 0 && libc_wishes == wishes;
    check(!(robbed && same), "somebody was robbed beside the creation of a thread");
  });
  s->all_run(w, 3);
}

// One was robbed while it had a lock of libc's, and calls the runtime with it. An M that needs another one does not create it
// itself: the world would wait for the thread, that for the lock, and its owner for the world.
void stop_and_create_beside_robbed(world& w) {
  auto* s = w.make<state>(w, 2, 4, /*anywhere=*/false);
  auto* locked = w.make<bool>(false);
  auto* was_robbed = w.make<bool>(false);
  libc_is_locked = locked;
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([=] {
      *locked = true;
      s->computes[0] = true;
      state::wait_for(s->has_stopped);
      s->call();
      *locked = false;
    });
  }};
  s->runs(0, 0, h);
  s->serve(w, "M0", 0);
  job* c = s->add(w, "c");
  job* fresh = s->plain(w, "f", *w.make<bool>(false));
  c->steps = {[=] {
    user_code([=] {
      s->computes[1] = true;
      state::wait_for(*was_robbed);
    });
    fresh->prepare();
    rt::M* mp = rt::current_m();
    rt::queue_put(mp, mp->p, fresh, /*next=*/true);
    rt::wake_p(mp->p);
  }};
  s->runs(1, 1, c);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  s->sysmon(w, [=] {
    state::wait_for(s->computes[1]);
    check(rt::rob(s->p(0), s->m(0), 1, 0, false), "it was not robbed");
    *was_robbed = true;
  });
  w.thread("S", [=] {
    state::wait_for(*was_robbed);
    rt::stop_world();
    s->has_stopped = true;
    rt::start_world_with(rt::sched.proc_count());
  });
  s->all_run(w, 2);
}

// One blocks in a no_preempt scope, and loses its P. When it computes there again, in a stopped world, it has none to keep.
void stop_beside_scope(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* was_robbed = w.make<bool>(false);
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([=] {
      const no_preempt scope;
      s->computes[0] = true;
      state::wait_for(*was_robbed);
      compute(s->over);
      s->call();
    });
  }};
  s->runs_alone(w, h);
  s->sysmon(w, [=] {
    check(rt::rob(s->p(0), s->m(0), 1, 0, false), "it was not robbed");
    *was_robbed = true;
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask_once(0);
  });
  w.thread("S", [=] {
    state::wait_for(*was_robbed);
    rt::stop_world();
    s->has_stopped = true;
    engine::get().block([](const void*) { return rt::sched.frozen_ms == 1; }, nullptr,
                        "one that computes without a P");
    s->over = true;
    rt::start_world_with(1);
  });
  s->all_run(w, 1);
}

void stop_and_block(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->runs_only(w, blocking_job(w, s, "b"));
  stopper(w, s, "S");
  s->all_run(w, 1);
}

// It says that it may block, as others have done for long, and somebody waits: it gives its P away, unless the world stops.
void stop_and_announce(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  job* b = s->add(w, "b");
  b->steps = {[s] {
    // order: a hint
    rt::sched.calls_last.store(true, std::memory_order_relaxed);
    user_code([s] {
      {
        const weft::detail::blocking_call call(false);
        engine::get().point();
      }
      s->call();
    });
  }};
  s->runs_alone(w, b);
  job* other = s->plain(w, "a", *w.make<bool>(false));
  s->queued(0, other);
  stopper(w, s, "S");
  s->all_run(w, 1);
}

// … which it has stopped itself: either way it keeps the P, which has arrived at the gate.
void announce_in_own_stop(world& w, bool surely) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  job* g = s->add(w, "g");
  auto* turn = w.make<rt::waiter>();
  g->steps = {[=] {
                // order: a hint
                rt::sched.calls_last.store(true, std::memory_order_relaxed);
                turn->gp = g;
                park(turn, rt::queue_for_world, nullptr);
              },
              [=] {
                rt::stop_world_in_turn();
                s->stopped = true;
                user_code([=] {
                  const weft::detail::blocking_call call(surely);
                  check(rt::current_m()->p != nullptr, "who has stopped the world has no P");
                });
                s->stopped = false;
                rt::start_world_with(rt::sched.proc_count());
              }};
  s->runs_alone(w, g);
  s->queued(0, s->plain(w, "a", *w.make<bool>(false)));
  s->all_run(w, 1);
}

const protocol kStop{
    "stop",
    {"sched/preempt.cc", "sched/robbed.cc", "sched/blocking.cc", "sched/world.cc", "sched/idle.cc",
     "gmp/stop_gate.h"},
    {"freeze-does-not-arrive", "stopped-goes-first", "hand-off-passes-gate", "gate-shuts-early",
     "stop-forgets-lenders", "lender-does-not-arrive", "robbed-beside-creation",
     "created-beside-robbed", "away-while-stopping", "to-waiting-while-stopping",
     "thaw-gives-no-turn", "scope-without-end"},
    {
        {"asks", {.preemptions = 2, .old_loads = 0}, stop_and_ask},
        {"again at once", {.preemptions = 2, .old_loads = 0}, stop_again_at_once},
        {"again beside one who waits",
         {.preemptions = 1, .old_loads = 0},
         stop_again_beside_one_who_waits},
        {"thaws", {.preemptions = 1, .old_loads = 0}, stop_and_thaw},
        {"robs", {.preemptions = 2, .old_loads = 1}, stop_and_rob},
        {"robs for the frozen", {.preemptions = 1, .old_loads = 0}, stop_and_rob_for_the_frozen},
        {"lends", {.preemptions = 1, .old_loads = 0}, stop_and_lend},
        {"creates", {.preemptions = 1, .old_loads = 0}, stop_and_create},
        {"creates beside one that was robbed",
         {.preemptions = 1, .old_loads = 0},
         stop_and_create_beside_robbed},
        {"beside a scope", {.preemptions = 2, .old_loads = 0}, stop_beside_scope},
        {"blocks", {.preemptions = 2, .old_loads = 1}, stop_and_block},
        {"announces", {.preemptions = 2, .old_loads = 0}, stop_and_announce},
        {"announces in its own stop",
         {.preemptions = 1, .old_loads = 0},
         [](world& w) { announce_in_own_stop(w, /*surely=*/false); }},
        {"blocks in its own stop",
         {.preemptions = 1, .old_loads = 0},
         [](world& w) { announce_in_own_stop(w, /*surely=*/true); }},
    },
};
const enrol_protocol kEnrolledStop(kStop);

TEST(Model, PreemptStop) { expect_all_mutants_caught(kStop); }

}  // namespace
}  // namespace weft::model
