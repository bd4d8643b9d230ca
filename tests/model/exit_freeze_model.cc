// Exhaustive model of sched/freeze_core.h: a thread exits while others run goroutines, stops them, and then waits for
// what one of them holds.
//
// A signal comes to its thread whenever that is in its own code, and brings along what its sender has done: the
// kernel locks the thread's queue on both sides. Strangers send signals, too, which bring nothing.
// Checked: there is one guardian. Who is asked freezes, once per request, and goes on only when it is let go after
// that. Who is let go runs, and freezes again. The exiting thread gets what it waits for, and at the end everybody
// is frozen.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "sched/freeze_core.h"

namespace weft::model {
namespace {

constexpr int kExiting = 1, kFirst = 10;  // tids
constexpr int kMost = 2;                  // stragglers

struct state {
  struct straggler {
    int tid = 0;
    bool holds = false;      // what the exiting thread needs
    bool signalled = false;  // … and not taken yet
    knowledge carried;       // by its signals
    bool held = false;       // it has taken a request, and has not gone on
    int asked = 0, froze = 0;
    int turns = 0;        // it has been let go so often
    int turns_then = 0;   // … when it was asked last
    int steps = 0;        // in its own code
    bool handed = false;  // a P, by which it wakes by itself
    note park;
  };

  rt::freeze_core<kMost> core;
  mutex sched_lock;
  straggler s[kMost];
  int stragglers = 0;
  int guardians = 0;
  note roused[2];  // those who may be the guardian
  int candidates = 0;
  bool waits = false, over = false;
  int needed = 0, given = 0;
  int moves = 0;  // the exiting thread may stir for no reason

  bool stuck() const { return waits && needed > given; }
  // Sleeps until that is so. Loops that look for it begin only then: they would add nothing but executions.
  template <class Condition>
  static void await(const Condition& c, const char* what) {
    engine::get().block([](const void* f) { return (*static_cast<const Condition*>(f))(); }, &c,
                        what);
  }

  bool all_held() const { return s[0].held && (stragglers < 2 || s[1].held); }

  // -- the kernel
  static void send(straggler& to) {
    engine& e = engine::get();
    e.point();
    e.tick();
    to.carried.join(e.me().cur);
    to.signalled = true;
    if (e.tracing()) e.trace("sends a signal to " + std::to_string(to.tid));
  }
  static void send_as_stranger(straggler& to) {
    engine::get().point();
    to.signalled = true;
    if (engine::get().tracing()) engine::get().trace("a stranger's signal");
  }

  // -- a straggler
  // As freeze_for_exit().
  bool freeze(straggler& me) {
    if (core.count() == 0) return false;
    const std::uint32_t entry = core.take_request(me.tid);
    if (entry == core.kNobody) return false;
    const int then = me.turns_then;
    check(++me.froze <= me.asked, "somebody freezes without a request");
    me.held = true;
    core.hold(entry, me.tid);
    me.held = false;
    check(me.turns > then, "somebody goes on who was not let go");
    return true;
  }
  void handler(straggler& me) {
    me.signalled = false;
    engine::get().me().cur.join(me.carried);
    if (engine::get().tracing()) engine::get().trace("signal");
    freeze(me);
  }
  void compute(straggler& me) {
    for (;;) {
      if (me.signalled) {
        handler(me);
        continue;
      }
      ++me.steps;
      if (me.holds && needed > given) ++given;
      await([&] { return me.signalled || (me.holds && needed > given); }, "its own code");
    }
  }
  // As go_without_p(): preemption has frozen it, perhaps it was just about to go on.
  void wake_in_exit(straggler& me) {
    if (me.handed) {
      me.handed = false;
      sched_lock.lock();
      sched_lock.unlock();
    } else {
      me.park.sleep();
      me.park.clear();
    }
    while (!freeze(me)) {
      me.park.sleep();
      me.park.clear();
    }
  }

  // -- the exiting thread
  void list_all(int to_signal) {
    sched_lock.lock();
    for (int i = 0; i < kMost && i < stragglers; ++i) {
      s[i].asked += i < to_signal ? 0 : 1;
      core.list(s[i].tid, i >= to_signal);
      if (i < to_signal) continue;
      if (!s[i].handed) s[i].park.wake();
    }
    sched_lock.unlock();
  }
  void call_guardian() {
    core.call_guardian(kExiting);
    for (int i = 0; i < candidates; ++i) roused[i].wake();
    await([this] { return guardians > 0; }, "a guardian");
    while (!core.guarded()) rt::cpu_pause();
  }
  // Nobody has come so far.
  void give_up() {
    for (straggler& each : s) ++each.turns;
    core.let_all_go();
  }
  void stop_all(int to_signal) {
    for (int i = 0; i < to_signal; ++i) ask(i);
    await([this] { return all_held(); }, "those who were asked");
    while (core.frozen_count() < static_cast<std::uint32_t>(stragglers)) rt::cpu_pause();
    check(all_held(), "somebody still runs");
  }
  void ask(int i) {
    ++s[i].asked;
    core.ask(static_cast<std::uint32_t>(i));
    send(s[i]);
  }
  void need(int times) {
    for (int i = 0; i < times; ++i) {
      ++needed;
      waits = true;
      await([this] { return given >= needed; }, "what somebody holds");
      waits = false;
    }
    over = true;
  }

  // -- who may be the guardian
  void maybe_guard(note& call) {
    if (core.take_guard()) guard();
    call.sleep();
    if (core.take_guard()) guard();
  }
  void guard() {
    check(++guardians == 1, "there are two guardians");
    check(core.exiting() == kExiting, "the guardian does not know whom it guards");
    for (std::uint32_t next = 0;; ++next) {
      await([this] { return over || stuck(); }, "the exiting thread to be stuck");
      if (over) return;
      give_turn(next % core.count());
    }
  }
  // Its share is a step.
  void give_turn(std::uint32_t i) {
    straggler& to = s[i];
    const int began = to.steps;
    ++to.turns;
    core.let_go(i);
    if (moves == 0 || engine::get().choose(2) == 0) {
      await([&] { return to.steps > began || !stuck(); }, "a turn");
      while (core.frozen(i) && stuck()) rt::cpu_pause();
    } else {
      --moves;
    }
    ++to.asked;
    core.stop_again(i);
    to.turns_then = to.turns;
    send(to);
  }

  // -- set-up
  void has(world& w, const char* name, bool holds) {
    straggler& me = add(holds);
    w.service(name, [this, &me] { compute(me); });
  }
  void has_frozen(world& w, const char* name, bool holds, bool handed) {
    straggler& me = add(holds);
    me.handed = handed;
    w.service(name, [this, &me] {
      wake_in_exit(me);
      compute(me);
    });
  }
  straggler& add(bool holds) {
    straggler& me = s[stragglers];
    me.tid = kFirst + stragglers++;
    me.holds = holds;
    return me;
  }
  void has_guardian(world& w, const char* name) {
    note& mine = roused[candidates++];
    w.service(name, [this, &mine] { maybe_guard(mine); });
  }
  void ends_frozen(world& w) {
    w.finally([this] { check(all_held(), "somebody runs on at the end"); });
  }
  // They have been listed and asked, and there is a guardian.
  void is_stopping(world& w) {
    for (int i = 0; i < stragglers; ++i) {
      core.list(s[i].tid, true);
      ++s[i].asked;
      s[i].signalled = true;
    }
    core.call_guardian(kExiting);
    w.service("sysmon", [this] {
      if (core.take_guard()) guard();
    });
  }
};

// Two may be the guardian. The straggler sleeps for good.
void election(world& w) {
  auto* s = w.make<state>();
  s->has_guardian(w, "sysmon");
  s->has_guardian(w, "spawner");
  w.thread("exit", [s] {
    s->core.list(kFirst, false);
    s->call_guardian();
    s->over = true;
  });
  w.finally([s] { check(s->guardians == 1, "nobody guards"); });
}

// Those who run are stopped; strangers send a signal meanwhile.
void stop(world& w) {
  auto* s = w.make<state>();
  s->has(w, "one", false);
  s->has(w, "other", false);
  w.thread("exit", [s] {
    s->list_all(2);
    s->stop_all(2);
  });
  w.thread("stranger", [s] { state::send_as_stranger(s->s[0]); });
  s->ends_frozen(w);
}

// One runs, and preemption has frozen the other.
void take_over(world& w, bool handed) {
  auto* s = w.make<state>();
  s->has(w, "one", false);
  s->has_frozen(w, "other", false, handed);
  w.thread("exit", [s] {
    s->list_all(1);
    s->stop_all(1);
  });
  s->ends_frozen(w);
}

// The exiting thread waits for what the only one has; strangers send that a signal.
void turns(world& w, int needs, int moves) {
  auto* s = w.make<state>();
  s->moves = moves;
  s->has(w, "holder", true);
  s->is_stopping(w);
  w.thread("exit", [=] { s->need(needs); });
  w.thread("stranger", [s] { state::send_as_stranger(s->s[0]); });
  s->ends_frozen(w);
}

// … for what the second one has.
void turns_of_two(world& w, int needs, int moves) {
  auto* s = w.make<state>();
  s->moves = moves;
  s->has(w, "other", false);
  s->has(w, "holder", true);
  s->is_stopping(w);
  w.thread("exit", [=] { s->need(needs); });
  s->ends_frozen(w);
}

// From the beginning to the end. Preemption has frozen who has what is needed.
void all_of_it(world& w, bool handed) {
  auto* s = w.make<state>();
  s->has(w, "other", false);
  s->has_frozen(w, "holder", true, handed);
  s->has_guardian(w, "sysmon");
  w.thread("exit", [s] {
    s->list_all(1);
    s->call_guardian();
    s->stop_all(1);
    s->need(1);
  });
  s->ends_frozen(w);
}

// No guardian comes, or comes late. Preemption has frozen who has what is needed.
void unguarded(world& w, bool handed, bool late) {
  auto* s = w.make<state>();
  s->has_frozen(w, "holder", true, handed);
  if (late) s->has_guardian(w, "sysmon");
  w.thread("exit", [=] {
    s->list_all(0);
    s->core.call_guardian(kExiting);
    if (late) s->roused[0].wake();
    s->give_up();
    s->need(1);
  });
}

const protocol kProtocol{
    "exit_freeze",
    {"sched/freeze_core.h"},
    {},
    {
        {"election", {.preemptions = 2}, election},
        {"stop", {.preemptions = 2, .old_loads = 1}, stop},
        {"take over", {.preemptions = 2, .old_loads = 1}, [](world& w) { take_over(w, false); }},
        {"take over as it wakes",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { take_over(w, true); }},
        {"turns", {.preemptions = 1, .old_loads = 1}, [](world& w) { turns(w, 1, 1); }},
        {"turns again", {.preemptions = 1, .old_loads = 0}, [](world& w) { turns(w, 2, 0); }},
        {"turns of two",
         {.preemptions = 0, .old_loads = 0},
         [](world& w) { turns_of_two(w, 1, 0); }},
        {"turns of two that stir",
         {.preemptions = 0, .old_loads = 0},
         [](world& w) { turns_of_two(w, 1, 1); }},
        {"all of it", {.preemptions = 0, .old_loads = 0}, [](world& w) { all_of_it(w, false); }},
        {"all of it, waking",
         {.preemptions = 0, .old_loads = 0},
         [](world& w) { all_of_it(w, true); }},
        {"unguarded",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { unguarded(w, false, false); }},
        {"unguarded, waking",
         {.preemptions = 2, .old_loads = 1},
         [](world& w) { unguarded(w, true, false); }},
        {"guarded late",
         {.preemptions = 1, .old_loads = 0},
         [](world& w) { unguarded(w, false, true); }},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, ExitFreeze) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
