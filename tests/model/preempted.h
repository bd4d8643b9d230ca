// The goroutines and threads of the models in which Ps are taken away: preempt_model.cc, preempt_stop_model.cc.
#pragma once

#include <vector>

#include <weft/runtime.h>

#include "model/scheduler.h"
#include "sched/preempt.h"

namespace weft::model::preempt {

// As it turns out.
inline bool either() { return engine::get().choose(2) == 1; }

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
  // The only P is its own; a second M sleeps, and others may be made.
  void runs_alone(world& w, job* j) {
    runs(0, 0, j);
    idles(1);
    serve(w, "M0", 0);
    sleeper(w, "M1", 1);
    spares(w, 2);
  }
  // … and there is no second M so far.
  void runs_only(world& w, job* j) {
    runs(0, 0, j);
    serve(w, "M0", 0);
    spares(w, 1);
  }
  struct alarm : rt::timer_event {
    job* wakes = nullptr;
  };
  // The only P is the lender's. A second M stands in: it borrows the P for whom the timer wakes, once that is armed.
  WEFT_NO_THREAD_SAFETY_ANALYSIS alarm* may_be_lent(world& w, job* lender, bool& ran) {
    runs(0, 0, lender);
    auto* a = w.make<alarm>();
    a->wakes = plain(w, "a", ran);
    a->when = now;
    a->fire = [](rt::timer_event* e, std::int64_t) {
      rt::M* mp = rt::current_m();
      job* j = static_cast<alarm*>(e)->wakes;
      j->prepare();
      rt::queue_put(mp, mp->p, j, /*next=*/true);
    };
    idles(1);
    m(1)->stands_in = true;
    serve(w, "M0", 0);
    watcher(w, "M1", 1);
    spares(w, 2);
    return a;
  }
  // What sysmon does once the first goroutine has come to its code.
  template <class F>
  void sysmon(world& w, F does) {
    w.thread("T", [this, does] {
      sysmon_thread = engine::get().current();
      wait_for(computes[0]);
      does();
    });
  }
  // It becomes runnable.
  static void comes(job* j) {
    j->prepare();
    rt::inject(j);
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

// It says that it will block, and gives its P away; comes back, and calls the runtime.
inline job* blocking_job(world& w, state* s, const char* text) {
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

}  // namespace weft::model::preempt
