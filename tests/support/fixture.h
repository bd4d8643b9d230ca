// The fixture of everything that runs goroutines: each test runs with 1, 2, 4 and 16 Ps, is watched,
// and fails if it leaves a goroutine, a stack, a record or a blocked thread behind.
//
//     class Yield : public weft::test::over_procs {};
//     TEST_P(Yield, LetsOthersRun) { run([] { ... }); }
//     WEFT_OVER_PROCS(Yield);
//
// The four are registered one by one, by a TEST_P of our own: GoogleTest's way to parameters costs every file
// more to compile than its tests do. Suites with other parameters take GoogleTest's way, as ever.
#pragma once

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <type_traits>
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

// The number of Ps as a test's parameter.
class has_procs {
 public:
  static constexpr int kNumbersOfPs[] = {1, 2, 4, 16};

 protected:
  int procs() const { return procs_; }

 private:
  template <class Suite, class Test>
  friend bool enrol(const char* suite, const char* name, const char* file, int line);

  static inline int next_procs_ = 1;  // for the one under construction
  const int procs_ = next_procs_;
};

class over_procs : public runtime_test, public has_procs {
 protected:
  template <class F>
  int run(F&& f) {
    return weft::run(std::forward<F>(f), {.max_procs = procs()});
  }

  void SetUp() override;
};

// What exists although nothing should. Empty if all is well; waits for goroutines that are ending.
std::string leaks();

// Whose P was taken because it slept in the kernel comes back when it likes, and runs until it is stopped (D3), also
// in a world that stands still. With a slow tool everybody sleeps there now and then. Without a look inside: perhaps.
bool somebody_was_robbed();

// Prints "P1", "P16" as part of the test's name.
inline std::string procs_name(const testing::TestParamInfo<int>& info) {
  return "P" + std::to_string(info.param);
}

template <class Suite, class Test>
bool enrol(const char* suite, const char* name, const char* file, int line) {
  if constexpr (std::is_base_of_v<has_procs, Suite>) {
    for (const int procs : has_procs::kNumbersOfPs) {
      const std::string full = name + ("/P" + std::to_string(procs));
      testing::RegisterTest(suite, full.c_str(), nullptr, nullptr, file, line, [procs]() -> Suite* {
        has_procs::next_procs_ = procs;
        return new Test;
      });
    }
  } else {
    const testing::internal::CodeLocation place(file, line);
    testing::UnitTest::GetInstance()
        ->parameterized_test_registry()
        .template GetTestSuitePatternHolder<Suite>(suite, place)
        ->AddTestPattern(suite, name, new testing::internal::TestMetaFactory<Test>(), place);
  }
  return true;
}

}  // namespace weft::test

#undef TEST_P
#define TEST_P(suite, name)                                                               \
  class suite##_##name##_Test : public suite {                                            \
    void TestBody() override;                                                             \
    static const bool enrolled_;                                                          \
  };                                                                                      \
  const bool suite##_##name##_Test::enrolled_ =                                           \
      weft::test::enrol<suite, suite##_##name##_Test>(#suite, #name, __FILE__, __LINE__); \
  void suite##_##name##_Test::TestBody()

#define WEFT_OVER_PROCS(suite) static_assert(std::is_base_of_v<weft::test::has_procs, suite>)
