// Signals under ThreadSanitizer, which keeps one that arrives outside of a call it knows until the thread makes such a
// call. A thread that sleeps by a bare system call wakes up, finds nothing to do and sleeps again: the handler
// would never run. So whoever is interrupted in such a call says so; and waits with a deadline, far away, since the
// kernel repeats others by itself if the handler's SA_RESTART wants that.
//
// What it keeps it keeps for the fiber that was current, not for the thread: if another one becomes current before such a
// call, the handler runs when the first one is back, on whichever thread that is, or never. So nobody may count on a signal
// that was sent.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define WEFT_HAS_TSAN_SIGNALS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_HAS_TSAN_SIGNALS 1
#endif
#endif

#ifdef WEFT_HAS_TSAN_SIGNALS
#include <unistd.h>
#endif

namespace weft::rt {

#ifdef WEFT_HAS_TSAN_SIGNALS
inline constexpr bool kDelaysSignals = true;
#else
inline constexpr bool kDelaysSignals = false;
#endif

/// After EINTR of a bare system call: handlers of signals that have arrived run now.
inline void run_delayed_handlers() noexcept {
#ifdef WEFT_HAS_TSAN_SIGNALS
  ::usleep(0);  // one of the calls that TSan knows
#endif
}

}  // namespace weft::rt
