// Failures inside of groups and of calls that are made once, and the ends of programs whose main does not wait.
#include <gtest/gtest.h>
#include <string>

#include "crash/expect.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

const std::string kFailed =
    "^panic: std::runtime_error: a task failed\n\ngoroutine [0-9]+ \\[running";

TEST(Groups, AnExceptionThatNobodyTakes) {
  const outcome o = run_program("task_group_untaken");
  EXPECT_CRASH(o, kFailed);
  EXPECT_TRUE(matches(o, "weft::task_group::~task_group")) << "who found it";
  EXPECT_EQ(o.out, "");
}

TEST(Groups, AnExceptionThatIsTakenOrSecond) {
  const outcome o = run_program("task_group_taken");
  EXPECT_EQ(o.exit_status, 3);
  EXPECT_EQ(o.err, "a task failed\non its way\non its way\n");
}

TEST(Groups, NobodyWaitsBesideAPanic) {
  for (const char* procs : {"WEFTMAXPROCS=1", "WEFTMAXPROCS=4"}) {
    const outcome o = run_program("wait_group_go_panics", {procs});
    EXPECT_CRASH(o, kFailed);
    EXPECT_TRUE(matches(o, frame("groups::fail"))) << "where it was thrown";
    EXPECT_EQ(count(o.err, "waited\n"), 0u) << o.err;
  }
}

TEST(Groups, AOnceFunctionThatFails) {
  const outcome o = run_program("once_func_panics");
  EXPECT_CRASH(o, kFailed);
  EXPECT_TRUE(matches(o, "\ngoroutine 1 \\[running\\]:\n(.*\n)*.*once_func_panics_main"))
      << "who has called it";
  EXPECT_CRASH(run_program("once_value_panics_again"), kFailed);
}

TEST(Groups, OnlyNilChannels) {
  EXPECT_CRASH(run_program("deadlock_select_nil"),
               "^fatal error: all goroutines are asleep - deadlock!\n\n"
               "goroutine 1 \\[select");
}

TEST(Groups, FireAndForget) {
  const outcome o = run_program("go_print");
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_EQ(o.err, "printed\n");
}

TEST(Groups, GoexitOfALockedMain) {
  for (const char* procs : {"WEFTMAXPROCS=1", "WEFTMAXPROCS=4"}) {
    const outcome o = run_program("goexit_locked_main_another_exits", {procs});
    EXPECT_EQ(o.exit_status, 7) << o.err;
    EXPECT_EQ(o.err, "");
  }
}

}  // namespace
