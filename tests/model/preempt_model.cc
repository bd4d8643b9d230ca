// Exhaustive models of goroutines that lose their P: sched/preempt.cc, sched/robbed.cc and sched/blocking.cc, on the
// scheduler itself. Signals come between any two operations of the thread that they are sent to.
//
// Preempt: a request is put off while the goroutine is in the runtime, is not lost, and is never acted on there
// (PE1, BD-c). Who is frozen, robbed, or blocks goes on later, once, on its own thread; no P is used by two, and none
// is lost, whoever comes first. A call that is announced loses its P at sysmon's second look, and not for an earlier one.
// What was asked of an M that leaves does not concern the next thread that has its record.
// PreemptStop: the same while somebody stops the world. The stop comes about, nobody computes meanwhile, and
// everybody goes on afterwards.
#include <gtest/gtest.h>

#include <weft/runtime.h>

#include "model/protocol.h"
#include "model/scheduler.h"
#include "sched/preempt.h"
#include "sched/sysmon.h"
#include "sched/world.h"

namespace weft::model {
namespace {

// As it turns out.
bool either() { return engine::get().choose(2) == 1; }

struct state : runtime {
  bool used[kPs] = {};   // by somebody in the runtime
  bool stopped = false;  // the world
  bool has_stopped = false;
  bool over = false;      // nobody need compute any more
  bool computes[2] = {};  // by hog: has come to its code
  std::vector<job*> jobs;

  state(world& w, int procs, int ms, bool anywhere = true) : runtime(w, procs, ms) {
    have_signals(anywhere);
    now = 100;
  }

  job* add(world& w, const char* text) {
    job* j = make_job(w, text);
    jobs.push_back(j);
    return j;
  }
  // What any call of the runtime does: uses its P, which is its own.
  void call() {
    rt::M* mp = rt::enter_runtime();
    rt::P* pp = mp->p;
    check(pp != nullptr, "somebody is in the runtime without a P");
    check(!stopped, "a goroutine is in the runtime of a stopped world");
    bool& mine = used[pp->id];
    check(!mine, "a P is used by two");
    mine = true;
    pp->switches.fetch_add(1, std::memory_order_relaxed);  // order: its owner's counter
    check(mine && mp->p == pp && mp == rt::current_m(), "it has lost its P in the runtime");
    mine = false;
    rt::leave_runtime(mp);
  }
  // Calls, then computes until `until`.
  job* hog(world& w, const char* text, int which, int calls, const bool& until) {
    job* j = add(w, text);
    j->steps = {[this, which, calls, &until] {
      user_code([&] {
        computes[which] = true;
        for (int i = 0; i < calls; ++i) call();
        compute(until);
      });
    }};
    return j;
  }
  // One that has nothing special.
  job* plain(world& w, const char* text, bool& ran) {
    job* j = add(w, text);
    j->steps = {[&ran, this] {
      check(!stopped, "a goroutine runs in a stopped world");
      ran = true;
    }};
    return j;
  }
  void runs(int m, int p, job* j) {
    holds(m, p);
    queued(m, j);
  }
  // As sysmon, whose look under the lock is left out where Ms do not leave.
  WEFT_NO_THREAD_SAFETY_ANALYSIS void ask_once(int m) {
    rt::ask_to_yield(this->m(m), rt::thread_to_signal(this->m(m)));
  }
  void ask_if_there(int m, int p) {
    int tid = 0;
    rt::sched.lock.lock();
    // order: under the lock
    if (this->p(p)->m.load(std::memory_order_relaxed) == this->m(m) && rt::is_running(this->p(p))) {
      tid = rt::thread_to_signal(this->m(m));
    }
    rt::sched.lock.unlock();
    rt::ask_to_yield(this->m(m), tid);
  }
  // sysmon asks again and again; a request for which a new slice begins counts as met (border.h).
  void ask(int m, const bool& served) {
    for (int i = 0; i < 2 && !served; ++i) {
      ask_once(m);
      const asking a{this, m, &served};
      engine::get().block(
          [](const void* which) {
            const auto* it = static_cast<const asking*>(which);
            return *it->served || !it->s->signalled(it->m);
          },
          &a, "a request");
    }
  }
  struct asking {
    state* s;
    int m;
    const bool* served;
  };
  static void wait_for(const bool& flag) {
    engine::get().block([](const void* f) { return *static_cast<const bool*>(f); }, &flag,
                        "a test's own wait");
  }
  void all_run(world& w, int idle_ps) {
    w.finally([this, idle_ps] { check_all_ran(idle_ps); });
  }
  WEFT_NO_THREAD_SAFETY_ANALYSIS void check_all_ran(int idle_ps) {
    for (job* j : jobs) check(j->ran == 1, "a goroutine got lost");
    check(rt::sched.frozen_ms == 0 && rt::sched.robbed_ms == nullptr, "somebody has no P");
    check_quiet(idle_ps);
  }
};

// -- requests ------------------------------------------------------------------------------------

// A goroutine calls the runtime, and computes until another one has run, which waits for its P. sysmon asks once.
void asked(world& w, int calls) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, s->hog(w, "h", 0, calls, *ran));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    other->prepare();
    rt::inject(other);
    s->ask_once(0);
  });
  s->all_run(w, 1);
}

// In a no_preempt scope the request waits for its end.
void asked_in_scope(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  job* h = s->add(w, "h");
  h->steps = {[=] {
    user_code([&] {
      {
        const no_preempt scope;
        s->computes[0] = true;
        s->call();
        check(!*ran, "its P was taken in a no_preempt scope");
      }
      compute(*ran);
    });
  }};
  s->runs(0, 0, h);
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    other->prepare();
    rt::inject(other);
    s->ask_once(0);
  });
  s->all_run(w, 1);
}

// Two compute, and take turns: each is frozen once, and goes on where it was.
void turns(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->runs(0, 0, s->hog(w, "h", 0, 0, s->over));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* second = s->hog(w, "i", 1, 0, s->over);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    second->prepare();
    rt::inject(second);
    s->ask_once(0);
    state::wait_for(s->computes[1]);
    s->ask_once(1);
    s->over = true;
  });
  s->all_run(w, 1);
}

// -- who blocks ----------------------------------------------------------------------------------

// sysmon takes the P of one that is in its own code, while that calls the runtime; somebody waits.
void robbed(world& w, int calls, bool asked_too) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, s->hog(w, "h", 0, calls, s->over));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    other->prepare();
    rt::inject(other);
    if (asked_too) s->ask_once(0);
    rt::rob(s->p(0), s->m(0), 1, 1, either());
    s->over = true;
  });
  s->all_run(w, 1);
}

// One that computes is frozen; the one for which it was frozen blocks, and loses the P to it. With a third one, which any
// M may run, that may go first, or the frozen one, which may have waited for long.
void robbed_for_the_frozen(world& w, bool third_too) {
  auto* s = w.make<state>(w, 1, 4);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, s->hog(w, "h", 0, 0, s->over));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* second = s->hog(w, "i", 1, 1, s->over);
  job* third = third_too ? s->plain(w, "a", *ran) : nullptr;
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    second->prepare();
    rt::inject(second);
    s->ask_once(0);
    state::wait_for(s->computes[1]);
    if (third_too) {
      third->prepare();
      rt::inject(third);
      if (either()) now += 20'000'000;
    }
    rt::rob(s->p(0), s->m(1), 1, third_too ? 1 : 0, either());
    s->over = true;
  });
  s->all_run(w, 1);
}

// Both Ps compute until one has run that waits in the ring of the second. The first is asked, once.
void frozen_for_one_elsewhere(world& w) {
  auto* s = w.make<state>(w, 2, 4);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, s->hog(w, "h", 0, 0, *ran));
  s->runs(1, 1, s->hog(w, "i", 1, 0, *ran));
  s->queued(1, s->plain(w, "a", *ran));
  s->idles(2);
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->sleeper(w, "M2", 2);
  s->spares(w, 3);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    state::wait_for(s->computes[1]);
    s->ask_once(0);
  });
  s->all_run(w, 2);
}

// It says that it will block, and gives its P away; comes back, and calls the runtime. Somebody waits.
job* blocking_job(world& w, state* s, const char* text) {
  job* j = s->add(w, text);
  j->steps = {[s] {
    user_code([s] {
      {
        const weft::detail::blocking_call call(true);
        engine::get().point();
      }
      s->call();
    });
  }};
  return j;
}
void blocks(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, blocking_job(w, s, "b"));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    other->prepare();
    rt::inject(other);
  });
  s->all_run(w, 1);
}

// It says that it may block, and sysmon looks twice, 20 us apart: two looks at one call take its P, if somebody waits. The
// call lasts until that one has run; or it is over at any moment, and then the P is its own, or it gets another one.
void announces(world& w, bool lasts) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      {
        const weft::detail::blocking_call call(false);
        s->computes[0] = true;
        if (lasts) state::wait_for(*ran);
      }
      s->call();
    });
  }};
  s->runs(0, 0, b);
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    other->prepare();
    rt::inject(other);
    rt::retake(now);
    rt::retake(now + 20'000);
  });
  s->all_run(w, 1);
}

// Two calls, each of which is looked at once: neither takes long.
WEFT_NO_THREAD_SAFETY_ANALYSIS void announces_twice(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* ran = w.make<bool>(false);
  auto* looked = w.make<bool>(false);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      {
        const weft::detail::blocking_call call(false);
        s->computes[0] = true;
        state::wait_for(*looked);
      }
      const weft::detail::blocking_call call(false);
      s->computes[1] = true;
      state::wait_for(s->over);
    });
  }};
  s->runs(0, 0, b);
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    other->prepare();
    rt::inject(other);
    rt::retake(now);
    *looked = true;
    state::wait_for(s->computes[1]);
    rt::retake(now + 20'000);
    check(rt::sched.robberies == 0, "a call lost its P for an earlier one");
    s->over = true;
  });
  s->all_run(w, 1);
}

// -- Ms that leave -------------------------------------------------------------------------------

// A goroutine that is asked ends, and takes its thread with it. A new thread takes the record over, and its goroutine is
// asked once: what the last thread did not come to do is forgotten.
void leaves(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  auto* ran = w.make<bool>(false);
  auto* left = w.make<bool>(false);
  job* first = s->add(w, "h");
  first->steps = {[=] {
    user_code([=] { s->computes[0] = true; });
    rt::current_m()->leaves_loop = true;
  }};
  s->runs(0, 0, first);
  s->leaver(w, "M0", 0, *left);
  s->idles(1);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  s->next_thread(w, "N", 0, *left, s->hog(w, "i", 1, 0, *ran));
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    s->ask_if_there(0, 0);
    state::wait_for(s->computes[1]);
    other->prepare();
    rt::inject(other);
    s->ask_if_there(0, 0);
  });
  s->all_run(w, 1);
}

// -- the world stops -------------------------------------------------------------------------------

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
  s->runs(0, 0, watched_hog(w, s, "h"));
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  stopper(w, s, "S");
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    engine::get().block(gate_is_closed, s, "the gate");
    s->ask_once(0);  // once is enough
  });
  s->all_run(w, 1);
}

// One is frozen, and is about to be let go, when the world stops.
void stop_and_thaw(world& w) {
  auto* s = w.make<state>(w, 1, 3, /*anywhere=*/false);
  auto* ran = w.make<bool>(false);
  s->runs(0, 0, watched_hog(w, s, "h"));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* other = s->plain(w, "a", *ran);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    other->prepare();
    rt::inject(other);
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
  s->runs(0, 0, h);
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
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
  s->runs(0, 0, watched_hog(w, s, "h"));
  s->idles(1);
  s->serve(w, "M0", 0);
  s->sleeper(w, "M1", 1);
  s->spares(w, 2);
  job* b = s->add(w, "b");
  b->steps = {[=] {
    user_code([=] {
      s->computes[1] = true;
      state::wait_for(*freed);
      s->call();
    });
  }};
  w.thread("T", [=] {
    sysmon_thread = engine::get().current();
    state::wait_for(s->computes[0]);
    b->prepare();
    rt::inject(b);
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

void stop_and_block(world& w) {
  auto* s = w.make<state>(w, 1, 3);
  s->runs(0, 0, blocking_job(w, s, "b"));
  s->serve(w, "M0", 0);
  s->spares(w, 1);
  stopper(w, s, "S");
  s->all_run(w, 1);
}

const protocol kPreempt{
    "preempt",
    {"sched/preempt.cc", "sched/retake.cc", "gmp/border.h", "gmp/m.h"},
    {"announced-in-vain", "another-call", "signal-of-the-last", "frozen-inside", "request-dropped",
     "scope-forgets-request", "leave-ignores-request", "frozen-for-nothing", "back-but-robbed",
     "back-without-looking", "rob-inside", "BD2"},
    {
        {"asked", {.preemptions = 2, .old_loads = 1}, [](world& w) { asked(w, 1); }},
        {"asked in a scope", {.preemptions = 2, .old_loads = 1}, asked_in_scope},
        {"turns", {.preemptions = 4, .old_loads = 0}, turns},
        {"robbed", {.preemptions = 2, .old_loads = 1}, [](world& w) { robbed(w, 2, false); }},
        {"robbed and asked",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { robbed(w, 1, true); }},
        {"robbed for the frozen",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { robbed_for_the_frozen(w, false); }},
        {"frozen for one elsewhere", {.preemptions = 1, .old_loads = 0}, frozen_for_one_elsewhere},
        {"robbed beside a fresh one",
         {.preemptions = 1, .old_loads = 0},
         [](world& w) { robbed_for_the_frozen(w, true); }},
        {"blocks", {.preemptions = 2, .old_loads = 1}, blocks},
        {"announces",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { announces(w, /*lasts=*/true); }},
        {"announces in passing",
         {.preemptions = 2, .old_loads = 0},
         [](world& w) { announces(w, /*lasts=*/false); }},
        {"announces twice", {.preemptions = 1, .old_loads = 0}, announces_twice},
        {"leaves", {.preemptions = 2, .old_loads = 0}, leaves},
    },
};
const enrol_protocol kEnrolledPreempt(kPreempt);

const protocol kStop{
    "stop",
    {"sched/preempt.cc", "sched/idle.cc", "gmp/stop_gate.h"},
    {"freeze-does-not-arrive", "hand-off-passes-gate", "gate-shuts-early"},
    {
        {"asks", {.preemptions = 2, .old_loads = 0}, stop_and_ask},
        {"thaws", {.preemptions = 1, .old_loads = 0}, stop_and_thaw},
        {"robs", {.preemptions = 2, .old_loads = 1}, stop_and_rob},
        {"robs for the frozen", {.preemptions = 1, .old_loads = 0}, stop_and_rob_for_the_frozen},
        {"blocks", {.preemptions = 2, .old_loads = 1}, stop_and_block},
    },
};
const enrol_protocol kEnrolledStop(kStop);

TEST(Model, Preempt) { expect_all_mutants_caught(kPreempt); }
TEST(Model, PreemptStop) { expect_all_mutants_caught(kStop); }

}  // namespace
}  // namespace weft::model
