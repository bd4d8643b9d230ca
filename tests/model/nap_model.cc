// Exhaustive model of gmp/nap.h: who dozes sees new work before it falls asleep, or is poked; and what
// is handed over while it dozes, without a full fence, it sees at the end of its nap at the latest.
#include <gtest/gtest.h>

#include "base/atomic.h"
#include "gmp/nap.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::nap dozer;
  rt::atomic<int> work{0};
  int submitted = 0;
  int relied = 0;  // handed over, because somebody will look
  int seen = 0;

  void submit(int n) {
    work.store(n,
               WEFT_ORDER(TT0, relaxed));  // order: relaxed, the fence in poke_fenced() orders it
    dozer.poke_fenced();
    submitted = n;
  }
  void hand_over() {
    work.store(1, WEFT_ORDER(TT0, relaxed));  // order: relaxed, the fence in will_look() orders it
    if (dozer.will_look()) relied = 1;
  }
  int look() {
    // order: relaxed, the fences of begin(), sleep() and end() order it
    return work.load(WEFT_ORDER(TT0, relaxed));
  }
  // Until there is so much work. Time is up only when nobody else can run: then a poke was lost.
  void doze_until(int n) {
    if (!dozer.begin()) return;
    while (look() < n) {
      const int before = submitted;
      const bool woken = dozer.sleep();
      check(woken || before == submitted, "work was submitted, and the nap went on");
      if (!woken) break;
    }
    dozer.end();
  }
  // One nap.
  void doze() {
    if (!dozer.begin()) return;
    if (look() == 0) dozer.sleep();
    dozer.end();
    seen = look();
  }
};

void one_submits(world& w) {
  auto* s = w.make<state>();
  w.thread("dozer", [=] { s->doze_until(1); });
  w.thread("submitter", [=] { s->submit(1); });
}

void twice(world& w) {
  auto* s = w.make<state>();
  w.thread("dozer", [=] { s->doze_until(2); });
  w.thread("submitter", [=] {
    s->submit(1);
    s->submit(2);
  });
}

void two_doze(world& w) {
  auto* s = w.make<state>();
  w.thread("dozer 0", [=] { s->doze_until(1); });
  w.thread("dozer 1", [=] { s->doze_until(1); });
  w.thread("submitter", [=] { s->submit(1); });
}

void handed_over(world& w) {
  auto* s = w.make<state>();
  w.thread("dozer", [=] { s->doze(); });
  w.thread("waker", [=] { s->hand_over(); });
  w.finally([=] { check(s->relied <= s->seen, "nobody looks for what was handed over"); });
}

const protocol kProtocol{
    "nap",
    {"gmp/nap.h"},
    {},
    {
        {"one submits", {.preemptions = 3, .timeouts = 0}, one_submits},
        {"twice", {.preemptions = 3, .timeouts = 0}, twice},
        {"two doze", {.preemptions = 2, .timeouts = 0}, two_doze},
        {"handed over", {.preemptions = 3}, handed_over},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Nap) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
