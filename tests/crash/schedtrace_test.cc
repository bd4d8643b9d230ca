// WEFTDEBUG: schedtrace and scheddetail have Go's fields in Go's order; keys that are not understood are
// named once.
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "crash/expect.h"
#include "fiber/sanitizer.h"
#include "support/patience.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

constexpr const char* kNumbers =
    "gomaxprocs=[0-9]+ idleprocs=[0-9]+ threads=[0-9]+ spinningthreads=[0-9]+ needspinning=[01] "
    "idlethreads=[0-9]+ runqueue=[0-9]+";

// The programs call what sysmon calls, at times of their own.
constexpr const char* kNoSysmon = "WEFT_TEST_FORCE=no_sysmon=1";

TEST(SchedTrace, OneLinePerPeriod) {
  const outcome o = run_program("schedtrace", {"WEFTDEBUG=schedtrace=1000", kNoSysmon});
  EXPECT_EQ(o.exit_status, 0);
  const std::string lists =
      " \\[ [0-9]+ [0-9]+ [0-9]+ \\] schedticks=\\[ [0-9]+ [0-9]+ [0-9]+ \\]\n";
  EXPECT_TRUE(
      matches(o, join({"^SCHED 0ms: ", kNumbers, lists, "SCHED 1003ms: ", kNumbers, lists, "$"})));
  EXPECT_TRUE(matches(o, "^SCHED 0ms: gomaxprocs=3 "));
}

TEST(SchedTrace, InDetail) {
  const outcome o =
      run_program("schedtrace_of_waiters", {"WEFTDEBUG=schedtrace=1000,scheddetail=1", kNoSysmon});
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_TRUE(matches(
      o, join({"^SCHED 0ms: ", kNumbers,
               " gcwaiting=false nmidlelocked=0 stopwait=0 sysmonwait=false\n"
               "  P0: status=1 schedtick=[0-9]+ syscalltick=0 m=[0-9]+ runqsize=[0-9]+ "
               "gfreecnt=[0-9]+ timerslen=0\n"
               "(  M[0-9]+: p=([0-9]+|nil) curg=([0-9]+|nil) mallocing=0 throwing=0 preemptoff= "
               "locks=0 dying=0 spinning=(true|false) blocked=(true|false) lockedg=nil\n)+"
               "(  G[0-9]+: status=[0-9]+\\([^)]*\\) m=([0-9]+|nil) lockedm=nil\n)+$"})));
  EXPECT_TRUE(matches(o, "\n  M[0-9]+: p=0 curg=1 "));
  EXPECT_TRUE(matches(o, "\n  G1: status=2\\([^)]*\\) m=[0-9]+ lockedm=nil\n"));
  EXPECT_TRUE(matches(o, "\n  G2: status=4\\(sync.WaitGroup.Wait\\) m=nil lockedm=nil\n"));
  EXPECT_TRUE(matches(o, "\n  G3: status=1\\([^)]*\\) m=nil lockedm=nil\n"));
}

TEST(SchedTrace, BySysmon) {
  const outcome o = run_program("schedtrace_sleeper", {"WEFTDEBUG=schedtrace=5"});
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_TRUE(matches(o, join({"^(SCHED [0-9]+ms: ", kNumbers,
                               " \\[ [0-9]+ [0-9]+ \\] schedticks=\\[ [0-9]+ [0-9]+ \\]\n){2}"})));
}

TEST(SchedTrace, OurOwnFieldsHaveTheirOwnKey) {
  const outcome o =
      run_program("schedtrace", {"WEFTDEBUG=schedtrace=1000,schedextra=1", kNoSysmon});
  EXPECT_TRUE(matches(o, " \\] foreign=[0-9]+ frozen=0\n"));
}

TEST(SchedTrace, CountsWhoIsFrozen) {
  if (WEFT_TSAN) GTEST_SKIP() << "TSan delays signals in loops without atomics";
  const outcome o = run_program("schedtrace_frozen", {"WEFTDEBUG=schedtrace=1000,schedextra=1"});
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_TRUE(matches(o, " foreign=[0-9]+ frozen=2\n"));
}

// It is awake when it prints by itself. A crash report may find it asleep.
TEST(SchedTrace, KnowsWhetherSysmonSleeps) {
  const outcome o = run_program("schedtrace_sysmon_sleeps");
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_GE(count(o.err, " sysmonwait=true\n"), 1u) << o.err;
}

TEST(SchedTrace, ACrashHasItInDetail) {
  const outcome o = run_program("schedtrace_panic", {"WEFTDEBUG=scheddetail=1"});
  EXPECT_CRASH(o, join({"^panic: with a trace\nSCHED 0ms: ", kNumbers, " gcwaiting="}));
  EXPECT_TRUE(matches(o, "\n  G1: status=2"));
  EXPECT_TRUE(matches(o, "\n\ngoroutine 1 \\[running\\]:\n"));
}

TEST(SchedTrace, NothingUnlessAskedFor) { EXPECT_EQ(run_program("schedtrace").err, ""); }

TEST(DebugKeys, WhatIsNotUnderstoodIsNamedOnce) {
  const outcome o = run_program("only_starts", {"WEFTDEBUG=shedtrace=1,lockcheck=7,migrate=x"});
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_EQ(o.err,
            "runtime: unknown WEFTDEBUG key shedtrace\n"
            "runtime: WEFTDEBUG key lockcheck takes 0 to 1: lockcheck=7\n"
            "runtime: WEFTDEBUG key migrate needs a number: migrate=x\n");
}

TEST(DebugKeys, InitTrace) {
  const outcome o = run_program("only_starts", {"WEFTDEBUG=inittrace=1"});
  EXPECT_TRUE(matches(o, "^init weft @[0-9.]+ ms, [0-9.]+ ms clock, [0-9]+ bytes, 0 allocs\n$"));
}

// Without the freeze the other goroutines run on while the report is printed.
TEST(DebugKeys, DontFreezeTheWorld) {
  const outcome o = run_program("key_dontfreezetheworld", {"WEFTDEBUG=dontfreezetheworld=1"});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_EQ(o.out, "they run on\n");
  const outcome frozen = run_program("key_freezes_the_world");
  EXPECT_EQ(frozen.out, "they stand still\n") << frozen.err;
}

TEST(DebugKeys, Migrate) {
  if (WEFT_TSAN)
    GTEST_SKIP() << "TSan takes errno for the thread's, as docs/guide/sanitizers.md says";
  const outcome o = run_program("key_migrate", {"WEFTDEBUG=migrate=1"});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_EQ(o.out,
            "free: moved 50, errno kept 50 of 50\n"
            "locked: moved 0, errno kept 50 of 50\n");
}

TEST(DebugKeys, IoUring) {
  EXPECT_EQ(run_program("key_iouring", {"WEFTDEBUG=iouring=0"}).out, "ELF by threads\n");
  const outcome o = run_program("key_iouring");
  if (o.out == "ELF by threads\n") GTEST_SKIP() << "there is no io_uring to be had";
  EXPECT_EQ(o.out, "ELF by the ring\n");
}

// Pages that are only marked are still there until memory is short.
TEST(DebugKeys, MadvDontNeed) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "the sanitizer's own pages count, too";
  if (weft::test::emulated()) GTEST_SKIP() << "the emulator's own pages count, too";
  EXPECT_EQ(run_program("key_madvdontneed").out, "lazy: little\n");
  EXPECT_EQ(run_program("key_madvdontneed", {"WEFTDEBUG=madvdontneed=0"}).out, "lazy: much\n");
}

// Each place by itself, although stacks are used again, and whoever has not ended yet, too.
TEST(DebugKeys, StackUsage) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "frames are larger";
  if (sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "pages are larger";
  const outcome o = run_program("key_stackusage", {"WEFTDEBUG=stackusage=1"});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_TRUE(crash::matches(o.out,
                             "^2[4-9] pages, 3 goroutines: key_stackusage_main.*\n"
                             "1[2-7] pages, 1 goroutines: key_stackusage_main.*\n"))
      << o.out;
  EXPECT_TRUE(crash::matches(o.out, "\n[1-5] pages, 5 goroutines: key_stackusage_main.*\n"))
      << o.out;
  EXPECT_TRUE(
      matches(o, "^weft: stacks by place of creation: .*\n\t[0-9]+ [0-9]+ 3 key_stackusage_main"));
  EXPECT_EQ(run_program("key_stackusage").out, "");
}

}  // namespace
