// What one waits for is named by the line at which it was made, in any program, without asking for it.
#include <gtest/gtest.h>
#include <ostream>
#include <string>

#include "crash/expect.h"
#include "support/patience.h"

namespace {

using namespace crash;  // NOLINT: their words throughout

struct object {
  const char* program;
  const char* reason;
  const char* where = "\\(";
};
std::ostream& operator<<(std::ostream& out, const object& o) { return out << o.program; }

const object kObjects[] = {
    {"made_mutex", "sync.Mutex.Lock"},
    {"made_mutex_by_new", "sync.Mutex.Lock"},
    {"made_mutex_before_the_runtime", "sync.Mutex.Lock"},
    {"made_recursive_mutex", "sync.Mutex.Lock"},
    {"made_shared_mutex", "sync.RWMutex.Lock"},
    {"made_condition", "sync.Cond.Wait"},
    {"made_member", "sync.Cond.Wait"},
    {"made_wait_group", "sync.WaitGroup.Wait"},
    {"made_task_group", "sync.WaitGroup.Wait"},
    {"made_task_group_on_the_stack", "sync.WaitGroup.Wait", "\\(on the stack of goroutine 1, "},
    {"made_semaphore", "semacquire"},
    {"made_latch", "latch wait"},
    {"made_barrier", "barrier wait"},
    {"made_promise", "future wait"},
    {"made_packaged_task", "future wait"},
    {"made_async", "future wait"},
};

class Made : public testing::TestWithParam<object> {
 protected:
  // It says itself at which line.
  static void expect_place(const outcome& o) {
    ASSERT_TRUE(o.out.starts_with("made.cc:")) << o.out;
    const std::string place = o.out.substr(0, o.out.find('\n'));
    EXPECT_CRASH(o,
                 join({"\nwaits:\n(\t.*\n)*\tgoroutine 1: ", GetParam().reason, " of 0x[0-9a-f]+ ",
                       GetParam().where, "made by .*/", place, "( \\+0x[0-9a-f]+)?\\), for"}));
  }
};

TEST_P(Made, IsNamedByItsLine) { expect_place(run_program(GetParam().program)); }

TEST_P(Made, IsNamedByItsLineUnderLockcheckToo) {
  expect_place(run_program(GetParam().program, {"WEFTDEBUG=lockcheck=1"}));
}

INSTANTIATE_TEST_SUITE_P(, Made, testing::ValuesIn(kObjects),
                         [](const auto& test) { return std::string(test.param.program); });

TEST(MadeAndGone, IsNotLookedAt) {
  if (weft::test::emulated())
    GTEST_SKIP() << "an emulator's rt_sigprocmask() does not tell what is readable";
  for (const char* program : {"made_and_overwritten", "made_and_unmapped"}) {
    EXPECT_CRASH(run_program(program), "\tgoroutine [0-9]+: sync.Mutex.Lock of 0x[0-9a-f]+, for");
  }
}

}  // namespace
