// Exhaustive model of io/signal_gate.h: a signal that comes as its handler is taken away arrives, or does what it
// does without a handler.
#include <gtest/gtest.h>

#include "io/signal_gate.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::signal_gate gate;
  rt::atomic<int> handled{1};  // the action is weft's handler; the kernel's
  int delivered = 0;           // by channels
  int acted_upon = 0;          // by the other action

  state() { gate.want(3); }

  // As the kernel and handler() do. `comes_back`: the action may be the handler again.
  void signal(std::uint64_t bit, bool comes_back) {
    while (handled.load(std::memory_order_acquire) != 0) {  // order: modelled, a lock in the kernel
      if (gate.enter(bit)) {
        gate.arrive(bit);
        return;
      }
      // order: modelled
      check(comes_back || handled.load(std::memory_order_relaxed) == 0, "sent to itself");
      rt::cpu_pause();
    }
    ++acted_upon;
  }
  void stop() {
    handled.store(0, std::memory_order_release);  // order: modelled, a lock in the kernel
    gate.unwant(3);
    while (!gate.idle()) rt::cpu_pause();
    deliver();
  }
  void notify() {
    gate.want(3);
    handled.store(1, std::memory_order_release);  // order: modelled, a lock in the kernel
  }
  void deliver() { delivered += __builtin_popcountll(gate.take()); }
};

void one_signal(world& w) {
  auto* s = w.make<state>();
  w.thread("stop", [s] { s->stop(); });
  w.thread("signal", [s] { s->signal(1, false); });
  w.finally([s] { check(s->delivered + s->acted_upon == 1, "a signal is lost"); });
}

void two_signals(world& w) {
  auto* s = w.make<state>();
  w.thread("stop", [s] { s->stop(); });
  w.thread("signal 1", [s] { s->signal(1, false); });
  w.thread("signal 2", [s] { s->signal(2, false); });
  w.finally([s] { check(s->delivered + s->acted_upon == 2, "a signal is lost"); });
}

void wanted_again(world& w) {
  auto* s = w.make<state>();
  w.thread("stop and notify", [s] {
    s->stop();
    s->notify();
  });
  w.thread("signal", [s] { s->signal(1, true); });
  w.finally([s] {
    s->deliver();
    check(s->delivered + s->acted_upon == 1, "a signal is lost");
  });
}

const protocol kProtocol{
    "signal_gate",
    {"io/signal_gate.h"},
    {},
    {
        {"one signal", {.preemptions = 4}, one_signal},
        {"two signals", {.preemptions = 3}, two_signals},
        {"wanted again", {.preemptions = 3}, wanted_again},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, SignalGate) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
