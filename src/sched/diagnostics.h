// What the scheduler needs from the layer above it, supplied at link time.
#pragma once

#include <cstdint>

namespace weft::rt {

// Sets the hooks by which crashes are reported (fatal.h, unwind.h). Once, while booting.
// Defined in debug/.
void install_diagnostics();

// A goroutine creates another, and WEFTDEBUG=tracebackancestors wants to know where. Defined in
// debug/ancestors.cc.
void note_ancestors(std::uint64_t child, std::uint64_t parent);

// A goroutine is about to park, in debug mode: does it hold a std::mutex? Defined in debug/held_mutex.cc.
struct G;
void check_held_mutexes(const G& gp);

// A goroutine ends, in debug mode (WEFTDEBUG=stackusage): how deep was its stack? Runs on: that stack. Defined
// in debug/stack_sites.cc.
void note_stack_use(const G& gp);

// A line about the scheduler, if WEFTDEBUG=schedtrace says that it is time; for sysmon, in every round.
// Neither allocates nor takes a lock but sched.lock. Defined in debug/schedtrace.cc.
void schedtrace_tick(std::int64_t now);

}  // namespace weft::rt
