// SIGQUIT and runtime::stack(): what a living program says about its goroutines.
#include <gtest/gtest.h>
#include <signal.h>
#include <string>

#include "crash/expect.h"
#include "fiber/sanitizer.h"
#include "support/patience.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

outcome quit(const char* program, std::vector<std::string> environment = {}) {
  return run({.program = program,
              .environment = std::move(environment),
              .when_it_says = "ready\n",
              .signal = SIGQUIT});
}

constexpr const char* kHead = "^SIGQUIT: quit\nPC=0x[0-9a-f]+ m=([0-9]+|nil) sigcode=-?[0-9]+\n\n";

// Go: TestCrashDumpsAllThreads. [DG-4]
TEST(Quit, StacksOfGoroutinesThatRun) {
  if (WEFT_TSAN) GTEST_SKIP() << "TSan delays signals in loops without atomics";
  const outcome o = quit("quit_spinning");
  EXPECT_CRASH(o, kHead);
  EXPECT_EQ(count(o.err, "app::spin_for_ever(...)\n"), 4u) << o.err;
  EXPECT_EQ(count(o.err, "stack unavailable"), 0u) << o.err;
}

TEST(Quit, DiesOfAbortAtLevelCrash) {
  if (WEFT_TSAN) GTEST_SKIP() << "TSan delays signals in loops without atomics";
  const outcome o = quit("quit_spinning", {"WEFTTRACEBACK=crash"});
  EXPECT_EQ(o.signal, SIGABRT) << o.err;
  EXPECT_TRUE(matches(o, kHead));
  EXPECT_EQ(count(o.err, "app::spin_for_ever(...)\n"), 4u) << o.err;
}

TEST(Quit, WaitReasonMinutesNameOriginRegisters) {
  const outcome o = quit("quit_waiting");
  EXPECT_CRASH(o, kHead);
  EXPECT_TRUE(matches(o,
                      "\ngoroutine 1 gp=0x[0-9a-f]+ m=nil "
                      "\\[sync.WaitGroup.Wait, 3 minutes\\]:\n"));
  EXPECT_TRUE(matches(o,
                      "\ngoroutine [0-9]+ gp=0x[0-9a-f]+ m=nil "
                      "\\[sync.WaitGroup.Wait, 3 minutes\\] \\{name: sleeper\\}:\n"));
  EXPECT_TRUE(matches(o, "\\[sleep, 3 minutes\\]:\n"));
  EXPECT_TRUE(matches(o, "weft::rt::block\\(\\.\\.\\.\\)\n\t.* sp=0x[0-9a-f]+ pc=0x[0-9a-f]+\n"))
      << "frames of the runtime";
  EXPECT_TRUE(matches(o, "created by .* in goroutine 1\n"));
  EXPECT_TRUE(matches(o, "\n\n(rax    |r0      )0x[0-9a-f]+\n"));
}

TEST(Quit, StackOfASystemCallThatNobodyAnnounced) {
  if (WEFT_TSAN || WEFT_ASAN) GTEST_SKIP() << "the sanitizer's own frames are in between";
  if (weft::test::emulated()) GTEST_SKIP() << "the emulator's frames are in between";
  const outcome o = quit("quit_reading");
  EXPECT_CRASH(o, kHead);
  EXPECT_TRUE(matches(o, "app::read_for_ever\\(\\.\\.\\.\\)\n")) << o.err;
}

// By more than the kernel tells, and the call goes on.
TEST(Stack, OfASystemCallAboveAFrameOfUnknownSize) {
  if (WEFT_TSAN || WEFT_ASAN) GTEST_SKIP() << "the sanitizer's own frames are in between";
  if (weft::test::emulated()) GTEST_SKIP() << "the emulator's frames are in between";
  const outcome o = run_program("stack_of_reader");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_TRUE(matches(o, join({frame("app::read_into_frame"), frame("app::call_reader")})));
  EXPECT_EQ(count(o.err, "additional frames not known"), 0u) << o.err;
  EXPECT_EQ(count(o.err, "got 5\n"), 1u) << o.err;
}

// What the kernel tells has to do while SIGQUIT is not weft's.
TEST(Stack, AsksNobodyByASignalThatTheProgramHasTaken) {
  if (WEFT_TSAN || WEFT_ASAN) GTEST_SKIP() << "the sanitizer's own frames are in between";
  if (weft::test::emulated()) GTEST_SKIP() << "the emulator's frames are in between";
  const outcome notified = run_program("stack_quit_notified");
  EXPECT_EQ(notified.exit_status, 0) << notified.err;
  EXPECT_EQ(count(notified.err, "app::call_reader("), 0u) << notified.err;
  EXPECT_EQ(count(notified.err, "signals: 0\n"), 1u) << notified.err;
  EXPECT_EQ(count(notified.out, "app::call_reader("), 1u) << "when it is weft's again";
  for (const char* program : {"stack_quit_handled", "stack_quit_default"}) {
    const outcome o = run_program(program);
    EXPECT_EQ(o.exit_status, 0) << program << o.err;
    EXPECT_EQ(o.signal, 0) << program << o.err;
    EXPECT_EQ(count(o.err, "got 5\n"), 1u) << o.err;
  }
}

// What they were doing, and nothing of the handler in which they sleep.
TEST(Stack, OfFrozenGoroutines) {
  if (WEFT_TSAN) GTEST_SKIP() << "TSan delays signals in loops without atomics";
  const outcome o = run_program("frozen_hogs");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_TRUE(matches(o, join({"goroutine 2 \\[runnable\\]:\n", frame("app::spin_for_ever")})));
  EXPECT_TRUE(matches(o, join({"goroutine 3 \\[runnable\\]:\n", frame("app::spin_for_ever")})));
}

TEST(Quit, OnAPlainThread) {
  const outcome o = quit("quit_plain_thread");
  EXPECT_CRASH(o, kHead);
  EXPECT_TRUE(matches(o, "\ngoroutine 0 gp=nil m=nil \\[plain thread\\]:\n"));
}

TEST(Quit, LevelNoneHasNoStacks) {
  const outcome o = quit("quit_waiting", {"WEFTTRACEBACK=none"});
  EXPECT_CRASH(o, kHead);
  EXPECT_EQ(count(o.err, "goroutine "), 0u) << o.err;
}

TEST(Quit, BelongsToTheProgramIfItWantsIt) {
  EXPECT_EQ(run_program("quit_ignored").exit_status, 7);
  EXPECT_EQ(run_program("quit_handled").exit_status, 8);
}

// Go: TestSignalExitStatus
TEST(Quit, OtherSignalsKillAsEver) {
  const outcome o = run({.program = "terminated", .when_it_says = "ready\n", .signal = SIGTERM});
  EXPECT_EQ(o.signal, SIGTERM);
  EXPECT_EQ(o.err, "");
}

// Go: TestStackAllOutput [DG-6]
TEST(StackText, OfAllGoroutines) {
  const outcome o = run_program("stack_of_all");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  outcome text;
  text.err = o.out;
  EXPECT_TRUE(matches(text, "^goroutine 1 \\[running\\]:\n"));
  EXPECT_TRUE(matches(text,
                      "\n\ngoroutine [0-9]+ \\[sync.WaitGroup.Wait\\] \\{name: sleeper\\}:\n"
                      "weft::wait_group::wait\\(\\.\\.\\.\\)\n"));
  EXPECT_TRUE(matches(text, "created by stack_of_all_main.* in goroutine 1\n\t.*\n$"));
  EXPECT_EQ(count(text.err, "weft::rt::"), 0u) << text.err;
}

// Go: TestStackPanic
TEST(StackText, InAHandler) {
  const outcome o = run_program("stack_in_a_handler");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  outcome text;
  text.err = o.out;
  EXPECT_TRUE(matches(text, join({"^goroutine 1 \\[running\\]:\n(weft::runtime::stack.*\n\t.*\n)?",
                                  frame("app::stack_of_handler")})));
  EXPECT_EQ(count(text.err, "app::throws"), 0u) << text.err;
}

// Go: TestNoHelperGoroutines [CN-2]
TEST(StackText, HelpersAreNoGoroutines) {
  const outcome o = run_program("panic_beside_helpers", {"WEFTTRACEBACK=all"});
  EXPECT_CRASH(o, "^panic: beside helpers\n\ngoroutine 1 \\[running\\]:\n");
  EXPECT_EQ(count(o.err, "\ngoroutine "), 1u) << o.err;
  EXPECT_EQ(o.out, "1 goroutine\n");
}

TEST(StackText, ThousandsAreGrouped) {
  const outcome o = run_program("stack_of_thousands");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  outcome text;
  text.err = o.out;
  EXPECT_TRUE(matches(text, "\n\\.\\.\\.and 2999 more like it: goroutine [0-9]+, "));
  EXPECT_LT(text.err.size(), 4000u);
}

// Go: TestTracebackAncestors
TEST(Ancestors, AsManyAsAskedFor) {
  EXPECT_EQ(count(run_program("ancestors").err, "[originating from goroutine "), 0u);
  EXPECT_EQ(count(run_program("ancestors", {"WEFTDEBUG=tracebackancestors=1"}).err,
                  "[originating from goroutine "),
            1u);
  const outcome o = run_program("ancestors", {"WEFTDEBUG=tracebackancestors=5"});
  EXPECT_CRASH(o, "^panic: grandchild\n");
  EXPECT_EQ(count(o.err, "[originating from goroutine "), 3u) << o.err;
  EXPECT_TRUE(matches(o, "\n\\[originating from goroutine 1\\]:\n(.*\n\t.*\n)+$"));
}
TEST(Ancestors, OfALongLine) {
  const auto ancestors = [](const char* setting) {
    const outcome o = run_program("many_ancestors", {setting});
    EXPECT_CRASH(o, "^panic: the last of them\n");
    return count(o.err, "[originating from goroutine ");
  };
  EXPECT_EQ(ancestors("WEFTDEBUG=tracebackancestors=0"), 0u);
  EXPECT_EQ(ancestors("WEFTDEBUG=tracebackancestors=5"), 5u);
  EXPECT_EQ(ancestors("WEFTDEBUG=tracebackancestors=50"), 50u);
  EXPECT_EQ(ancestors("WEFTDEBUG=tracebackancestors=100"), 60u) << "all there are";
}

}  // namespace
