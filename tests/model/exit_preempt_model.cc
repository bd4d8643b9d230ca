// Exhaustive models of the end of the process beside goroutines that have lost their P (preempt_model.cc): sched/preempt.cc,
// sched/robbed.cc, sched/borrow.cc and sched/world.cc, and exit() on a plain thread, or in one of those goroutines.
//
// The exiting thread always comes back (P3), and from then on no goroutine is in its own code: whoever is stopped there
// by preemption is held for exit() as well, and can be let go by its guardian. Who comes to the runtime by itself
// is not waited for until the time is over.
#include <gtest/gtest.h>

#include "model/preempted.h"
#include "model/protocol.h"
#include "sched/world.h"

namespace weft::model {
namespace {

using namespace preempt;  // NOLINT: its whole vocabulary

struct exiting_state : state {
  bool exited = false;
  bool all_rested = false;
  const rt::M* first = m(0);

  exiting_state(world& w, int procs, int ms) : state(w, procs, ms, /*anywhere=*/false) {}

  // In a goroutine's own code.
  void runs_on() const {
    take_signal_if_due();
    check(!exited, "a goroutine runs in exit()");
  }
  // Computes, and would be seen if it went on at the end.
  job* watched(world& w, const char* text, int which, int calls) {
    job* j = add(w, text);
    j->steps = {[=, this] {
      user_code([=, this] {
        computes[which] = true;
        for (int i = 0; i < calls; ++i) {
          call();
          runs_on();
        }
        compute(over);
        runs_on();
      });
    }};
    return j;
  }
  void exit() {
    all_rested = exit_process();
    exited = over = true;
  }
  void exiter(world& w) {
    w.thread("E", [this] {
      wait_for(computes[0]);
      exit();
    });
  }
  // The P of M0 has been lent, perhaps given back, too.
  void wait_for_loan() {
    engine::get().block(
        [](const void* it) {
          const auto* s = static_cast<const exiting_state*>(it);
          return s->first->lends || s->jobs.back()->ran != 0;
        },
        this, "a loan");
  }
  // It blocks until `until`, and then calls exit().
  job* exiting(world& w, const char* text, const bool& until) {
    job* j = add(w, text);
    j->steps = {[this, &until] {
      user_code([this, &until] {
        computes[0] = true;
        wait_for(until);
        exit();
      });
    }};
    j->endless = true;
    return j;
  }
  // A plain thread. It comes to nothing if somebody who computes is held.
  void stopper(world& w) {
    w.service("S", [this] {
      wait_for(computes[0]);
      rt::stop_world();
      has_stopped = true;
      rt::start_world_with(rt::sched.proc_count());
    });
  }
  void ends(world& w, int ms) {
    w.finally([=, this] { check_end(ms); });
  }
  WEFT_NO_THREAD_SAFETY_ANALYSIS void check_end(int ms) {
    check(exited, "exit() does not come back");
    for (int i = 0; i < ms; ++i) {
      check(!m(i)->frozen_outside || held_in_exit(i), "one that is frozen cannot be let go");
    }
  }
};

// -- who is frozen -------------------------------------------------------------------------------

// One is frozen for another, which ends: the P is lent to it again, when the process exits.
void thaws(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  s->runs_alone(w, s->watched(w, "h", 0, 0));
  job* other = s->plain(w, "a", *w.make<bool>(false));
  s->sysmon(w, [=] {
    state::comes(other);
    s->ask_once(0);
  });
  s->exiter(w);
  s->ends(w, 2);
}

// … or for a stop of the world, which goes on at that moment.
void stops_and_thaws(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  s->runs_only(w, s->watched(w, "h", 0, 0));
  s->stopper(w);
  s->sysmon(w, [=] {
    engine::get().block(
        [](const void* it) {
          return rt::sched.gate.closed() || static_cast<const exiting_state*>(it)->has_stopped;
        },
        s, "the gate");
    s->ask_once(0);
  });
  s->exiter(w);
  s->ends(w, 1);
}

// -- who is robbed -------------------------------------------------------------------------------

// It calls the runtime again, while another one has its P.
void comes_back(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  s->runs_alone(w, s->watched(w, "h", 0, 1));
  job* other = s->plain(w, "a", *w.make<bool>(false));
  s->sysmon(w, [=] {
    state::comes(other);
    rt::rob(s->p(0), s->m(0), 1, 1, false);
  });
  s->exiter(w);
  s->ends(w, 2);
}

// It lends its P to whom a timer wakes, and comes to the runtime: nobody computes, and no time runs out.
void lends(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  job* h = s->add(w, "h");
  h->steps = {[s] {
    user_code([s] {
      s->computes[0] = true;
      s->wait_for_loan();
      s->call();
      s->runs_on();
    });
  }};
  state::alarm* a = s->may_be_lent(w, h, *w.make<bool>(false));
  s->sysmon(w, [=] { rt::arm_timer(nullptr, *a); });
  w.thread("E", [s] {
    s->wait_for_loan();
    s->exit();
  });
  w.finally([=] {
    s->check_end(2);
    check(s->all_rested, "exit() has waited in vain for one that has come to the runtime");
  });
}

// Its turn has come, on a thread of its own, which is slow to wake.
WEFT_NO_THREAD_SAFETY_ANALYSIS void locked_wakes(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  job* l = s->add(w, "l");
  l->steps = {[=] { user_code([=] { s->runs_on(); }); }};
  s->m(0)->locked_g = l;
  l->locked_m = s->m(0);
  s->runs(1, 0, l);
  ++rt::sched.m_count;  // M0 has no P, and waits for its goroutine
  s->serve(w, "M0", 0);
  s->serve(w, "M1", 1);
  s->spares(w, 2);
  w.thread("E", [s] { s->exit(); });
  s->ends(w, 2);
}

// -- exit() without a P --------------------------------------------------------------------------

// It has lost its P because it blocked. Somebody stops the world, before or meanwhile.
void exits_robbed(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  auto* robbed = w.make<bool>(false);
  s->runs_alone(w, s->exiting(w, "e", *robbed));
  job* other = s->plain(w, "a", *w.make<bool>(false));
  s->sysmon(w, [=] {
    state::comes(other);
    rt::rob(s->p(0), s->m(0), 1, 1, false);
    *robbed = true;
  });
  s->stopper(w);
  w.finally([=] { s->check_end(2); });
}

// It has lent its P.
void exits_as_lender(world& w) {
  auto* s = w.make<exiting_state>(w, 1, 3);
  auto* at_once = w.make<bool>(true);
  state::alarm* a = s->may_be_lent(w, s->exiting(w, "e", *at_once), *w.make<bool>(false));
  s->sysmon(w, [=] { rt::arm_timer(nullptr, *a); });
  s->stopper(w);
  w.finally([=] { s->check_end(2); });
}

const protocol kProtocol{
    "exit_preempt",
    {"sched/preempt.cc", "sched/world.cc", "sched/schedule.cc"},
    {"locked-past-exit", "exit-before-p", "lender-stays-away", "roused-with-a-p", "roused-unpoked",
     "frozen-past-exit", "back-unlisted"},
    {
        {"stops and thaws", {.preemptions = 1, .old_loads = 0}, stops_and_thaws},
        {"lends", {.preemptions = 1, .old_loads = 0, .timeouts = 0}, lends},
        {"exits, robbed", {.preemptions = 1, .old_loads = 0}, exits_robbed},
        {"exits as a lender", {.preemptions = 1, .old_loads = 0}, exits_as_lender},
        {"locked wakes", {.preemptions = 1, .old_loads = 0}, locked_wakes},
        {"thaws", {.preemptions = 2, .old_loads = 0}, thaws},
        {"comes back", {.preemptions = 2, .old_loads = 0}, comes_back},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, ExitPreempt) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
