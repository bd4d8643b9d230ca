// Exhaustive model of timer/timer_set.h: starting, stopping, firing and moving one event at a time,
// by several threads at once.
//
// What fires does so once, and never after a cancel that returned true. A cancel that returns false
// has waited for fire(), so that the event may be destroyed: whoever touches it afterwards is caught
// as a race on the cell that stands for its memory.
#include <gtest/gtest.h>

#include "model/protocol.h"
#include "timer/timer_set.h"

namespace weft::model {
namespace {

struct event : rt::timer_event {
  rt::cell<int> memory;  // as if it were the frame in which the event lives
  int fired = 0;
  rt::timer_event* restart = nullptr;  // fire() starts this one, in `set`
  rt::timer_set* set = nullptr;
  bool cancels_itself = false;

  explicit event(std::int64_t t) {
    when = t;
    fire = [](rt::timer_event* e, std::int64_t now) {
      check(now >= e->when, "fires at a time that is before its own");
      static_cast<event*>(e)->fires();
    };
    memory.set(1);
  }
  void fires() {
    check(memory.get() == 1, "fires after it is gone");
    ++fired;
    if (cancels_itself) {
      check(!rt::timer_set::cancel(*this, self()), "fire() cancels what fires");
    }
    memory.set(2);
  }
  static const void* self() {
    return reinterpret_cast<const void*>(std::uintptr_t(engine::get().current()) + 1);
  }
  // As the owner: whatever happened, nobody touches it any more.
  bool cancel() {
    const bool was_pending = rt::timer_set::cancel(*this, self());
    check(fired == (was_pending ? 0 : 1), "cancel and fire disagree");
    memory.set(3);
    return was_pending;
  }
};

struct state {
  rt::timer_set a, b;
  event* e[2] = {};

  state(world& w, std::int64_t first, std::int64_t second) {
    e[0] = w.make<event>(first);
    e[1] = w.make<event>(second);
    name(e[0], "first");
    name(e[1], "second");
  }
  void run(rt::timer_set& set, std::int64_t now) {
    if (set.next() > now) return;
    rt::timer_run run(event::self(), 8);
    while (rt::timer_event* due = set.take_due(run, now)) due->fire(due, run.time());
  }
};

void stop_or_fire(world& w) {
  auto* s = w.make<state>(w, 10, 20);
  s->a.start(*s->e[0], 0);
  w.thread("M", [=] { s->run(s->a, 15); });
  w.thread("owner", [=] { s->e[0]->cancel(); });
  w.finally([=] {
    check(s->a.count() == 0, "an event is left");
    check(s->a.next() == rt::kNever, "an empty set has a next time");
  });
}

// Two Ms run the same set, the owner stops both events.
void two_runners(world& w) {
  auto* s = w.make<state>(w, 10, 11);
  s->a.start(*s->e[0], 0);
  s->a.start(*s->e[1], 0);
  w.thread("M0", [=] { s->run(s->a, 15); });
  w.thread("M1", [=] { s->run(s->a, 15); });
  w.thread("owner", [=] {
    s->e[1]->cancel();
    s->e[0]->cancel();
  });
  w.finally([=] { check(s->a.count() == 0, "an event is left"); });
}

// … one of whom has looked at the clock when nothing was due yet but the first.
void two_clocks(world& w) {
  auto* s = w.make<state>(w, 10, 12);
  s->a.start(*s->e[0], 0);
  s->a.start(*s->e[1], 0);
  w.thread("M0", [=] { s->run(s->a, 11); });
  w.thread("M1", [=] { s->run(s->a, 15); });
  w.finally([=] {
    s->run(s->a, 15);
    check(s->e[0]->fired == 1 && s->e[1]->fired == 1, "lost or fired twice");
  });
}

// Stopped and started anew, perhaps elsewhere, while somebody runs what is due.
void reset(world& w) {
  auto* s = w.make<state>(w, 10, 20);
  s->a.start(*s->e[0], 0);
  w.thread("M0", [=] { s->run(s->a, 15); });
  w.thread("owner", [=] {
    event& e = *s->e[0];
    const bool was_pending = e.cancel();
    check(e.fired == (was_pending ? 0 : 1), "reset and fire disagree");
    e.fired = 0;
    e.memory.set(1);
    e.when = 12;
    s->b.start(e, 0);
  });
  w.thread("M1", [=] {
    s->run(s->b, 15);
    s->run(s->b, 15);
  });
  w.finally([=] {
    s->run(s->b, 15);
    check(s->e[0]->fired == 1, "it did not fire once after the reset");
    check(s->a.count() == 0 && s->b.count() == 0, "an event is left");
  });
}

// Whoever claims it has it for himself until he starts it, also after somebody has stopped it.
void claimed(world& w) {
  auto* s = w.make<state>(w, 10, 20);
  auto* mine = w.make<rt::cell<int>>();
  for (const char* text : {"one", "other"}) {
    w.thread(text, [=] {
      event& e = *s->e[0];
      rt::timer_set::claim(e);
      mine->set(mine->get() + 1);
      e.when = 12;
      s->a.start(e, 0);
      rt::timer_set::stop(e);
    });
  }
  w.finally([=] {
    check(mine->get() == 2, "claimed by two at once");
    check(s->a.count() == 0, "an event is left");
  });
}

// Started by one, made visible to another who fires it.
void start_and_fire(world& w) {
  auto* s = w.make<state>(w, 10, 5);
  w.thread("starter", [=] {
    s->a.start(*s->e[0], 0);
    s->a.start(*s->e[1], 0);
  });
  w.thread("M", [=] { s->run(s->a, 15); });
  w.finally([=] {
    s->run(s->a, 15);
    check(s->e[0]->fired == 1 && s->e[1]->fired == 1, "lost or fired twice");
    check(s->a.next() == rt::kNever, "an empty set has a next time");
  });
}

// Its P goes out of use while a plain thread stops it.
void moved(world& w) {
  auto* s = w.make<state>(w, 10, 20);
  s->a.start(*s->e[0], 0);
  s->a.start(*s->e[1], 0);
  w.thread("stopper", [=] {
    s->a.move_to(s->b, 0);
    s->run(s->b, 15);
  });
  w.thread("owner", [=] { s->e[0]->cancel(); });
  w.finally([=] {
    check(s->a.count() == 0 && s->b.count() == 1, "an event is lost");
    check(s->b.next() <= 20, "the set does not know of its event");
  });
}

void fire_cancels_itself(world& w) {
  auto* s = w.make<state>(w, 10, 20);
  s->e[0]->cancels_itself = true;
  s->a.start(*s->e[0], 0);
  w.thread("M", [=] { s->run(s->a, 15); });
  w.thread("other", [=] { s->a.start(*s->e[1], 0); });
  w.finally([=] { check(s->e[0]->fired == 1 && s->a.count() == 1, "lost"); });
}

const protocol kProtocol{
    "timer_set",
    {"timer/timer_set.h"},
    {},
    {
        {"stop or fire", {.preemptions = 4}, stop_or_fire},
        {"two runners", {.preemptions = 3}, two_runners},
        {"two clocks", {.preemptions = 3}, two_clocks},
        {"reset", {.preemptions = 3}, reset},
        {"claimed", {.preemptions = 4}, claimed},
        {"start and fire", {.preemptions = 4}, start_and_fire},
        {"moved", {.preemptions = 4}, moved},
        {"fire cancels itself", {.preemptions = 3}, fire_cancels_itself},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, TimerSet) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
