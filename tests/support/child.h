// Programs whose end is the point: run as child processes, with what they print and how they end.
//
// A test program registers its children and hands them its main():
//
//     WEFT_CHILD(leaves_early) { ...; return 3; }
//     TEST(Exit, Early) { EXPECT_EQ(run_child("leaves_early").status, 3); }
//     int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
#pragma once

#include <string>
#include <vector>

namespace weft::test {

struct child_result {
  int status = -1;     // exit status, or 128 + signal
  std::string output;  // stdout and stderr, interleaved
};

// Runs this program again as the child of that name, with additional environment ("VAR=value").
// Ends it, with status 137, if it takes longer than a test may: 30 s, or WEFT_TEST_PATIENCE.
child_result run_child(const std::string& name, const std::vector<std::string>& environment = {});

struct child_registration {
  child_registration(const char* name, int (*body)());
};

int main_with_children(int argc, char** argv);

}  // namespace weft::test

#define WEFT_CHILD(name)                                                                        \
  static int weft_child_##name();                                                               \
  static const weft::test::child_registration weft_child_reg_##name{#name, &weft_child_##name}; \
  static int weft_child_##name()
