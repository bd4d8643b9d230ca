// WEFTDEBUG=schedtrace=MS: a line about the scheduler every so often, on standard error, in Go's words:
//
//   SCHED 1003ms: gomaxprocs=2 idleprocs=1 threads=3 spinningthreads=0 needspinning=0 idlethreads=1
//     runqueue=0 [ 0 4 ] schedticks=[ 12 7 ]                            (one line)
//
// With scheddetail=1 the header ends otherwise, and every P, M and G follows on a line of its own. With
// schedextra=1 the header has more fields at its end, which Go has not: foreign=N, plain threads asleep
// in weft, and frozen=N, goroutines that were preempted and wait on their threads for a P. Fields that mean
// nothing here (syscalltick, mallocing, throwing, preemptoff, locks, dying) are printed as zeros, so that
// programs which read Go's output read ours.
//
// The time is that since the first line. Go: runtime/proc.go schedtrace [27.2]
#pragma once

#include <cstdint>

#include "base/print.h"

namespace weft::rt {

// One report, whatever WEFTDEBUG says. `locked`: under sched.lock; crash reports go without it.
void print_schedtrace(printer& out, std::int64_t now, bool detailed, bool locked) noexcept;

// For crash reports: the detailed form, if either key is set.
void print_schedtrace_for_crash(printer& out) noexcept;

}  // namespace weft::rt
