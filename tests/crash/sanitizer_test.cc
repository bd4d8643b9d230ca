// Under a sanitizer: bugs in goroutines are found, and only bugs. Under Valgrind the same, in a build
// that is made for it.
#include "fiber/sanitizer.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "base/valgrind.h"
#include "crash/expect.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

TEST(Sanitizer, SaysNothingIfNothingIsWrong) {
  const outcome o = run_program("nothing_wrong");
  EXPECT_EQ(o.exit_status, 0);
  EXPECT_EQ(o.err, "");
}

TEST(Sanitizer, SaysNothingOfPreemptionBlockingCallsAndMigration) {
  for (const char* setting : {"WEFTDEBUG=migrate=0", "WEFTDEBUG=migrate=1"}) {
    const outcome o = run_program("every_way_to_lose_a_p", {setting});
    EXPECT_EQ(o.exit_status, 0) << setting;
    EXPECT_EQ(o.err, "") << setting;
  }
}

TEST(ThreadSanitizer, RaceWithTheStacksOfBothGoroutines) {
  if (!WEFT_TSAN) GTEST_SKIP() << "a build with ThreadSanitizer finds it";
  const outcome o = run_program("race_between_goroutines");
  EXPECT_NE(o.exit_status, 0);
  EXPECT_TRUE(matches(o, "WARNING: ThreadSanitizer: data race"));
  EXPECT_TRUE(matches(o, "app::first_writer\\(\\)")) << o.err;
  EXPECT_TRUE(matches(o, "app::second_writer\\(\\)")) << o.err;
}

// Nobody's CI builds this; unit.fiber.sanitizer has the count.
TEST(ThreadSanitizer, OfGccHasRoomForSoMany) {
#if defined(__clang__)
  GTEST_SKIP() << "clang++'s takes many times as many";
#endif
  if (!WEFT_TSAN) GTEST_SKIP() << "a build by g++ with ThreadSanitizer has this limit";
  EXPECT_CRASH(run_program("nine_thousand_at_once"),
               "^fatal error: too many goroutines for g\\+\\+'s ThreadSanitizer \\(8000\\); "
               "clang\\+\\+'s takes more\n");
}

TEST(AddressSanitizer, UseAfterFreeWithTheStacksOfAllThree) {
  if (!WEFT_ASAN) GTEST_SKIP() << "a build with AddressSanitizer finds it";
  const outcome o = run_program("use_after_free_by_another");
  EXPECT_TRUE(matches(o, "AddressSanitizer: heap-use-after-free"));
  for (const char* who : {"app::uses_it", "app::frees_it", "app::makes_it"}) {
    EXPECT_NE(o.err.find(who), std::string::npos) << who << o.err;
  }
}
TEST(AddressSanitizer, Leak) {
  if (!WEFT_ASAN) GTEST_SKIP() << "a build with AddressSanitizer finds it";
  const outcome o = run_program("leak_in_a_goroutine");
  EXPECT_TRUE(matches(o, "LeakSanitizer: detected memory leaks"));
  EXPECT_NE(o.err.find("app::leaks"), std::string::npos) << o.err;
}
TEST(UndefinedBehaviorSanitizer, Shift) {
  if (!WEFT_ASAN) GTEST_SKIP() << "a build with UndefinedBehaviorSanitizer finds it";
  const outcome o = run_program("undefined_shift");
  EXPECT_TRUE(matches(o, "runtime error: shift exponent 70 is too large"));
}

// Calls and returns are counted by threads: those that park on one and return on another must not be.
TEST(ThreadSanitizer, AnotherThreadAfterEveryPark) {
  const outcome o = run_program("many_parks", {"WEFTDEBUG=migrate=1"});
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_EQ(o.err, "");
}

class Valgrind : public testing::Test {
 protected:
  void SetUp() override {
    if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "Valgrind does not run sanitizers' programs";
#if !defined(NDEBUG) || defined(__clang__) || defined(WEFT_CHAOS)
    GTEST_SKIP() << "the release build's tests do it";
#endif
    if (!weft::rt::kKnowsValgrind) GTEST_SKIP() << "compiled without <valgrind/valgrind.h>";
    if (std::system("command -v valgrind >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "valgrind is not there";
    }
    if (std::getenv("WEFT_TEST_EMULATOR") != nullptr)
      GTEST_SKIP() << "a program of another machine";
  }
  static outcome valgrind(const char* program, std::vector<std::string> environment = {}) {
    // Its threads take turns; a fair order saves those who wait for a computation most of the time.
    return run(
        {.command = {"valgrind", "-q", "--fair-sched=try", "--error-exitcode=9", CRASH_PROGRAMS},
         .program = program,
         .environment = std::move(environment)});
  }
};

TEST_F(Valgrind, SaysNothingIfNothingIsWrong) {
  const outcome o = valgrind("nothing_wrong");
  EXPECT_EQ(o.exit_status, 0) << o.err;
  EXPECT_EQ(o.err.find("Invalid"), std::string::npos) << o.err;
}
// Interrupted in the middle of a computation, robbed of its P in the kernel, and on another thread after every park.
TEST_F(Valgrind, SaysNothingOfPreemptionBlockingCallsAndMigration) {
  for (const char* setting : {"WEFTDEBUG=migrate=0", "WEFTDEBUG=migrate=1"}) {
    const outcome o = valgrind("every_way_to_lose_a_p", {setting});
    EXPECT_EQ(o.exit_status, 0) << setting << o.err;
    EXPECT_EQ(count(o.err, "=="), 0u) << setting << o.err;
  }
}
TEST_F(Valgrind, UseAfterFree) {
  const outcome o = valgrind("use_after_free_by_another");
  EXPECT_EQ(o.exit_status, 9) << o.err;
  EXPECT_TRUE(matches(o, "Invalid read of size 4")) << o.err;
  EXPECT_TRUE(
      matches(o, "Invalid read of size 4\n(==.*\n)*==.*use_after_free_by_another_main.*\n"));
  EXPECT_TRUE(
      matches(o, "bytes inside a block of size 4 free'd\n(==.*\n)*==.* weft_goroutine_entry"));
  EXPECT_TRUE(matches(o, "Block was alloc'd at\n(==.*\n)*==.* app::makes_it"));
}

}  // namespace
