// A goroutine is stopped by exit() while it has what the exiting thread waits for: the bit that guards a wait
// group's list, for which that spins; or something for which it stays on its thread, and yields. It must be
// seen to be stuck, or the other one is never let go.
#include <atomic>
#include <cstdio>
#include <sched.h>
#include <time.h>

#include <weft/go.h>

#include "sched/staying.h"
#include "support/child.h"
#include "support/fixture.h"
#include "sync/wait_group_core.h"
#include "sync/withdrawal.h"

namespace weft::rt {
namespace {

std::atomic<bool> held{false};

// 100 ms of processor time, far longer than stopping everybody takes.
void take_long() {
  held = true;
  timespec now{};
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (now.tv_sec == 0 && now.tv_nsec < 100'000'000);
}

// Writing it takes a while.
struct slow_link {
  template <class T>
  slow_link& operator=(T) {
    take_long();
    return *this;
  }
};
struct slow_waiter {
  slow_link next;
};
struct no_sleeper {
  no_sleeper* next = nullptr;
  no_sleeper* prev = nullptr;
  bool linked = false;
  withdrawal leaves;
};

wait_group_core<slow_waiter, no_sleeper> core(1);
slow_waiter first;

WEFT_CHILD(exit_spins) {
  struct counts_down {
    ~counts_down() {
      const bool last = core.add(-1).wake == &first;
      std::printf("%s\n", last ? "spun" : "nobody was there");
    }
  };
  static const counts_down late;
  weft::go([] {
    static_cast<void>(core.push(&first));
    for (;;) {
    }
  });
  while (!held) sched_yield();
  return 3;
}

WEFT_CHILD(exit_yields_staying) {
  static std::atomic<bool> done{false};
  struct waits {
    ~waits() {
      while (!done) yield_staying();
      std::printf("seen\n");
    }
  };
  static const waits late;
  weft::go([] {
    take_long();
    done = true;
    for (;;) {
    }
  });
  while (!held) sched_yield();
  return 4;
}

TEST(ExitSpin, WhoYieldsOnItsThreadIsHelped) {
  const test::child_result r = test::run_child("exit_yields_staying", {"WEFTMAXPROCS=2"});
  EXPECT_EQ(r.status, 4);
  EXPECT_EQ(r.output, "seen\n");
}

TEST(ExitSpin, WhoSpinsIsHelped) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "push() outside of a commit orders nothing under TSan";
  const test::child_result r = test::run_child("exit_spins", {"WEFTMAXPROCS=2"});
  EXPECT_EQ(r.status, 3);
  EXPECT_EQ(r.output, "spun\n");
}

}  // namespace
}  // namespace weft::rt

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
