// What WEFTDEBUG=key=value,… switches: numbers by name, read once when the runtime starts.
//
// Go ignores a key that it does not know, so that a misspelt switch looks like one that changes
// nothing. Here every entry that is not understood is named on standard error, and the program goes on.
//
// To add one: a field with its default below, and a line in the table of debug_vars.cc.
//
// Constant after boot: readers need no atomics.  Go: runtime/runtime1.go debug, parsegodebug
#pragma once

#include <cstdint>
#include <string_view>

#include "base/print.h"

namespace weft::rt {

struct debug_vars_t {
  std::int32_t containermaxprocs = 1;  // 0: the default of gomaxprocs ignores cgroups [CG-8]
  std::int32_t updatemaxprocs = 1;     // 0: the default is not followed while the program runs
};

extern constinit debug_vars_t debug_vars;

// Sets what `text` says; of two values for one key the later one counts. Complaints go to `complaints`.
void parse_debug_vars(std::string_view text, debug_vars_t& vars, printer& complaints) noexcept;

// From the environment. Once, before there is a second thread of the runtime.
void load_debug_vars() noexcept;

}  // namespace weft::rt
