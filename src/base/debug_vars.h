// What WEFTDEBUG=key=value,… switches: numbers by name, read once when the runtime starts.
//
// Go ignores a key that it does not know, so that a misspelt switch looks like one that changes
// nothing. Here every entry that is not understood, or is out of its range, is named on standard error,
// and the program goes on without it.
//
// To add one: a field with its default below, a line in the table of debug_vars.cc with the range of its
// values, and a place in docs/debugging.md and in docs/go-to-weft.md.
//
// Constant after boot: readers need no atomics.  Go: runtime/runtime1.go debug, parsegodebug
#pragma once

#include <cstdint>
#include <string_view>

#include "base/print.h"

namespace weft::rt {

struct debug_vars_t {
  std::int32_t asyncpreemptoff = 0;  // 1: goroutines are asked to make room, but never interrupted
  std::int32_t dontfreezetheworld = 0;  // 1: a crash report lets the other goroutines run
  std::int32_t inittrace = 0;           // 1: says how long the start of the runtime took
  std::int32_t iouring = 1;             // 0: files are read and written by threads
  std::int32_t lockcheck = 0;           // 1: owners of mutexes are known, their order is watched
  std::int32_t madvdontneed = 1;        // 0: idle stacks may stay resident until memory is short
  std::int32_t maxfrozen = 0;           // so many interrupted threads stand still; 0: by gomaxprocs
  std::int32_t migrate = 0;             // 1: after every park another thread
  std::int32_t preemptsignal = 0;       // the runtime's own signal; 0: SIGURG
  std::int32_t schedtrace = 0;          // so many ms apart: debug/schedtrace.h
  std::int32_t scheddetail = 0;         // 1: … with every P, M and G
  std::int32_t schedextra = 0;          // 1: … with fields that Go has not
  std::int32_t stackusage = 0;          // 1: how deep stacks were, by place of creation
  std::int32_t tracebackancestors = 0;  // so many generations of creators in a stack trace
  std::int32_t containermaxprocs = 1;   // 0: the default of gomaxprocs ignores cgroups [CG-8]
  std::int32_t updatemaxprocs = 1;      // 0: the default is not followed while the program runs
};

extern constinit debug_vars_t debug_vars;

// Sets what `text` says; of two values for one key the later one counts. Complaints go to `complaints`.
void parse_debug_vars(std::string_view text, debug_vars_t& vars, printer& complaints) noexcept;

// From the environment. Once, before there is a second thread of the runtime.
void load_debug_vars() noexcept;

}  // namespace weft::rt
