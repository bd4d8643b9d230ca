// Exhaustive model of sync/future_core.h, with the gate that publishes the result.
//
// The result is stored by one, seen by all who wait, and the state ends once, after everybody is done
// with it.
#include <gtest/gtest.h>
#include <memory>

#include "model/sleepers.h"
#include "sync/future_core.h"
#include "sync/wait_group_core.h"

namespace weft::model {
namespace {

struct waiter {
  plain<waiter*> next;
  rt::note event;
};

struct state {
  rt::future_core core;
  rt::wait_group_core<waiter, sleeper> gate{1};
  rt::cell<int> value;
  waiter w[3];
  int stored = 0, ended = 0;

  void store(int v) {
    value.set(v);
    ++stored;
  }
  void publish() {
    auto done = gate.add(-1);
    while (waiter* p = done.wake) {
      done.wake = p->next;
      p->event.wake();
    }
  }
  void wait(int i) {
    if (!gate.zero() && gate.push(&w[i])) w[i].event.sleep();
  }
  void get(int i) {
    wait(i);
    check(value.get() == 7, "no result, or half of one");
  }
  void end() {
    check(++ended == 1, "ended twice");
    value.set(0);
    std::destroy_at(&core);
    std::destroy_at(&gate);
  }
  void release() {
    if (core.release()) end();
  }
};

void set_and_get(world& w) {
  auto* s = w.make<state>();
  s->core.retain();
  w.thread("promise", [=] {
    check(s->core.claim(), "nobody else claims");
    s->store(7);
    s->publish();
    s->release();
  });
  w.thread("future", [=] {
    s->get(0);
    s->release();
  });
  w.finally([=] { check(s->ended == 1, "never freed"); });
}

// Several of a shared_future; the promise has gone.
void copies(world& w) {
  auto* s = w.make<state>();
  s->core.retain();
  s->store(7);
  s->publish();
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "future 0" : "future 1", [=] {
      s->get(i);
      s->release();
    });
  }
  w.finally([=] { check(s->ended == 1, "never freed"); });
}

// Two set it; the first who tries fails half-way, and gives the right back.
void two_setters(world& w) {
  auto* s = w.make<state>();
  auto* failed = w.make<int>(0);
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "setter 0" : "setter 1", [=] {
      if (!s->core.claim()) return;
      if ((*failed)++ == 0) {
        s->value.set(3);
        s->core.unclaim();
        return;
      }
      s->store(7);
      s->publish();
    });
  }
  w.thread("another", [=] {
    if (!s->core.claim()) return;
    if ((*failed)++ == 0) {
      s->core.unclaim();
      return;
    }
    s->store(7);
    s->publish();
  });
  w.finally([=] { check(s->stored <= 1, "stored twice"); });
}

// The goroutine of async() has no reference: its last handle waits for it.
void async(world& w) {
  auto* s = w.make<state>();
  w.thread("task", [=] {
    s->store(7);
    s->publish();
  });
  w.thread("handle", [=] {
    if (!s->core.release()) return;
    s->wait(0);
    s->end();
  });
  w.finally([=] { check(s->ended == 1, "never freed"); });
}

// The first one who waits runs it, the others wait for that.
void deferred(world& w) {
  auto* s = w.make<state>();
  s->core.retain();
  for (int i = 0; i < 2; ++i) {
    w.thread(i == 0 ? "future 0" : "future 1", [=] {
      if (s->core.retrieve()) {
        s->store(7);
        s->publish();
      }
      s->get(i);
      s->release();
    });
  }
  w.finally([=] { check(s->stored == 1 && s->ended == 1, "run twice, or never freed"); });
}

const protocol kProtocol{
    "future",
    {"sync/future_core.h"},
    {},
    {
        {"set and get", {.preemptions = 3}, set_and_get},
        {"copies", {.preemptions = 4}, copies},
        {"two setters", {.preemptions = 3}, two_setters},
        {"async", {.preemptions = 3}, async},
        {"deferred", {.preemptions = 3}, deferred},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, Future) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
