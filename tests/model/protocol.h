// A protocol under test: its scenarios, the headers it answers for, and the mutation run.
//
// expect_all_mutants_caught() first explores every scenario as it is: all must hold, within the
// bounds they state. Then it switches on one mutant after the other and requires that some scenario
// fails. It prints a table
//     model | mutant | clean executions | verdict | executions | ms
// and leaves the trace of a scenario that fails unexpectedly in the test's message.
// WEFT_MODEL_TRACE=1 prints the trace of every caught mutant as well.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/engine.h"
#include "model/mutants.h"

namespace weft::model {

struct scenario {
  std::string name;
  options bounds;
  std::function<void(world&)> build;
};

struct protocol {
  std::string name;
  std::vector<std::string> files;   // ends of paths: sites there are this protocol's to check
  std::vector<std::string> labels;  // only these labels and logic mutants; empty = all in the files
  std::vector<scenario> scenarios;

  bool covers(const site& s) const;
  bool covers(const logic_mutant& m) const;
};

// Explores one scenario; a failure carries its trace into the test's output.
report expect_holds(const scenario& s);
report expect_fails(const scenario& s);

void expect_all_mutants_caught(const protocol& p);

// Every WEFT_ORDER in the protocols' files that is not relaxed, as the text of the files shows
// them, must be enrolled and must belong to a protocol.
void expect_all_sites_covered(const std::vector<const protocol*>& protocols);

// Every mistake that is planted in a header or a source is some protocol's to catch, and every label that a protocol names is
// there, in one of its files: one that was renamed, or moved to another file, would pass for caught.
void expect_all_mutants_tried(const std::vector<const protocol*>& protocols);

// An order that no model checks, and why none is needed.
struct exemption {
  std::string file;   // below src/ or include/
  std::string label;  // empty: those that a header gives in the compiler's words
  std::string why;
};

// Every order in src/ and include/ that is not relaxed belongs to a protocol, or is exempt, and every exemption
// is still needed: a new order cannot slip in.
void expect_all_orders_accounted_for(const std::vector<const protocol*>& protocols,
                                     const std::vector<exemption>& exempt);

// Protocols enrol themselves, for expect_all_sites_covered().
std::vector<const protocol*>& all_protocols();
struct enrol_protocol {
  explicit enrol_protocol(const protocol& p) { all_protocols().push_back(&p); }
};

}  // namespace weft::model
