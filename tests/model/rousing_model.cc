// Exhaustive model of sync/rousing.h: a sleeper that lists itself before it parks, a waker that takes it
// off the list and rouses it, and a limit that may end the wait at any time.
//
// The sleeper goes on exactly once for each time it parked, knows whether it was chosen, and may leave its
// frame then: nobody touches it any more.
#include <gtest/gtest.h>
#include <memory>

#include "gmp/wait_claim.h"
#include "model/sleepers.h"
#include "sync/rousing.h"

namespace weft::model {
namespace {

struct waiter {
  plain<rt::wait_claim*> claim;
  rt::note event;
  bool take() {
    rt::wait_claim* c = claim;
    return c == nullptr || c->take();
  }
};

struct state {
  model::mutex list;
  bool listed = false;
  rt::rousing<waiter> hands;
  rt::wait_claim claim;
  waiter w, again;
  rt::cell<int> gift;  // what the waker leaves for the one it chose
  bool by_limit = false, chosen = false, timed_out = false;

  void enlist(bool limited) {
    if (limited) w.claim = &claim;
    list.lock();
    listed = true;
    list.unlock();
  }
  void sleep() {
    while (!hands.fired.done()) {
      if (!hands.fired.enlist(&w)) continue;
      w.event.sleep();
      if (by_limit) {
        give_up();
        return;
      }
    }
    choose();
  }
  void give_up() {
    list.lock();
    timed_out = listed;
    listed = false;
    list.unlock();
    if (timed_out) return;
    while (!hands.dropped.done()) {
      if (hands.dropped.enlist(&again)) again.event.sleep();
    }
    choose();
  }
  void choose() {
    check(gift.get() == 1, "roused before it was chosen");
    chosen = true;
  }
  void leave_frame() {
    std::destroy_at(&w.claim);
    std::destroy_at(&again.claim);
  }

  // Who claims takes the wait while it takes the sleeper off: it stays if its limit was first.
  void wake(bool claims = false) {
    list.lock();
    const bool found = listed && (!claims || claim.take());
    if (found) listed = false;
    list.unlock();
    if (!found) return;
    gift.set(1);
    if (waiter* p = hands.rouse(claims)) p->event.wake();
  }
  void limit() {
    if (!claim.take()) return;
    by_limit = true;
    w.event.wake();
  }
};

void without_limit(world& w) {
  auto* s = w.make<state>();
  s->enlist(false);
  w.thread("sleeper", [=] {
    s->sleep();
    s->leave_frame();
  });
  w.thread("waker", [=] { s->wake(); });
  w.finally([=] { check(s->chosen, "never chosen"); });
}

void with_limit(world& w, bool claims) {
  auto* s = w.make<state>();
  s->enlist(true);
  w.thread("sleeper", [=] {
    s->sleep();
    s->leave_frame();
  });
  w.thread("waker", [=] { s->wake(claims); });
  w.thread("limit", [=] { s->limit(); });
  w.finally([=] { check(s->chosen != s->timed_out, "chosen, or timed out: one of them"); });
}
void rouser_claims(world& w) { with_limit(w, false); }
void finder_claims(world& w) { with_limit(w, true); }

const protocol kProtocol{
    "rousing",
    {"sync/rousing.h"},
    {},
    {
        {"without limit", {.preemptions = 4}, without_limit},
        {"rouser claims", {.preemptions = 3}, rouser_claims},
        {"finder claims", {.preemptions = 3}, finder_claims},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Rousing) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
