// Exhaustive model of gmp/long_sleep.h: work that becomes visible is seen before sysmon sleeps, or wakes it.
#include <gtest/gtest.h>

#include "gmp/long_sleep.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::long_sleep rest;
  rt::atomic<int> work{0};
  int seen = 0;

  // As sysmon does. It sleeps until it is woken, so that a lost wake-up is a deadlock.
  void look_and_sleep() {
    rest.begin();
    if (!any()) rest.sleep();
    rest.end();
    seen = any() ? 1 : 0;
  }
  bool any() { return work.load(std::memory_order_relaxed) != 0; }  // order: modelled, fenced
  void submit() {
    work.store(1, std::memory_order_relaxed);  // order: modelled, fenced
    rt::fence(std::memory_order_seq_cst);      // order: that of claim_wake()
    rest.wake();
  }
};

void one_waker(world& w) {
  auto* s = w.make<state>();
  w.thread("sysmon", [s] { s->look_and_sleep(); });
  w.thread("submitter", [s] { s->submit(); });
}

// The note is used again and again, and set once per sleep.
void two_wakers(world& w) {
  auto* s = w.make<state>();
  w.thread("sysmon", [s] {
    s->look_and_sleep();
    s->look_and_sleep();
  });
  w.thread("submitter 1", [s] { s->submit(); });
  w.thread("submitter 2", [s] { s->submit(); });
}

const protocol kProtocol{
    "long_sleep",
    {"gmp/long_sleep.h"},
    {},
    {
        {"one waker", {.preemptions = 4}, one_waker},
        {"two wakers", {.preemptions = 3}, two_wakers},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, LongSleep) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
