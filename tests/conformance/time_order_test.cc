// What timers order: arming one precedes what it does. [MM] 16
//
// Each edge has two programs that differ in one step, as in chan_order_test.cc: the first is silent under
// ThreadSanitizer, its racy twin is not.
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/edges.h"

extern int time_order_shared;
int time_order_shared = 0;  // visible elsewhere, or the compiler would know its values

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::edge_case;
using weft::test::edge_name;
using weft::test::expect_needed;
using weft::test::expect_ordered;
using weft::test::expect_race;

void set() { time_order_shared = 1; }
void use() {
  if (time_order_shared > 1) std::abort();
  std::exit(0);
}

// The goroutine that arms never waits for the one that is called, which ends the process: nothing else orders the two,
// nor decides which of them comes first on a busy machine.
void outlive() { weft::this_thread::sleep_for(1h); }  // sleep-ok: for ever

}  // namespace

static int calls(bool in_time) {
  return weft::run(
      [=] {
        if (in_time) set();
        weft::after_func(5ms, use);
        if (!in_time) set();
        outlive();
      },
      {.max_procs = 1});
}
WEFT_CHILD(after_func_ordered) { return calls(true); }
WEFT_CHILD(after_func_racy) { return calls(false); }

static int calls_again(bool in_time) {
  return weft::run(
      [=] {
        auto t = weft::after_func(1h, use);
        if (in_time) set();
        t.reset(5ms);
        if (!in_time) set();
        outlive();
      },
      {.max_procs = 1});
}
WEFT_CHILD(reset_ordered) { return calls_again(true); }
WEFT_CHILD(reset_racy) { return calls_again(false); }

// The receiver has the channel before the timer is set: the channel itself orders nothing here.
static int receives(bool in_time) {
  return weft::run(
      [=] {
        weft::timer t(1h);
        weft::go([c = t.c()] {
          c.recv();
          use();
        });
        if (in_time) set();
        t.reset(5ms);
        if (!in_time) set();
        outlive();
      },
      {.max_procs = 1});
}
WEFT_CHILD(timer_ordered) { return receives(true); }
WEFT_CHILD(timer_racy) { return receives(false); }

namespace {

constexpr edge_case kEdges[] = {{"after_func", "ARM,GO"}, {"reset", "ARM,GO"}, {"timer", "ARM"}};

class TimeOrder : public testing::TestWithParam<edge_case> {};
TEST_P(TimeOrder, IsWhatWasPromised) { expect_ordered(GetParam().name); }
TEST_P(TimeOrder, IsNeeded) { expect_needed(GetParam(), "time_order_shared"); }
TEST_P(TimeOrder, ItsAbsenceIsReported) { expect_race(GetParam().name); }

INSTANTIATE_TEST_SUITE_P(, TimeOrder, testing::ValuesIn(kEdges), edge_name);

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
