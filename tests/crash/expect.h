// What the tests of crash reports have in common.
#pragma once

#include <cstddef>
#include <gtest/gtest.h>
#include <initializer_list>
#include <string>
#include <string_view>

#include "crash/child.h"
#include "crash/match.h"

namespace crash {

inline testing::AssertionResult matches(const outcome& o, const std::string& pattern) {
  if (crash::matches(o.err, pattern)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no match for\n" << pattern << "\nin\n" << o.err;
}

inline std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

// The report begins or contains the pattern, and the status is Go's.
inline void expect_crash(const outcome& o, const std::string& pattern) {
  EXPECT_EQ(o.exit_status, 2) << o.err;
  EXPECT_FALSE(o.hung);
  EXPECT_TRUE(matches(o, pattern));
}
#define EXPECT_CRASH(o, pattern)       \
  do {                                 \
    SCOPED_TRACE("the report");        \
    ::crash::expect_crash(o, pattern); \
  } while (false)

inline std::string join(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all.append(part);
  return all;
}

// A function with its place, as printed for one frame.
inline std::string frame(std::string_view function) {
  return join({function, "\\(\\.\\.\\.\\)\n\t.+:(0x[0-9a-f]+|[0-9]+)( \\+0x[0-9a-f]+)?\n"});
}

}  // namespace crash
