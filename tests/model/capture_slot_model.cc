// Exhaustive model of debug/capture_slot.h: registers are whole and the right thread's, and that thread
// stands still while its stack is walked.
#include <gtest/gtest.h>

#include "debug/capture_slot.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::capture_slot<int> slot;
  rt::cell<int> stack_of[3];  // what the asked threads write to as they run
  bool ended[3] = {};

  // As captured_thread: waits for so many looks, and then no longer.
  void ask(int tid, int patience) {
    if (!slot.take()) return;
    slot.ask(tid);
    bool ready = false;
    while (!(ready = slot.answered())) {
      if (patience-- <= 0 && slot.take_back(tid)) break;
      rt::cpu_pause();
    }
    if (ready) {
      check(slot.registers().get() == tid, "another thread's registers");
      check(stack_of[tid].get() >= 0, "walked");  // raced for if the thread runs on
    }
    slot.give_back();
  }
  // As answer_capture(), in a thread that runs before and after.
  void run(int tid) {
    stack_of[tid].set(1);
    if (slot.begin_answer(tid)) {
      slot.registers().set(tid);
      slot.end_answer();
      while (slot.must_wait()) rt::cpu_pause();
    }
    stack_of[tid].set(2);
  }
};

void one(world& w) {
  auto* s = w.make<state>();
  w.thread("asker", [=] { s->ask(1, 1); });
  w.thread("asked", [=] { s->run(1); });
}

void one_after_the_other(world& w) {
  auto* s = w.make<state>();
  w.thread("asker", [=] {
    s->ask(1, 0);
    s->ask(2, 1);
  });
  w.thread("asked 1", [=] { s->run(1); });
  w.thread("asked 2", [=] { s->run(2); });
}

void two_askers(world& w) {
  auto* s = w.make<state>();
  w.thread("asker 1", [=] { s->ask(1, 1); });
  w.thread("asker 2", [=] { s->ask(1, 1); });
  w.thread("asked", [=] { s->run(1); });
}

const protocol kProtocol{
    "capture_slot",
    {"debug/capture_slot.h"},
    {},
    {
        {"one", {.preemptions = 4}, one},
        {"one after the other", {.preemptions = 2}, one_after_the_other},
        {"two askers", {.preemptions = 3}, two_askers},
    },
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, CaptureSlot) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
