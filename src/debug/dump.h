// The list of goroutines that ends fatal errors: who waits for what, and where.
//
//   goroutine 7 [sync.WaitGroup.Wait, locked to thread]:
//   app::worker(...)
//           ...
//   created by main(...) in goroutine 1
//
// Go: runtime/traceback.go goroutineheader, tracebackothers [DG-1]
//
// Goroutines are looked at while others may still run, without a lock: a G that changes meanwhile
// shows a torn or an odd stack, and nothing worse (debug/frame.h checks every read).
//
// A process may have a million of them. Up to a hundred are printed one by one; of more, those in
// the same state and at the same place are printed once, with their number and the first few ids.
#pragma once

#include "base/fatal.h"
#include "base/print.h"
#include "debug/frame.h"
#include "debug/traceback.h"

namespace weft::rt {

struct G;

// Header, stack and origin of the goroutine that runs here, whose innermost frame is given.
// Requires: gp runs on this thread.
void print_running_goroutine(printer& out, const G& gp, const frame& innermost,
                             traceback_level::detail show) noexcept;

// All goroutines but `except`, which may be null; each preceded by an empty line if `separated`.
void print_other_goroutines(printer& out, const G* except, traceback_level::detail show,
                            bool separated) noexcept;

// Hook for fatal(): the goroutine that runs here first, or for a fault of the runtime the stack of
// this thread; then all the others. Prints on the crash stack. Runs on: any. Locks: none.
void dump_goroutines(printer& out, fault whose) noexcept;

}  // namespace weft::rt
