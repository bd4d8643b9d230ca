// Exhaustive model of gmp/nap.h: who dozes sees new work before it falls asleep, or is poked.
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

  void submit() {
    work.store(1,
               WEFT_ORDER(TT0, relaxed));  // order: relaxed, the fence in poke_fenced() orders it
    dozer.poke_fenced();
    ++submitted;
  }
  // Time is up only when nobody else can run: then a poke was lost.
  void doze() {
    if (!dozer.begin()) return;
    if (work.load(WEFT_ORDER(TT0, relaxed)) !=
        0) {  // order: relaxed, the fence in begin() orders it
      dozer.end();
      return;
    }
    const bool woken = dozer.sleep();
    check(woken || submitted == 0, "work was submitted, and the nap went on");
  }
};

void one_submits(world& w) {
  auto* s = w.make<state>();
  w.thread("dozer", [=] { s->doze(); });
  w.thread("submitter", [=] { s->submit(); });
}

void two_of_each(world& w) {
  auto* s = w.make<state>();
  w.thread("dozer 0", [=] { s->doze(); });
  w.thread("dozer 1", [=] { s->doze(); });
  w.thread("submitter", [=] { s->submit(); });
}

const protocol kProtocol{
    "nap",
    {"gmp/nap.h"},
    {},
    {
        {"one submits", {.preemptions = 3, .timeouts = 0}, one_submits},
        {"two doze", {.preemptions = 2, .timeouts = 0}, two_of_each},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Nap) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
