// Exhaustive model of sync/barrier_core.h.
//
// Nobody passes before all have arrived and the completion has run; everybody sees what the others did
// before; who drops out is not waited for; and the last one out may destroy it.
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

using core = rt::barrier_core<waiter>;

struct state {
  core b;
  waiter w[3][2];
  rt::cell<int> part[3];
  rt::cell<int> completed;
  int out = 0;

  explicit state(int n) : b(static_cast<std::uint32_t>(n)) {}

  std::uint32_t arrive(bool drop) {
    const core::arrival a = b.arrive(1, drop ? 1 : 0);
    if (a.completes) {
      completed.set(completed.get() + 1);
      for (waiter* next = b.begin_next(); waiter* p = next;) {
        next = p->next;
        p->event.wake();
      }
    }
    return a.phase;
  }
  void meet(int i, int phase) {
    const std::uint32_t token = arrive(false);
    if (!b.passed(token) && b.push(&w[i][phase], token)) w[i][phase].event.sleep();
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
        {"dropping out", {.preemptions = 3}, dropping_out},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Barrier) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
