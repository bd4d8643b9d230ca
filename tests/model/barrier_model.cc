// Exhaustive model of sync/barrier_core.h.
//
// Nobody passes before all have arrived and the completion has run; everybody sees what the others did
// before; who drops out is not waited for; who gives up is not forgotten and not roused; and the last one
// out may destroy it.
#include <gtest/gtest.h>
#include <memory>

#include "model/sleepers.h"
#include "sync/barrier_core.h"

namespace weft::model {
namespace {

struct waiter {
  plain<waiter*> next;
  rt::note event;
};

using core = rt::barrier_core<waiter, sleeper>;

struct state {
  core b;
  waiter w[3][2];
  sleeper limited[3];
  rt::cell<int> part[3];
  rt::cell<int> completed;
  int out = 0;

  explicit state(int n) : b(static_cast<std::uint32_t>(n)) {}

  std::uint32_t arrive(bool drop) {
    const core::arrival a = b.arrive(1, drop ? 1 : 0);
    if (a.completes) {
      completed.set(completed.get() + 1);
      core::waiting all = b.begin_next();
      while (waiter* p = all.wake) {
        all.wake = p->next;
        p->event.wake();
      }
      while (sleeper* p = all.rouse) {
        all.rouse = p->next;
        p->event.wake();
      }
    }
    return a.phase;
  }
  void meet(int i, int phase) {
    const std::uint32_t token = arrive(false);
    if (!b.passed(token) && b.push(&w[i][phase], token)) w[i][phase].event.sleep();
  }
  // With a limit that may come at any time; then once more without.
  void meet_hurriedly(int i) {
    const std::uint32_t token = arrive(false);
    sleeper& n = limited[i];
    if (b.passed(token) || !b.push_limited(&n, token) || n.event.sleep_for(1)) return;
    if (!b.give_up(&n)) {
      n.event.sleep();
    } else if (b.push(&w[i][0], token)) {
      w[i][0].event.sleep();
    }
  }
};

void two_phases(world& w) {
  auto* s = w.make<state>(2);
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "t0" : "t1", [=] {
      s->part[i].set(1);
      s->meet(i, 0);
      check(s->completed.get() == 1, "passed before the completion");
      check(s->part[1 - i].get() == 1, "passed alone");
      s->meet(i, 1);
      s->part[i].set(2);
    });
  }
  w.finally([=] { check(s->completed.get() == 2, "phases"); });
}

void three(world& w) {
  auto* s = w.make<state>(3);
  static const char* const kNames[] = {"t0", "t1", "t2"};
  for (int i = 0; i < 3; ++i) {
    w.thread(kNames[i], [=] {
      s->part[i].set(1);
      s->meet(i, 0);
      for (auto& p : s->part) check(p.get() == 1, "passed before all came");
      if (++s->out == 3) std::destroy_at(&s->b);
    });
  }
}

void hurry(world& w, int parties, int hurried) {
  auto* s = w.make<state>(parties);
  static const char* const kNames[] = {"t0", "t1", "t2"};
  for (int i = 0; i < parties; ++i) {
    w.thread(kNames[i], [=] {
      s->part[i].set(1);
      i < hurried ? s->meet_hurriedly(i) : s->meet(i, 0);
      for (int k = 0; k < parties; ++k) check(s->part[k].get() == 1, "passed before all came");
      check(s->completed.get() == 1, "passed before the completion");
      if (++s->out == parties) std::destroy_at(&s->b);
    });
  }
}
void one_hurries(world& w) { hurry(w, 2, 1); }
void two_hurry(world& w) { hurry(w, 3, 2); }

void dropping_out(world& w) {
  auto* s = w.make<state>(2);
  w.thread("leaver", [=] {
    s->part[0].set(1);
    s->arrive(true);
  });
  w.thread("stayer", [=] {
    s->meet(1, 0);
    check(s->part[0].get() == 1, "passed alone");
    s->meet(1, 1);
  });
  w.finally([=] { check(s->completed.get() == 2, "phases"); });
}

const protocol kProtocol{
    "barrier",
    {"sync/barrier_core.h"},
    {},
    {
        {"two phases", {.preemptions = 3}, two_phases},
        {"three", {.preemptions = 2, .old_loads = 1}, three},
        {"one hurries", {.preemptions = 3}, one_hurries},
        {"two hurry", {.preemptions = 2, .old_loads = 1}, two_hurry},
        {"dropping out", {.preemptions = 3}, dropping_out},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Barrier) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
