// Exhaustive model of gmp/cancel_source.h: hooks are added and removed while somebody cancels.
//
// A hook is called once or removed, never both; it sees what preceded the cancellation; and once
// remove() has returned its memory may go, whatever it returned.
#include <gtest/gtest.h>

#include "gmp/cancel_source.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct hook : rt::cancel_hook {
  rt::cell<int> memory{1};
  rt::cell<int>* before = nullptr;  // written before cancel()
  int called = 0;
  rt::cancel_source* removes_itself = nullptr;

  hook() {
    fire = [](rt::cancel_hook* h) { static_cast<hook*>(h)->calls(); };
  }
  void calls() {
    check(memory.get() == 1, "called after it is gone");
    check(before->get() == 7, "called before what preceded the cancellation");
    check(++called == 1, "called twice");
    if (removes_itself != nullptr) check(!removes_itself->remove(*this), "removed while called");
    memory.set(2);
  }
};

struct state {
  rt::cancel_source source;
  rt::cell<int> before;
  hook h[2];

  state() {
    for (hook& each : h) each.before = &before;
  }
  void cancel() {
    before.set(7);
    check(source.cancel(), "cancelled by somebody else");
  }
  // As a wait with a context: adds, and takes it off again before the frame goes.
  void wait(int i) {
    const bool added = source.add(h[i]);
    if (!added) check(before.get() == 7, "refused before the cancellation");
    const bool removed = added && source.remove(h[i]);
    check(h[i].called == (added && !removed ? 1 : 0), "remove and cancel disagree");
    h[i].memory.set(3);
  }
};

void add_remove_cancel(world& w) {
  auto* s = w.make<state>();
  w.thread("canceller", [=] { s->cancel(); });
  w.thread("waiter 0", [=] { s->wait(0); });
  w.thread("waiter 1", [=] { s->wait(1); });
}

void stays(world& w) {
  auto* s = w.make<state>();
  w.thread("canceller", [=] { s->cancel(); });
  w.thread("adder", [=] {
    if (!s->source.add(s->h[0])) {
      check(s->before.get() == 7, "refused before the cancellation");
      ++s->h[0].called;
    }
  });
  w.finally([=] { check(s->h[0].called == 1, "a hook was forgotten"); });
}

void observed(world& w) {
  auto* s = w.make<state>();
  w.thread("canceller", [=] { s->cancel(); });
  w.thread("observer", [=] {
    if (s->source.cancelled()) check(s->before.get() == 7, "seen too early");
  });
}

void twice(world& w) {
  auto* s = w.make<state>();
  auto* wins = w.make<int>(0);
  s->before.set(7);
  check(s->source.add(s->h[0]) && s->source.add(s->h[1]), "refused");
  for (const char* text : {"first", "second"}) {
    w.thread(text, [=] { *wins += s->source.cancel() ? 1 : 0; });
  }
  w.finally([=] {
    check(*wins == 1, "cancelled twice, or never");
    check(s->h[0].called == 1 && s->h[1].called == 1, "not called once");
  });
}

void removes_itself(world& w) {
  auto* s = w.make<state>();
  s->h[0].removes_itself = &s->source;
  check(s->source.add(s->h[0]), "refused");
  w.thread("canceller", [=] { s->cancel(); });
  w.thread("waiter", [=] { s->wait(1); });
  w.finally([=] { check(s->h[0].called == 1, "not called"); });
}

const protocol kProtocol{
    "cancel_source",
    {"gmp/cancel_source.h"},
    {},
    {
        {"add, remove, cancel", {.preemptions = 3}, add_remove_cancel},
        {"stays", {.preemptions = 4}, stays},
        {"observed", {.preemptions = 4}, observed},
        {"twice", {.preemptions = 3}, twice},
        {"removes itself", {.preemptions = 3}, removes_itself},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, CancelSource) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
