// Exhaustive model of a wait with a limit: gmp/park_gate.h with gmp/wait_claim.h, against an object
// that wakes, a limit that ends, and the commit that runs on the successor's stack.
//
// The goroutine goes on once (its note may be set once), only when it is off its stack, and with what
// the one who ended the wait has written. Nobody touches its frame afterwards: the frame is a cell
// that the goroutine overwrites as soon as it runs again.
#include <gtest/gtest.h>

#include "base/lock.h"
#include "base/note.h"
#include "gmp/park_gate.h"
#include "gmp/wait_claim.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct frame {
  rt::cell<int> memory{0};   // 1 while the wait lasts
  rt::cell<int> context{0};  // 1: registers are saved
  rt::cell<int> end{0};      // who: 1 object, 2 limit, 3 commit on behalf of the limit
  rt::wait_claim claim;
  rt::note resumed;
  std::uint64_t number = 0;
  int runnable = 0;

  // wake(): from here on it runs on any M.
  void go_on() {
    check(++runnable == 1, "made runnable twice");
    check(context.get() == 1, "made runnable while on its stack");
    resumed.wake();
  }
};

struct state {
  rt::park_gate gate;
  rt::ranked_lock lock{rt::lock_rank::leaf};
  frame* listed = nullptr;  // the object's queue, under lock
  frame* f[2];
  bool refuse = false;
  rt::note armed, left;

  explicit state(world& w) {
    for (auto*& each : f) each = w.make<frame>();
    name(f[0], "frame", 0);
    name(f[1], "frame", 1);
  }
  void begin(int i) {
    f[i]->memory.set(1);
    f[i]->number = gate.begin();
  }
  // The successor: the goroutine has left its stack.
  void commit(int i) {
    frame* x = f[i];
    const std::uint64_t n = x->number;
    x->context.set(1);
    if (refuse) {
      x->go_on();
      return;
    }
    {
      const rt::scoped_lock held(lock);
      listed = x;
    }
    if (!gate.parked(n)) x->go_on();
  }
  void limit(int i) {
    frame* x = f[i];
    if (!x->claim.take()) return;
    check(x->memory.get() == 1, "the limit meets a dead frame");
    x->end.set(2);
    if (gate.end(x->number)) x->go_on();
  }
  void object_wakes() {
    frame* x = nullptr;
    {
      const rt::scoped_lock held(lock);
      x = listed;
      if (x != nullptr && !x->claim.take()) x = nullptr;
      if (x != nullptr) listed = nullptr;
    }
    if (x == nullptr) return;
    x->end.set(1);
    x->go_on();
  }
  // The goroutine, when it runs again: the frame is its own.
  int resume(int i) {
    f[i]->resumed.sleep();
    {
      const rt::scoped_lock held(lock);  // W4
      if (listed == f[i]) listed = nullptr;
    }
    const int how = f[i]->end.get();
    f[i]->memory.set(0);
    return how;
  }
};

void limit_or_object(world& w) {
  auto* s = w.make<state>(w);
  s->begin(0);
  w.thread("commit", [=] { s->commit(0); });
  w.thread("limit", [=] {
    s->limit(0);
    s->armed.wake();  // fire() has returned
  });
  w.thread("object", [=] { s->object_wakes(); });
  w.thread("G", [=] {
    s->f[0]->resumed.sleep();
    s->armed.sleep();  // timer_cancel()
    const rt::scoped_lock held(s->lock);
    s->listed = nullptr;
    check(s->f[0]->end.get() != 0, "nobody ended the wait");
    s->f[0]->memory.set(0);
  });
}

void refused(world& w) {
  auto* s = w.make<state>(w);
  s->refuse = true;
  s->begin(0);
  w.thread("commit", [=] { s->commit(0); });
  w.thread("limit", [=] {
    s->limit(0);
    s->armed.wake();
  });
  w.thread("G", [=] {
    s->f[0]->resumed.sleep();
    s->armed.sleep();
    s->f[0]->memory.set(0);
  });
}

// Woken by the object before the commit is over; then it waits again while the first commit is still
// under way, and that one must not take the second wait's end for its own.
void second_commit(world& w) {
  auto* s = w.make<state>(w);
  s->begin(0);
  w.thread("commit 0", [=] {
    s->commit(0);
    s->object_wakes();
  });
  w.thread("object", [=] { s->object_wakes(); });
  w.thread("G", [=] {
    s->resume(0);
    s->begin(1);
    s->left.wake();
    s->commit(1);
    check(s->resume(1) != 0, "nobody ended the second wait");
  });
  w.thread("limit 1", [=] {
    s->left.sleep();
    s->limit(1);
  });
}

const protocol kProtocol{
    "park_gate",
    {"gmp/park_gate.h"},
    {},
    {
        {"limit or object", {.preemptions = 3}, limit_or_object},
        {"refused", {.preemptions = 3}, refused},
        {"second commit", {.preemptions = 2}, second_commit},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, ParkGate) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
