// Time as the scheduler measures it.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/counters.h"

namespace weft::rt {

/// Nanoseconds of CLOCK_MONOTONIC. About 24 ns: dearer than a switch, so never on a fast path.
/// Runs on: any, signal handlers too. Go: runtime nanotime.
std::int64_t nanotime() noexcept;

/// About what time it is, for reports of who waits since when: as of the last note_time(). Costs a load.
/// Whoever has read the clock anyway notes it: who wakes from a sleep, who runs timers, sysmon.
#ifdef WEFT_MODEL
inline std::int64_t coarse_time() noexcept { return 0; }
inline void note_time(std::int64_t) noexcept {}
inline void note_time_now() noexcept {}
#else
// On a line of its own: written seldom, read at every park.
struct alignas(64) coarse_clock {
  shared_atomic<std::int64_t> now{0};
};
extern constinit coarse_clock the_coarse_clock;

inline std::int64_t coarse_time() noexcept {
  // order: CT0 relaxed, a lone number
  return the_coarse_clock.now.load(WEFT_ORDER(CT0, relaxed));
}
inline void note_time(std::int64_t now) noexcept {
  the_coarse_clock.now.store(now, WEFT_ORDER(CT0, relaxed));  // order: CT0 relaxed, a lone number
}
inline void note_time_now() noexcept { note_time(nanotime()); }
#endif

}  // namespace weft::rt
