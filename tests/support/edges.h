// Edges of the memory model, each by children of a test program: NAME_ordered, in which the edge orders two
// accesses to a plain variable, and NAME_racy, which differs in one step and has no edge.
//
// Under ThreadSanitizer the first must be silent, and the second must not: otherwise the runtime orders more
// than it promises, and hides the users' races. And the first must not be silent either when the
// runtime's own part of the edge is taken away (src/base/tsan_mutant.h): otherwise its silence says nothing.
#pragma once

#include <gtest/gtest.h>
#include <string>

#include "support/child.h"
#include "support/fixture.h"

namespace weft::test {

struct edge_case {
  const char* name;
  const char* mutant;  // the labels that make the edge, by which it is taken away
};

inline constexpr const char* kRaceReport = "WARNING: ThreadSanitizer: data race";

inline void expect_ordered(const std::string& name) {
  const auto child = run_child(name + "_ordered");
  EXPECT_EQ(child.output.find(kRaceReport), std::string::npos) << child.output;
  EXPECT_EQ(child.status, 0) << child.output;
}

inline void expect_race(const std::string& name) {
  if (!WEFT_TEST_TSAN) GTEST_SKIP() << "needs ThreadSanitizer";
  const auto child = run_child(name + "_racy");
  EXPECT_NE(child.output.find(kRaceReport), std::string::npos)
      << "the twin has a race that is hidden\n"
      << child.output;
}

// `variable`: the global that the two accesses are to. Another race would prove nothing.
inline void expect_needed(const edge_case& e, const std::string& variable) {
#ifdef WEFT_TSAN_MUTANTS
  const auto child =
      run_child(std::string(e.name) + "_ordered", {"WEFT_TSAN_MUTANT=" + std::string(e.mutant)});
  EXPECT_NE(child.output.find(kRaceReport), std::string::npos) << "not by " << e.mutant;
  EXPECT_NE(child.output.find("Location is global '" + variable), std::string::npos)
      << child.output;
#else
  static_cast<void>(e);
  static_cast<void>(variable);
  GTEST_SKIP() << "needs ThreadSanitizer and WEFT_TSAN_MUTANTS";
#endif
}

inline std::string edge_name(const testing::TestParamInfo<edge_case>& info) {
  return info.param.name;
}
inline std::string plain_name(const testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace weft::test
