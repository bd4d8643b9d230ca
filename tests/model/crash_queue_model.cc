// Exhaustive model of base/crash_queue.h: reports come one at a time, and somebody ends the process.
#include <gtest/gtest.h>

#include "base/crash_queue.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

struct state {
  rt::crash_queue queue;
  rt::cell<int> output;  // what reports write to, one after the other
  int reporting = 0;
  int reports = 0;
  bool over = false;  // somebody has ended the process

  void crash(int self, int failures) {
    queue.join();
    while (!queue.try_begin(self)) {
      if (over) return;
      rt::cpu_pause();
    }
    check(++reporting == 1, "two report at once");
    output.set(output.get() + 1);
    ++reports;
    for (int i = 0; i < failures; ++i) {
      check(queue.reports(self), "a reporter is a stranger to itself");
      check(queue.begin_again() == i + 2, "miscounted");
    }
    --reporting;
    const bool handed_over = queue.end();
    check(!handed_over || failures == 0, "a report that failed is handed over");
    if (!handed_over) over = true;
  }
};

void two_at_once(world& w) {
  auto* s = w.make<state>();
  for (const int self : {1, 2}) {
    w.thread("crasher", [=] { s->crash(self, 0); });
  }
  w.finally([=] {
    check(s->over, "nobody ends the process");
    check(s->reports >= 1, "no report");
  });
}

// A report that fails ends the process itself, whoever waits.
void one_fails(world& w) {
  auto* s = w.make<state>();
  for (const int self : {1, 2}) {
    w.thread("crasher", [=] { s->crash(self, self == 1 ? 1 : 0); });
  }
  w.finally([=] { check(s->over, "nobody ends the process"); });
}

const protocol kProtocol{
    "crash_queue",
    {"base/crash_queue.h"},
    {},
    {{"two at once", {}, two_at_once}, {"one fails", {}, one_fails}},
};
const enrol_protocol kEnrolled(kProtocol);

TEST(Model, CrashQueue) { expect_all_mutants_caught(kProtocol); }

}  // namespace
}  // namespace weft::model
