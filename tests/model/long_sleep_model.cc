// Exhaustive model of gmp/long_sleep.h: work that becomes visible is seen before sysmon sleeps, or wakes it.
#include <gtest/gtest.h>

#include "gmp/long_sleep.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  state() = default;
  explicit state(rt::long_sleep::asleep_at_first how) : rest(how) {}

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

// A timer, by who finds no idle P: sysmon sees it before it sleeps, or is woken.
struct timers {
  rt::long_sleep rest;
  rt::atomic<std::int64_t> next{100};

  void look_and_sleep() {
    rest.begin();
    const std::int64_t when = next.load(std::memory_order_relaxed);  // order: modelled, fenced
    if (when > 10) rest.sleep();                                     // until it is woken
    rest.end();
  }
  void start() {
    next.store(10, std::memory_order_relaxed);  // order: modelled, fenced
    rt::fence(std::memory_order_seq_cst);       // order: TW1's
    if (!rest.looks_before(10)) rest.wake();
  }
};

// What an earlier sleep said about its end is nobody's concern.
void starter(world& w) {
  auto* t = w.make<timers>();
  w.thread("sysmon", [t] {
    t->rest.begin();
    t->rest.sleep_until(5);
    t->rest.end();
    t->look_and_sleep();
  });
  w.thread("starter", [t] { t->start(); });
}

void one_waker(world& w) {
  auto* s = w.make<state>();
  w.thread("sysmon", [s] { s->look_and_sleep(); });
  w.thread("submitter", [s] { s->submit(); });
}

// There is none at first; one of those who want it makes it, and it begins by waking up.
void comes_late(world& w) {
  auto* s = w.make<state>(rt::long_sleep::kAsleep);
  w.thread("sysmon", [s] {
    s->rest.end();
    s->look_and_sleep();
  });
  w.thread("submitter 1", [s] { s->submit(); });
  w.thread("submitter 2", [s] { s->submit(); });
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
        {"comes late", {.preemptions = 3}, comes_late},
        {"two wakers", {.preemptions = 3}, two_wakers},
        {"a timer is started", {.preemptions = 3}, starter},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, LongSleep) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
