// The border between user code and the runtime.
//
// Runtime code runs on goroutines' stacks (D5), but it is the M that runs it: what it touches (run
// queues, free lists, the M itself) is handed from M to M, not from goroutine to goroutine. TSan has
// to be told, or it reports every one of those accesses, or else, if switches synchronised, it would
// believe that goroutines of one thread can not race. So a runtime section runs as the M's TSan
// fiber and goes back to the goroutine's at its end. In products this is nothing but the look-up
// of the M.
//
// One thing TSan can not be told: that the M's frames on a goroutine's stack come after the
// goroutine's own frames at the same addresses. So in a section on a goroutine's stack its plain
// accesses are not checked; its atomics are, and so is all that runs on g0.
//
// For those who may take the P from a goroutine that computes or blocks, a section is the time in
// which they may not (gmp/border.h).
//
// B1: a section neither calls user code nor returns to it. Otherwise the user's accesses count as
// the M's. B2: the M of a section is good until the next switch; a switch returns the new one.
#pragma once

#include "base/tls.h"
#include "fiber/sanitizer.h"
#include "gmp/g.h"
#include "gmp/inside.h"
#include "gmp/m.h"

namespace weft::rt {

#if WEFT_TSAN
M* enter_runtime() noexcept;
void leave_runtime(M* mp, const char* label = "") noexcept;  // label: base/tsan_mutant.h
void leave_without_p(M* mp) noexcept;
#else
// Null on plain threads. Runs on: G.
[[gnu::always_inline]] inline M* enter_runtime() noexcept { return enter_border(); }
[[gnu::always_inline]] inline void leave_runtime(M* mp, const char* = "") noexcept {
  leave_border(mp);
}
// … by one that has given its P away: whoever asks it to make room is late.
[[gnu::always_inline]] inline void leave_without_p(M* mp) noexcept {
  static_cast<void>(mp->border.leave());
}
#endif

// True on a goroutine's stack, false on plain threads and on g0.
bool on_goroutine() noexcept;

}  // namespace weft::rt
