// The fixture of everything that runs goroutines: each test runs with 1, 2, 4 and 16 Ps, is watched,
// and fails if it leaves a goroutine, a stack, a record or a blocked thread behind.
//
//     class Yield : public weft::test::over_procs {};
//     TEST_P(Yield, LetsOthersRun) { run([] { ... }); }
//     WEFT_OVER_PROCS(Yield);
#pragma once

#include <gtest/gtest.h>
#include <optional>
#include <utility>

#include <weft/run.h>

#include "support/patience.h"
#include "support/watchdog.h"

namespace weft::test {

// The same checks for tests that choose the number of Ps themselves.
class runtime_test : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  std::optional<watchdog> watchdog_;
};

class over_procs : public runtime_test, public testing::WithParamInterface<int> {
 protected:
  int procs() const { return GetParam(); }

  template <class F>
  int run(F&& f) {
    return weft::run(std::forward<F>(f), {.max_procs = procs()});
  }

  void SetUp() override;
};

// What exists although nothing should. Empty if all is well; waits for goroutines that are ending.
std::string leaks();

// Prints "P1", "P16" as part of the test's name.
inline std::string procs_name(const testing::TestParamInfo<int>& info) {
  return "P" + std::to_string(info.param);
}

}  // namespace weft::test

#define WEFT_OVER_PROCS(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::Values(1, 2, 4, 16), weft::test::procs_name)
