// Tests of child processes for 1, 2, 4 and 16 Ps. The parent has no runtime of its own.
//
//     class Exit : public weft::test::children_over_procs {};
//     TEST_P(Exit, MainReturns) { expect("main_returns", 3, "late: frozen\n"); }
//     WEFT_OVER_PROCS(Exit);
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/child.h"
#include "support/fixture.h"

namespace weft::test {

class children_over_procs : public testing::Test, public has_procs {
 protected:
  child_result run(const char* child, std::vector<std::string> environment = {}) {
    environment.push_back("WEFTMAXPROCS=" + std::to_string(procs()));
    return run_child(child, environment);
  }

  // A few times over, since most of it is about who is where at that moment.
  void expect(const char* child, int status, const std::string& output) {
    for (int i = 0; i < scaled(4, 2); ++i) {
      const child_result r = run(child);
      ASSERT_EQ(r.status, status) << r.output;
      ASSERT_EQ(r.output, output);
    }
  }
};

}  // namespace weft::test
