// Exhaustive model of gmp/completion.h, the event behind joining: park and ready, threads, handles
// that are dropped; and of gmp/limited_waiter.h, joins that give up.
//
// Who waits sees the results, whether he came early or late. A parked goroutine goes on exactly once,
// on one M at a time. Of a dropped handle and the end of its goroutine exactly one frees the record.
// What the runtime adds for plain threads is in deadlock_model.cc.
#include <gtest/gtest.h>
#include <memory>

#include "base/note.h"
#include "gmp/completion.h"
#include "gmp/limited_waiter.h"
#include "gmp/wait_claim.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

// A goroutine that joins another one. What it leaves on its stack is its own again when it goes on.
struct joiner {
  rt::cell<int> stack;
  int resumed = 0;
};

struct waiter {
  rt::cell<joiner*> gp;
  rt::cell<rt::wait_claim*> claim;
  rt::futex_note event;  // of a plain thread: the real one

  bool take() {
    rt::wait_claim* c = claim.get();
    return c == nullptr || c->take();
  }
};

struct state {
  rt::completion<waiter> ended;
  rt::cell<int> result;
  rt::cell<int> record;  // what is freed, or reused
  int recycled = 0;
  joiner g;
  waiter w;

  // The joiner runs (again). False: it has to park.
  bool run(int stack) {
    g.stack.set(stack);
    if (!ended.done()) return false;
    check(result.get() == 1, "joined before the end");
    check(++g.resumed == 1, "a goroutine goes on twice");
    w.gp.set(nullptr);  // the frame that held it is used for something else
    return true;
  }
  // It parks: it leaves its stack, and its successor on the same M commits. [PK-1]
  void join() {
    if (run(1)) return;
    w.gp.set(&g);
    if (!ended.enlist(&w)) {
      check(run(2), "a park was refused before the end");
      return;
    }
    if (mutant("commit-touches-the-parked")) w.gp.get();
  }
  // The goroutine that is joined ends, and readies its joiner on this M. [PK-5]
  void finish() {
    result.set(1);
    waiter* p = ended.complete_in_section();
    if (p == nullptr) return;
    check(p->gp.get()->stack.get() == 1, "readied: a goroutine that has not left its stack");
    check(p->gp.get() == &g && run(3), "readied before the end");
  }
  void recycle() {
    record.set(0);
    check(++recycled == 1, "freed twice");
  }
};

void park_and_ready(world& w) {
  auto* s = w.make<state>();
  w.thread("joiner", [=] { s->join(); });
  w.thread("finisher", [=] { s->finish(); });
  w.finally([=] { check(s->g.resumed == 1, "the joiner never goes on"); });
}

// A plain thread waits; its waiter is gone as soon as it goes on, and so is the event.
void plain_thread(world& w) {
  auto* s = w.make<state>();
  w.thread("thread", [=] {
    while (!s->ended.done()) {
      waiter mine;
      if (s->ended.enlist(&mine)) mine.event.sleep();
    }
    check(s->result.get() == 1, "joined before the end");
    std::destroy_at(&s->ended);
  });
  w.thread("finisher", [=] {
    s->result.set(1);
    if (waiter* p = s->ended.complete()) p->event.wake();
  });
}

void dropped(world& w) {
  auto* s = w.make<state>();
  s->record.set(1);
  w.thread("handle", [=] {
    check(s->record.get() == 1, "freed under a handle");
    if (!s->ended.abandon()) s->recycle();
  });
  w.thread("finisher", [=] {
    check(s->record.get() == 1, "freed before the end");
    waiter* p = s->ended.complete();
    if (rt::completion<waiter>::abandoned(p)) s->recycle();
  });
  w.finally([=] { check(s->recycled == 1, "never freed"); });
}

// A join with a limit, which may come at any time once the waiter is published; then once more without.
struct limited {
  rt::completion<waiter> ended;
  rt::cell<int> result;
  rt::note armed;
  bool in_time = true, by_limit = false, gave_up = false;
  rt::wait_claim claim;
  rt::limited_waiter<waiter> j;
  waiter again, patient;

  void join() {
    j.claim.set(&claim);
    const bool enlisted = ended.enlist(&j);
    in_time = !enlisted;
    armed.wake();
    if (enlisted) {
      j.event.sleep();
      if (by_limit) give_up();
    }
    leave_frame();
    while (!ended.done()) {
      check(gave_up, "woken before the end");
      if (ended.enlist(&patient)) patient.event.sleep();
    }
    check(result.get() == 1, "joined before the end");
  }
  void give_up() {
    gave_up = ended.retract(&j);
    while (!gave_up && !j.dropped.done()) {
      if (j.dropped.enlist(&again)) again.event.sleep();
    }
  }
  void leave_frame() {
    std::destroy_at(&j.claim);
    std::destroy_at(&again.claim);
  }
  void limit() {
    armed.sleep();
    if (in_time || !claim.take()) return;
    by_limit = true;
    j.event.wake();
  }
  void finish() {
    result.set(1);
    waiter* p = ended.complete();
    if (p != nullptr) p = rt::whom_to_wake(p);
    if (p != nullptr) p->event.wake();
  }
};

void with_limit(world& w) {
  auto* s = w.make<limited>();
  w.thread("joiner", [=] { s->join(); });
  w.thread("finisher", [=] { s->finish(); });
  w.thread("limit", [=] { s->limit(); });
}

const protocol kProtocol{
    "completion",
    {"gmp/completion.h", "gmp/limited_waiter.h"},
    {},
    {
        {"park and ready", {.preemptions = 4}, park_and_ready},
        {"plain thread", {.preemptions = 4, .spurious = 1}, plain_thread},
        {"dropped", {.preemptions = 4}, dropped},
        {"with limit", {.preemptions = 3}, with_limit},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Completion) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
