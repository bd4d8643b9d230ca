// What a dying program says, and how it dies. Each test runs a child process (crash/programs/) and
// compares its standard error with what Go would print; C++'s frames and types take Go's places.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <gtest/gtest.h>
#include <initializer_list>
#include <ostream>
#include <signal.h>
#include <string>
#include <string_view>

#include "crash/child.h"
#include "crash/expect.h"
#include "fiber/sanitizer.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

constexpr const char* kAll = "WEFTTRACEBACK=all";

// The report of a panic with this text, in a goroutine that main started.
std::string panic(std::string_view text) {
  return join({"^panic: ", text, "\n\ngoroutine [0-9]+ \\[running\\]:\n"});
}

// --- panics -------------------------------------------------------------------------------------

TEST(Panic, StandardException) {
  const outcome o = run_program("panic_std_exception");
  EXPECT_CRASH(o, panic("std::out_of_range: vector::_M_range_check.*"));
  EXPECT_TRUE(matches(o, join({frame("app::leaf"), frame("app::middle"), frame("app::outer")})));
  EXPECT_TRUE(matches(o, "created by .*\\(\\.\\.\\.\\) in goroutine 1\n\t.*\n$"));
  EXPECT_EQ(count(o.err, "goroutine 1 ["), 0u) << "only the goroutine that panics";
  EXPECT_EQ(count(o.err, "weft::rt::"), 0u) << "no frames of the runtime\n" << o.err;
  EXPECT_EQ(count(o.err, "_Unwind"), 0u) << o.err;
}

TEST(Panic, InMain) {
  const outcome o = run_program("panic_in_main");
  EXPECT_CRASH(o, "^panic: std::out_of_range: .*\n\ngoroutine 1 \\[running\\]:\n");
  EXPECT_TRUE(matches(o, join({frame("app::leaf"), frame("app::middle"), frame("app::outer")})));
  EXPECT_EQ(count(o.err, "created by"), 0u) << o.err;
}

// Go: TestCgoExternalThreadPanic
TEST(Panic, InACallbackOfAPlainThread) {
  EXPECT_CRASH(run_program("panic_in_a_callback"), panic("std::runtime_error: in a callback"));
}
// Go: TestCgoPanicDeadlock
TEST(Panic, WhoseTextBlocks) {
  EXPECT_CRASH(run_program("panic_whose_text_blocks"), "^panic: .*after a while\n\ngoroutine 1 ");
}

TEST(Panic, OursHasNoType) {
  EXPECT_CRASH(run_program("panic_error"), panic("send on closed channel"));
}
TEST(Panic, OfWaitGroup) {
  EXPECT_CRASH(run_program("panic_wait_group"), panic("sync: negative WaitGroup counter"));
}
TEST(Panic, Int) { EXPECT_CRASH(run_program("panic_int"), panic("-42")); }
TEST(Panic, Bool) { EXPECT_CRASH(run_program("panic_bool"), panic("true")); }
TEST(Panic, CString) { EXPECT_CRASH(run_program("panic_c_string"), panic("text")); }
TEST(Panic, String) {
  EXPECT_CRASH(run_program("panic_string"), panic("a string that is long enough for the heap"));
}
TEST(Panic, OtherType) { EXPECT_CRASH(run_program("panic_other_type"), panic("\\(app::odd\\)")); }
TEST(Panic, EveryLineIsIndented) {
  EXPECT_CRASH(run_program("panic_two_lines"),
               panic("app::custom_error: first line\n\tsecond line"));
}

TEST(Panic, TheLambdaIsNamedOnceInlinedOrNot) {
  const outcome o = run_program("panic_int");
  EXPECT_TRUE(matches(o, frame("panic_int_main::(\\{lambda#1\\}|\\$_[0-9]+)::operator\\(\\)")));
  EXPECT_EQ(count(o.err, "\npanic_int_main::"), 1u) << o.err;
}

TEST(Panic, LongStacksAreCutInTheMiddle) {
  const outcome o = run_program("panic_deep");
  EXPECT_CRASH(o, panic("std::runtime_error: deep"));
  EXPECT_TRUE(matches(o, "\n\\.\\.\\.20[0-9] frames elided\\.\\.\\.\n"));
  EXPECT_GE(count(o.err, "app::recurse(...)"), 95u);
  EXPECT_LE(count(o.err, "app::recurse(...)"), 100u);
}

// Go: TestTracebackElision. The first 50 and the last 50.
TEST(Panic, StacksAreCutFromTheHundredAndFirstFrameOn) {
  const auto report_at = [](int depth) {
    const std::string setting = "WEFT_TEST_DEPTH=" + std::to_string(depth);
    const outcome o = run_program("panic_at_depth", {setting.c_str()});
    EXPECT_CRASH(o, panic("std::runtime_error: deep"));
    return o.err;
  };
  const auto frames = [](const std::string& report) { return count(report, "(...)\n\t"); };
  // Those above and below the recursion are there in any case.
  const int others = static_cast<int>(frames(report_at(20))) - 20;
  const std::string whole = report_at(100 - others);
  EXPECT_EQ(frames(whole), 100u);
  EXPECT_EQ(count(whole, "elided"), 0u) << whole;
  const std::string one_more = report_at(101 - others);
  EXPECT_EQ(frames(one_more), 100u);
  EXPECT_EQ(count(one_more, "\n...1 frames elided...\n"), 1u) << one_more;
  const std::string ten_more = report_at(110 - others);
  EXPECT_EQ(frames(ten_more), 100u);
  const std::size_t gap = ten_more.find("\n...10 frames elided...\n");
  ASSERT_NE(gap, std::string::npos) << ten_more;
  EXPECT_EQ(frames(ten_more.substr(0, gap)), 50u);
}

TEST(Panic, OnASmallStack) {
  const outcome o = run_program("panic_small_stack");
  EXPECT_CRASH(o, "\n\ngoroutine [0-9]+ \\[running\\] \\{name: tiny\\}:\n");
  EXPECT_TRUE(matches(o, frame("app::leaf")));
}

TEST(Panic, Rethrown) {
  EXPECT_CRASH(run_program("panic_rethrown"), panic("std::out_of_range: .*"));
}
TEST(Panic, InAHandler) {
  EXPECT_CRASH(run_program("panic_in_handler"), panic("std::logic_error: second"));
}
TEST(Panic, FromAnExceptionPointer) {
  EXPECT_CRASH(run_program("panic_exception_ptr"), panic("std::logic_error: kept"));
}
TEST(Panic, TextThatYields) {
  EXPECT_CRASH(run_program("panic_what_yields"), panic("app::yielding_error: yielded"));
}
TEST(Panic, TextThatThrows) {
  EXPECT_CRASH(run_program("panic_what_throws"),
               "^fatal error: panic while printing panic value\n\ngoroutine ");
}
TEST(Panic, LeavesBuffersAlone) {
  const outcome o = run_program("panic_does_not_flush_stdout");
  EXPECT_EQ(o.exit_status, 2);
  EXPECT_EQ(o.out, "");
}
TEST(Panic, UnwindsNothing) {
  const outcome o = run_program("panic_runs_no_destructors");
  EXPECT_CRASH(o, panic("std::out_of_range: .*"));
  EXPECT_EQ(count(o.err, "destructor ran"), 0u);
}

TEST(Panic, SeveralAtOnceDoNotTearEachOther) {
  const outcome o = run_program("panic_many");
  const std::string one =
      "panic: std::out_of_range: .*\n\ngoroutine [0-9]+ \\[running\\]:\n"
      "(.+\\(\\.\\.\\.\\)\n\t.+\n)+created by .*\n\t.*\n";
  EXPECT_CRASH(o, join({"^(", one, ")+$"}));
}

TEST(Panic, IsNotCutShortByMainReturning) {
  for (int i = 0; i < 20; ++i) {
    const outcome o = run_program("panic_races_with_return");
    if (o.exit_status == 0 && o.err.empty()) continue;  // main was faster
    EXPECT_CRASH(o, panic("std::out_of_range: .*"));
    EXPECT_TRUE(matches(o, "created by .*\n\t.*\n$"));
  }
}

// How many goroutines a report is about, those that are only counted included.
std::size_t goroutines_in(const std::string& report) {
  constexpr std::string_view kMore = "\n...and ";
  std::size_t n = count(report, "\ngoroutine ");
  for (std::size_t at = 0; (at = report.find(kMore, at)) != std::string::npos; at += kMore.size()) {
    n += std::stoul(report.substr(at + kMore.size()));
  }
  return n;
}

TEST(Panic, IsNotCutShortByExit) {
  const auto expect_whole = [](const char* program, std::size_t goroutines) {
    const outcome o = run_program(program, {kAll, "WEFTMAXPROCS=4"});
    EXPECT_CRASH(o, panic("std::out_of_range: vector::_M_range_check.*"));
    EXPECT_EQ(goroutines_in(o.err), goroutines) << program << "\n" << o.err;
    EXPECT_EQ(o.err.back(), '\n') << program;
  };
  expect_whole("panic_and_exit", 2001);
  expect_whole("panic_and_exit_on_a_goroutine", 2002);
  expect_whole("panic_and_exit_on_a_thread", 2001);
}

// Who reports is not frozen: exit() would wait for it for ever. (Not emulated: whoever waits for the emulator is taken for
// one that blocks, loses its P, and cannot begin to panic any more.)
static void expect_whole_report_in_exit(const char* program, int times) {
  if (std::getenv("WEFT_TEST_EMULATOR") != nullptr) GTEST_SKIP() << "threads wait for the emulator";
  for (int i = 0; i < times; ++i) {
    const outcome o = run_program(program, {kAll, "WEFTMAXPROCS=2", "WEFTDEBUG=asyncpreemptoff=1"});
    EXPECT_FALSE(o.hung) << o.err;
    EXPECT_CRASH(o, panic("std::out_of_range: vector::_M_range_check.*"));
    EXPECT_EQ(goroutines_in(o.err), 2001u) << o.err;
    if (o.hung) break;
  }
}
TEST(Panic, IsNotFrozenByExit) { expect_whole_report_in_exit("panic_as_exit_freezes", 10); }
// Nor does exit() end the process while the reporter, which has just finished, is about to.
TEST(Panic, IsNotOvertakenByExit) {
  expect_whole_report_in_exit("panic_as_exit_freezes_ends_slowly", 5);
}

TEST(Panic, NotIfSomebodyCatches) {
  const outcome o = run_program("caught_after_all");
  EXPECT_EQ(o.exit_status, 5) << o.err;
  EXPECT_EQ(o.err, "");
}

// --- WEFTTRACEBACK ------------------------------------------------------------------------------

TEST(Traceback, None) {
  const outcome o = run_program("panic_std_exception", {"WEFTTRACEBACK=none"});
  EXPECT_CRASH(o, "^panic: std::out_of_range: .*\n$");
}
TEST(Traceback, AllGoroutines) {
  const outcome o = run_program("panic_std_exception", {kAll});
  EXPECT_CRASH(o, panic("std::out_of_range: .*"));
  EXPECT_TRUE(
      matches(o, "\n\ngoroutine 1 \\[(sync\\.WaitGroup\\.Wait|running|runnable|syscall)\\]:\n"));
}
TEST(Traceback, System) {
  const outcome o = run_program("panic_std_exception", {"WEFTTRACEBACK=system"});
  EXPECT_CRASH(o, "goroutine [0-9]+ gp=0x[0-9a-f]+ m=[0-9]+ mp=0x[0-9a-f]+ \\[running\\]:\n");
  EXPECT_TRUE(
      matches(o, "weft_goroutine_entry\\(\\.\\.\\.\\)\n\t.* sp=0x[0-9a-f]+ pc=0x[0-9a-f]+\n"));
}
TEST(Traceback, SomethingElseIsNamed) {
  const outcome o = run_program("panic_std_exception", {"WEFTTRACEBACK=everything"});
  EXPECT_CRASH(o,
               "^runtime: WEFTTRACEBACK takes none, single, all, system, crash or a number: "
               "everything\npanic: std::out_of_range: .*\n\ngoroutine [0-9]+ \\[running\\]:\n");
}
TEST(Traceback, Crash) {
  const outcome o = run_program("panic_std_exception", {"WEFTTRACEBACK=crash"});
  EXPECT_TRUE(matches(o, "^panic: std::out_of_range: "));
  EXPECT_EQ(o.signal, SIGABRT);
}

// --- std::terminate -----------------------------------------------------------------------------

TEST(Terminate, NoexceptFunction) {
  const outcome o = run_program("terminate_noexcept");
  EXPECT_CRASH(o, panic("std::runtime_error: deep"));
  EXPECT_TRUE(matches(o, frame("app::must_not_throw")));
}
// Go: TestCgoPanicCallback
TEST(Terminate, InACallbackOfForeignCode) {
  const outcome o = run_program("terminate_in_a_callback");
  EXPECT_CRASH(o, panic("std::out_of_range: .*"));
  EXPECT_TRUE(matches(o, join({frame("app::leaf"), frame("app::middle"), frame("app::outer")})));
  EXPECT_EQ(run_program("caught_after_qsort").exit_status, 0);
}
TEST(Terminate, JoinableThread) {
  EXPECT_CRASH(run_program("terminate_joinable_thread"), panic("terminate called"));
}
TEST(Terminate, Directly) {
  EXPECT_CRASH(run_program("terminate_directly"), panic("terminate called"));
}
TEST(Terminate, ElsewhereTheStandardHandlerRuns) {
  const outcome o = run_program("terminate_on_a_plain_thread");
  EXPECT_EQ(o.signal, SIGABRT);
  EXPECT_TRUE(matches(o, "not weft's business"));
  EXPECT_EQ(count(o.err, "panic:"), 0u);
}

// --- goexit -------------------------------------------------------------------------------------

constexpr const char* kNoGoroutines =
    "fatal error: no goroutines \\(main called runtime\\.Goexit\\) - deadlock!\n";

void expect_output(const char* program, const std::string& text) {
  const outcome o = run_program(program);
  EXPECT_EQ(o.err, text);
  EXPECT_EQ(o.exit_status, 3);
}

TEST(Goexit, OnMain) { EXPECT_CRASH(run_program("goexit_main"), join({"^", kNoGoroutines})); }
TEST(Goexit, OnMainOthersFinishFirst) {
  EXPECT_CRASH(run_program("goexit_main_others_finish"), join({"^done\ndone\n", kNoGoroutines}));
}
// Go: TestGoexitCrash. As long as somebody sleeps nobody is dead.
TEST(Goexit, OnMainBesideASleeper) {
  EXPECT_CRASH(run_program("goexit_main_beside_a_sleeper"), join({"^slept\n", kNoGoroutines}));
}
// Go: TestGoexitInPanic
TEST(Goexit, OnMainInAHandler) {
  const outcome o = run_program("goexit_main_in_a_handler");
  EXPECT_CRASH(o, join({"^inner\nouter\n", kNoGoroutines}));
  EXPECT_EQ(count(o.err, "panic:"), 0u) << o.err;
}
// Go: TestRecoverBeforePanicAfterGoexit, TestRecoverBeforePanicAfterGoexit2
TEST(Goexit, OnMainThroughRecoveredPanics) {
  EXPECT_CRASH(run_program("goexit_main_through_recovered_panics"),
               join({"^inner\nrecovered first\nrecovered second\nouter\n", kNoGoroutines}));
}
TEST(Goexit, OnMainAnotherExits) {
  const outcome o = run_program("goexit_main_another_exits");
  EXPECT_EQ(o.exit_status, 7) << o.err;
}
TEST(Goexit, RunsDestructors) { expect_output("goexit_destructors", "inner\nouter\njoined\n"); }
TEST(Goexit, CannotBeSwallowed) {
  expect_output("goexit_catch_all", "inner\nhandler\nouter\njoined\n");
}
TEST(Goexit, HandlersMayPark) { expect_output("goexit_handler_parks", "inner\nhandler\njoined\n"); }
TEST(Goexit, ResumesAfterARecoveredPanic) {
  expect_output("goexit_recovered_panic_resumes", "inner\nrecovered\nouter\njoined\n");
}
TEST(Goexit, EndsThePanicInWhoseHandlerItIsCalled) {
  expect_output("goexit_in_handler_ends_the_panic", "inner\njoined\n");
}
TEST(Goexit, RethrownFromAnExceptionPointer) {
  expect_output("goexit_by_exception_ptr", "inner\nouter\njoined\n");
}
TEST(Goexit, UnrecoveredPanicInAHandlerCrashes) {
  EXPECT_CRASH(run_program("goexit_handler_panics"),
               "^inner\npanic: std::runtime_error: from the handler\n\ngoroutine ");
}
TEST(Goexit, ThroughNoexcept) {
  EXPECT_CRASH(run_program("goexit_through_noexcept"),
               "panic: .*weft::goexit met a noexcept function\n");
}
// Go: TestCgoToGoCallGoexit
TEST(Goexit, OnAPlainThread) {
  EXPECT_CRASH(run_program("goexit_on_a_plain_thread"),
               "^fatal error: runtime\\.Goexit called in a thread that was not created by the Go "
               "runtime\n");
}

// --- fatal errors -------------------------------------------------------------------------------

constexpr const char* kAsleep = "^fatal error: all goroutines are asleep - deadlock!\n\n";

TEST(Deadlock, Main) {
  const outcome o = run_program("deadlock_main");
  EXPECT_CRASH(o, join({kAsleep, "goroutine 1 \\[sync\\.WaitGroup\\.Wait\\]:\n",
                        frame("weft::wait_group::wait"), frame("\\(anonymous\\)::wait_forever")}));
  EXPECT_EQ(count(o.err, "\ngoroutine "), 1u) << o.err;
}
// Go: TestSimpleDeadlock and its kin, by wait reason
TEST(Deadlock, Channels) {
  const auto waits = [](const char* program, std::string_view reason) {
    EXPECT_CRASH(run_program(program), join({kAsleep, "goroutine 1 \\[", reason, "\\]:\n"}));
  };
  waits("deadlock_chan_receive", "chan receive");
  waits("deadlock_chan_send", "chan send");
  waits("deadlock_nil_chan_receive", "chan receive \\(nil chan\\)");
  waits("deadlock_nil_chan_send", "chan send \\(nil chan\\)");
  waits("deadlock_select", "select");
  waits("deadlock_select_no_cases", "select \\(no cases\\)");
}
// Go: TestRuntimePanicWithRuntimeError, the channel's part
TEST(Panic, Channels) {
  const auto says = [](const char* program, std::string_view text) {
    EXPECT_CRASH(run_program(program),
                 join({"^panic: ", text, "\n\ngoroutine 1 \\[running\\]:\n"}));
  };
  says("panic_send_on_closed", "send on closed channel");
  says("panic_close_of_closed", "close of closed channel");
  says("panic_close_of_nil", "close of nil channel");
  says("panic_chan_size", "makechan: size out of range");
}
TEST(Deadlock, AfterRunHasReturned) { EXPECT_CRASH(run_program("deadlock_after_run"), kAsleep); }
// Before main(): there is nobody yet who could have said how many Ps, or anything else.
TEST(Deadlock, InAStaticInitialiser) {
  const outcome o = run_program("deadlock_main", {"CRASH_IN_STATIC_INITIALISER=1"});
  EXPECT_CRASH(o, join({kAsleep, "goroutine 1 \\[sync.WaitGroup.Wait\\]:\n",
                        frame("weft::wait_group::wait"), frame(".*wait_before_main")}));
}
TEST(Deadlock, WithoutGoroutines) {
  EXPECT_CRASH(run_program("deadlock_without_goroutines"),
               "^the other thread ends\nfatal error: all goroutines are asleep - deadlock!\n\n");
}
TEST(Deadlock, NotWhileAPlainThreadMayAct) {
  for (const char* procs : {"WEFTMAXPROCS=1", "WEFTMAXPROCS=4"}) {
    const outcome o = run_program("awaits_a_plain_thread", {procs});
    EXPECT_EQ(o.exit_status, 7) << o.err;
    EXPECT_EQ(o.err, "");
  }
}
TEST(Deadlock, AfterAThreadHasKeptItsPromise) {
  EXPECT_CRASH(run_program("deadlock_after_thread_exit"), kAsleep);
}
TEST(StoppedWorld, WaitsForNobody) {
  for (const char* program :
       {"stop_and_yield", "stop_and_block", "stop_and_stop", "stop_and_resize",
        "stop_and_block_locked", "stop_and_block_on_a_plain_thread",
        "stop_and_stop_on_a_plain_thread"}) {
    SCOPED_TRACE(program);
    EXPECT_CRASH(run_program(program), "^fatal error: scheduling point inside stop_the_world\n\n");
  }
}
TEST(Deadlock, EverybodyIsListed) {
  const outcome o = run_program("deadlock_two");
  EXPECT_CRASH(o, kAsleep);
  EXPECT_TRUE(matches(o, "\n\ngoroutine 1 \\[sync\\.WaitGroup\\.Wait\\]:\n"));
  EXPECT_TRUE(
      matches(o, join({"\n\ngoroutine [2-9] \\[sync\\.WaitGroup\\.Wait\\] \\{name: sleeper\\}:\n",
                       frame("weft::wait_group::wait"), frame("\\(anonymous\\)::wait_forever"),
                       "created by .* in goroutine 1\n"})));
}
TEST(Deadlock, LockedMain) {
  EXPECT_CRASH(run_program("deadlock_locked_main"),
               join({kAsleep, "goroutine 1 \\[sync\\.WaitGroup\\.Wait, locked to thread\\]:\n"}));
}
TEST(Deadlock, Locked) {  // [DD-7]
  EXPECT_CRASH(run_program("deadlock_locked"),
               join({kAsleep, "goroutine 1 \\[sync\\.WaitGroup\\.Wait, locked to thread\\]:\n"}));
  const outcome two = run_program("deadlock_two_locked");
  EXPECT_CRASH(two, kAsleep);
  EXPECT_EQ(count(two.err, ", locked to thread]:\n"), 2u) << two.err;
}
TEST(Deadlock, AfterThreadsHaveEnded) {
  for (const char* procs : {"WEFTMAXPROCS=1", "WEFTMAXPROCS=4"}) {
    EXPECT_CRASH(run_program("deadlock_after_locked_end", {procs}), kAsleep);
    EXPECT_CRASH(run_program("goexit_locked", {procs}),
                 "^fatal error: no goroutines \\(main called runtime\\.Goexit\\) - deadlock!\n");
  }
}
TEST(Threads, GoroutinesDoNotEndThem) {
#if WEFT_TSAN || WEFT_ASAN
  GTEST_SKIP() << "the sanitizer takes the thread's own stack for the goroutine's";
#endif
  EXPECT_CRASH(run_program("pthread_exit_by_goroutine"),
               "^fatal error: pthread_exit called by a goroutine\n\n");
}
TEST(Deadlock, Join) {
  EXPECT_TRUE(matches(run_program("deadlock_join"), join({kAsleep, "goroutine 1 \\["})));
}
TEST(Deadlock, BesideAChannelTimer) {  // X11
  EXPECT_CRASH(run_program("deadlock_beside_channel_timer"), kAsleep);
}
TEST(Deadlock, NotWhileSomebodySleeps) {  // X11
  EXPECT_CRASH(run_program("deadlock_after_sleep"),
               "^still alive\nfatal error: all goroutines are asleep - deadlock!\n\n");
}
TEST(Deadlock, NotWhileAnMIsCreatedSlowly) {  // X6
  for (const char* program :
       {"slow_first_m", "slow_m_beside_locked_main", "slow_m_by_locked_main"}) {
    const outcome o = run_program(program);
    EXPECT_EQ(o.exit_status, 7) << program << "\n" << o.err;
    EXPECT_EQ(o.err, "") << program;
  }
}
TEST(Deadlock, NotWhileSysmonHasWork) {  // X6
  for (const char* procs : {"WEFTMAXPROCS=1", "WEFTMAXPROCS=4"}) {
    const outcome o = run_program("last_work_is_sysmons", {procs});
    EXPECT_EQ(o.exit_status, 7) << o.err;
    EXPECT_EQ(o.err, "");
  }
}
TEST(Deadlock, ASleeperIsShown) {  // [DG-2]
  EXPECT_TRUE(matches(run_program("asleep_beside_sleeper", {kAll}),
                      "\ngoroutine [0-9]+ \\[sleep\\] \\{name: dreamer\\}:\n"));
}
TEST(Deadlock, ThousandsAreGrouped) {
  const outcome o = run_program("deadlock_many");
  EXPECT_CRASH(o, kAsleep);
  EXPECT_TRUE(matches(o, "\n\\.\\.\\.and 2999 more like it: goroutine [0-9]+, .*, \\.\\.\\.\n"));
  EXPECT_LT(o.err.size(), 10'000u);
}

TEST(GoNil, EmptyFunction) {
  EXPECT_CRASH(run_program("go_nil_function"),
               "^fatal error: go of nil func value\n\ngoroutine 1 \\[running\\]:\n");
}
TEST(GoNil, NullPointer) {
  EXPECT_CRASH(run_program("go_nil_pointer"),
               "^fatal error: go of nil func value\n\ngoroutine 1 \\[running\\]:\n");
}

TEST(Overflow, OfAStandardStack) {
  EXPECT_CRASH(run_program("overflow"),
               "^runtime: goroutine stack exceeds [0-9]+-byte limit\n"
               "runtime: sp=0x[0-9a-f]+ stack=\\[0x[0-9a-f]+, 0x[0-9a-f]+\\]\n"
               "fatal error: stack overflow\n\n"
               "goroutine 1 \\[running\\]:\n"
               "app::descend\\(");
}
TEST(Overflow, IntoTheOddPageBelowTheGuard) {
  EXPECT_CRASH(run_program("overflow_by_a_large_frame"),
               "fatal error: stack overflow\n\ngoroutine 2 \\[running\\]:\n"
               "app::overflow_by_a_large_frame\\(");
}
TEST(Overflow, SaysWhoAndWhereFrom) {
  const outcome o = run_program("overflow_named", {"WEFTMAXPROCS=1"});
  EXPECT_CRASH(o, "fatal error: stack overflow\n\ngoroutine 2 \\[running\\] \\{name: deep\\}:\n");
  EXPECT_NE(o.err.find(" in goroutine 1\n"), std::string::npos) << o.err;  // created by
  EXPECT_NE(o.err.find("goroutine 1 [sync.WaitGroup.Wait"), std::string::npos) << o.err;
}
TEST(Overflow, OnALockedThread) {
  EXPECT_CRASH(run_program("overflow_on_main_thread"), "fatal error: stack overflow\n");
}
TEST(Overflow, IsNotTheProgramsFault) {
  EXPECT_CRASH(run_program("overflow_after_handler"), "fatal error: stack overflow\n");
}
TEST(Overflow, NeedsLittleOfTheProgramsSignalStack) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer has its own";
  const outcome o = run_program("overflow_with_small_signal_stack");
  EXPECT_CRASH(o, "fatal error: stack overflow\n");
  EXPECT_NE(o.err.find("app::descend"), std::string::npos) << o.err;
}
// There is one stack to report on. Each report is whole, and is about another one of them; but the last may be cut
// off: whoever reported first waits for the others for two seconds, and then ends the process.
TEST(Overflow, SeveralAtOnce) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer handles faults";
  std::size_t most = 0;
  for (int i = 0; i < 4; ++i) {
    const outcome o = run_program("overflow_together");
    EXPECT_CRASH(o, "^runtime: goroutine stack exceeds 65536-byte limit\n");
    const std::size_t reports = count(o.err, "fatal error: stack overflow\n");
    std::size_t whole = 0;
    for (const char* who : {"2", "3", "4"}) {
      const bool told =
          matches(o, join({"fatal error: stack overflow\n\ngoroutine ", who,
                           " \\[running\\]:\n(app::descend_together\\(\\.\\.\\.\\)\n\t.+\n){20}"}));
      whole += told ? 1 : 0;
    }
    EXPECT_GE(whole + 1, reports) << o.err;
    EXPECT_GE(count(o.err, "gives a goroutine a larger stack") + 1, reports) << o.err;
    most = std::max(most, reports);
  }
  EXPECT_GT(most, 1u) << "the others never come to their report";
}
// What the report reads lies on the stack for handlers, which looks free to the kernel meanwhile.
TEST(Overflow, BesideOtherSignals) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer handles faults";
  for (int i = 0; i < 20; ++i) {
    const outcome o = run_program("overflow_under_signals");
    EXPECT_CRASH(o, "fatal error: stack overflow\n\ngoroutine 1 \\[running\\]:\napp::descend\\(");
    EXPECT_EQ(count(o.err, "goroutine 1 ["), 1u) << o.err;
  }
}
TEST(Overflow, OfAThreadOfTheRuntime) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer handles faults";
  const outcome o = run_program("overflow_of_a_thread");
  EXPECT_EQ(o.signal, SIGSEGV) << o.err;
  EXPECT_TRUE(
      matches(o,
              "^runtime: the stack of a thread is used up: m=[0-9]+ tid=[0-9]+ sp=0x[0-9a-f]+\n"
              "fatal error: stack overflow outside of goroutines\n\n"
              "goroutine 0 gp=nil m=[0-9]+ mp=0x[0-9a-f]+ \\[idle\\]:\n"
              "app::descend\\("));
  EXPECT_TRUE(matches(o, "\ngoroutine 1 "));
  const outcome bare = run_program("overflow_of_a_thread", {"WEFTTRACEBACK=none"});
  EXPECT_EQ(bare.signal, SIGSEGV) << bare.err;
  EXPECT_EQ(count(bare.err, "fatal error: "), 1u) << bare.err;
  EXPECT_EQ(count(bare.err, "goroutine 0"), 0u) << bare.err;
}
// Go: TestSegv. Faults that are no overflow end as they would without weft, but for the report. (ASan has its own.)
TEST(Overflow, IsNotEveryFault) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer handles faults";
  const outcome fault = run_program("fault");
  EXPECT_EQ(fault.signal, SIGSEGV) << fault.err;
  EXPECT_TRUE(matches(
      fault, join({"^SIGSEGV: segmentation violation\nPC=0x[0-9a-f]+ sigcode=2 addr=0x[0-9a-f]+\n\n"
                   "goroutine [0-9]+ \\[running\\]:\n",
                   frame("app::touch_nothing")})));
  EXPECT_TRUE(matches(fault, "created by .*\n\t.*\n")) << fault.err;
  const outcome brief = run_program("fault", {"WEFTTRACEBACK=none"});
  EXPECT_EQ(brief.signal, SIGSEGV) << brief.err;
  EXPECT_TRUE(matches(brief, "^SIGSEGV: .*\nPC=.*\n(qemu: .*\n)?$"));
  if (std::getenv("WEFT_TEST_EMULATOR") == nullptr) {  // qemu-user fails an assertion of its own
    const outcome bus = run_program("fault_of_a_bus");
    EXPECT_EQ(bus.signal, SIGBUS) << bus.err;
    EXPECT_TRUE(
        matches(bus, join({"^SIGBUS: bus error\nPC=0x[0-9a-f]+ sigcode=2 addr=0x[0-9a-f]+\n\n"
                           "goroutine [0-9]+ \\[running\\]:\n",
                           frame("app::touch_behind_the_end")})));
  }
  const outcome vforked = run_program("fault_in_a_vfork_child");
  EXPECT_EQ(vforked.exit_status, SIGSEGV) << vforked.err;
  EXPECT_EQ(vforked.err.find("goroutine"), std::string::npos) << vforked.err;
  const outcome sent = run_program("fault_sent");
  EXPECT_EQ(sent.signal, SIGSEGV) << sent.err;
  EXPECT_EQ(sent.err.find("fatal error"), std::string::npos) << sent.err;
  EXPECT_EQ(sent.err.find("goroutine"), std::string::npos)
      << sent.err << "it is no fault of anybody's";
}
TEST(Overflow, LeavesOtherFaultsToThePreviousHandler) {
  const outcome jumps = run_program("faults_left_by_jumps");
  EXPECT_EQ(jumps.exit_status, 9) << jumps.err;
  const outcome o = run_program("fault_after_handler");
  EXPECT_EQ(o.exit_status, 7) << o.err;
  EXPECT_EQ(o.err, "the program's own handler\n");
#if !WEFT_TSAN  // which has its own opinion on masks and one-time handlers
  EXPECT_EQ(run_program("fault_after_special_handler").exit_status, 7);
#endif
}

TEST(Resources, ThreadLimit) {
  EXPECT_CRASH(run_program("thread_limit"),
               "^runtime: program exceeds 1-thread limit\nfatal error: thread exhaustion\n\n");
}
// [CN-3]
TEST(Resources, ThreadLimitBelowWhatIs) {
  const outcome o = run_program("thread_limit_below_what_is");
  EXPECT_CRASH(o, "^runtime: program exceeds 1-thread limit\nfatal error: thread exhaustion\n\n");
  EXPECT_EQ(o.out, "") << "it came to this only when the next thread was wanted";
}
TEST(Resources, NoThread) {
  EXPECT_CRASH(
      run_program("many_goroutines", {"WEFT_TEST_FORCE=force_thread_eagain_count=1000000"}),
      "^runtime: failed to create new OS thread \\(have [0-9]+ already; errno=11\\)\n"
      "runtime: may need to increase max user processes \\(ulimit -u\\)\n"
      "fatal error: newosproc\n\n");
}
TEST(Resources, ThreadAtTheThirdAttempt) {
  const outcome o =
      run_program("caught_after_all", {"WEFT_TEST_FORCE=force_thread_eagain_count=2"});
  EXPECT_EQ(o.exit_status, 5) << o.err;
}
TEST(Resources, NoMemoryAtAll) {
  EXPECT_CRASH(run_program("many_goroutines", {"WEFT_TEST_FORCE=force_mmap_fail_after=0"}),
               "^runtime: cannot .*errno=12\\)\n(runtime: .*\n)*fatal error: out of memory");
}
TEST(Resources, NoMemoryForMoreStacks) {
  EXPECT_CRASH(run_program("many_goroutines", {"WEFT_TEST_FORCE=force_mmap_fail_after=4"}),
               "runtime: cannot .*errno=12\\)\n(runtime: .*\n)*fatal error: out of memory");
}

// --- the reporting itself -----------------------------------------------------------------------

TEST(Fatal, RuntimeFaultsShowEverything) {
  const outcome o = run_program("fatal_on_goroutine");
  EXPECT_CRASH(
      o,
      "^fatal error: a bug of ours\n\ngoroutine 1 gp=0x[0-9a-f]+ m=[0-9]+ mp=.* \\[running\\]:\n");
  EXPECT_TRUE(matches(o, "weft::rt::fatal\\(\\.\\.\\.\\)\n"));
}
TEST(Fatal, BeforeTheRuntimeHasStarted) {
  const outcome o = run_program("fatal_on_plain_thread");
  EXPECT_CRASH(o, "^fatal error: a bug\n\tof ours\n");
}
TEST(Fatal, CheckNamesItsPlace) {
  EXPECT_CRASH(run_program("check_fails"),
               "^fatal error: it must hold \\(deadlock\\.cc:[0-9]+\\)\n");
}
TEST(Fatal, FailureWhileReporting) {
  const outcome o = run_program("fatal_in_fatal");
  EXPECT_CRASH(o, "^fatal error: outer\npanic during panic\nfatal error: inner\n$");
}
// [EXT-1]
TEST(Fatal, FailureAfterFailure) {
  const outcome o = run_program("fatal_three_times");
  EXPECT_EQ(o.exit_status, 4);
  EXPECT_EQ(o.err, "panic during panic\nstack trace unavailable\n");
}
TEST(Fatal, FailureForGood) {
  if (WEFT_TSAN) GTEST_SKIP() << "TSan delays the signal that fails";
  const outcome o = run_program("fatal_four_times");
  EXPECT_EQ(o.exit_status, 5);
  EXPECT_EQ(o.err, "");
}

// --- locks --------------------------------------------------------------------------------------

struct misuse {
  const char* program;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const misuse& m) { return out << m.program; }

std::string program_name(const testing::TestParamInfo<misuse>& test) { return test.param.program; }

class LockMisuse : public testing::TestWithParam<misuse> {};

// Go: TestMutexMisuse. Fatal, and not to be recovered from.
TEST_P(LockMisuse, IsFatal) {
  const outcome o = run_program(GetParam().program);
  EXPECT_CRASH(o, join({"^fatal error: ", GetParam().message, "\n"}));
  EXPECT_EQ(o.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    , LockMisuse,
    testing::Values(misuse{"mutex_unlock", "sync: unlock of unlocked mutex"},
                    misuse{"mutex_unlock_twice", "sync: unlock of unlocked mutex"},
                    misuse{"recursive_mutex_unlock", "sync: unlock of unlocked mutex"},
                    misuse{"recursive_mutex_unlock_once_more", "sync: unlock of unlocked mutex"},
                    misuse{"recursive_mutex_unlock_by_another",
                           "sync: unlock of recursive mutex by another than its owner"},
                    misuse{"recursive_mutex_unlock_by_a_thread",
                           "sync: unlock of recursive mutex by another than its owner"},
                    misuse{"shared_mutex_unlock", "sync: Unlock of unlocked RWMutex"},
                    misuse{"shared_mutex_unlock_read", "sync: Unlock of unlocked RWMutex"},
                    misuse{"shared_mutex_unlock_twice", "sync: Unlock of unlocked RWMutex"},
                    misuse{"shared_mutex_unlock_shared", "sync: RUnlock of unlocked RWMutex"},
                    misuse{"shared_mutex_unlock_shared_written",
                           "sync: RUnlock of unlocked RWMutex"},
                    misuse{"shared_mutex_unlock_shared_twice", "sync: RUnlock of unlocked RWMutex"},
                    misuse{"latch_below_zero", "latch: counted down below zero"},
                    // Go: poll.TestMutexPanic
                    misuse{"fd_lock_unlock_read", "inconsistent poll\\.fdMutex"},
                    misuse{"fd_lock_unlock_write", "inconsistent poll\\.fdMutex"},
                    misuse{"fd_lock_unlock_the_other", "inconsistent poll\\.fdMutex"},
                    misuse{"fd_lock_unlock_without_a_direction", "inconsistent poll\\.fdMutex"},
                    misuse{"fd_lock_leave", "inconsistent poll\\.fdMutex"},
                    misuse{"fd_lock_leave_twice", "inconsistent poll\\.fdMutex"}),
    program_name);

class LockDeadlock : public testing::TestWithParam<misuse> {};

TEST_P(LockDeadlock, SaysWhatItWaitsFor) {
  const outcome o = run_program(GetParam().program);
  EXPECT_CRASH(o, join({"^fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 \\[",
                        GetParam().message, "\\]:\n"}));
}

INSTANTIATE_TEST_SUITE_P(, LockDeadlock,
                         testing::Values(misuse{"deadlock_mutex", "sync\\.Mutex\\.Lock"},
                                         misuse{"deadlock_read", "sync\\.RWMutex\\.RLock"},
                                         misuse{"deadlock_write", "sync\\.RWMutex\\.Lock"},
                                         misuse{"deadlock_cond", "sync\\.Cond\\.Wait"},
                                         misuse{"deadlock_semaphore", "semacquire"}),
                         program_name);

// Without guards an overflow is noticed when its goroutine ends, whatever stack it runs on.
TEST(Overflow, OfAnUnguardedStack) {
  for (const char* program : {"overflow_of_its_own", "overflow_in_place"}) {
    const outcome o =
        run_program(program, {"WEFT_TEST_FORCE=deny_guard_install=1,deny_mprotect=1"});
    EXPECT_CRASH(o,
                 "runtime: goroutine stack exceeds [0-9]+-byte limit\n"
                 "runtime: stack=\\[0x[0-9a-f]+, 0x[0-9a-f]+\\]\n"
                 "fatal error: stack overflow\n");
    EXPECT_EQ(o.out, "") << "the joiner must not go on";
  }
}

// Whatever stack it runs on, a goroutine's exception is its own, and so is its trace.
TEST(Panic, InPlaceIsNotTheJoiners) {
  const outcome o = run_program("panic_in_place");
  EXPECT_CRASH(o, panic("(int\\()?42\\)?"));
  EXPECT_EQ(o.out, "");
  EXPECT_GT(o.err.find("misuse"), o.err.find("created by")) << "the joiner's frames\n" << o.err;
}

}  // namespace
