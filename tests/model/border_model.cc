// Exhaustive model of gmp/border.h: a P is never used by two; who robs it sees what its owner did with it, and the owner, who
// gets it back, what was done meanwhile.
#include <gtest/gtest.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "gmp/border.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

// An M, its P, and somebody who would like to have that.
struct state {
  rt::border border;
  rt::ranked_lock lock{rt::lock_rank::sched};
  rt::cell<int> p;      // what a P is: written by whoever holds it
  bool mine = true;     // guarded by lock: the M holds it
  bool handed = false;  // guarded by lock: it may take it again
  int robbed = 0;       // by the robber, who uses it for the rest of its time

  state() { border.set_depth(0); }

  void use() { p.set(p.get() + 1); }

  // The M comes to the runtime, uses its P if it has one, and leaves.
  void visit() {
    bool have = true;
    if (!border.enter()) {
      lock.lock();
      if (!mine && handed) {
        mine = true;
        handed = false;
        border.give_back();
      }
      have = mine;
      lock.unlock();
    }
    if (have) use();
    static_cast<void>(border.leave());
  }
  // sysmon.
  void rob() {
    lock.lock();
    if (mine && border.rob()) {
      mine = false;
      robbed = 1;
      use();
    }
    lock.unlock();
  }
  // An M that runs in the owner's place: gives it back when it is done, and the owner need not notice.
  void borrow() {
    lock.lock();
    const bool have = mine && border.rob();
    mine = mine && !have;
    lock.unlock();
    if (!have) return;
    use();
    lock.lock();
    mine = true;
    border.give_back();
    lock.unlock();
  }
  // … and gives it back, as whoever hands over a P does: the owner takes it when it next looks.
  void hand_back() {
    lock.lock();
    handed = !mine;
    lock.unlock();
  }
};

void robbed_between_visits(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [=] {
    s->visit();
    s->visit();
  });
  w.thread("robber", [=] { s->rob(); });
}

void robbed_twice(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [=] {
    s->visit();
    s->visit();
  });
  w.thread("robber", [=] {
    s->rob();
    s->hand_back();
    s->rob();
  });
}

void borrowed(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [=] {
    s->visit();
    s->visit();
  });
  w.thread("borrower", [=] { s->borrow(); });
}

// A section within a section keeps the P.
void nested(world& w) {
  auto* s = w.make<state>();
  w.thread("owner", [=] {
    const bool outer = s->border.enter();
    if (outer) {
      s->visit();
      s->use();
    }
    static_cast<void>(s->border.leave());
  });
  w.thread("robber", [=] { s->rob(); });
}

const protocol kProtocol{
    "border",
    {"gmp/border.h"},
    {"BD1", "BD2", "BD3", "rob-without-fence", "rob-inside"},
    {
        {"between visits", {.preemptions = 4}, robbed_between_visits},
        {"twice", {.preemptions = 3}, robbed_twice},
        {"borrowed", {.preemptions = 4}, borrowed},
        {"nested", {.preemptions = 4}, nested},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Border) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
