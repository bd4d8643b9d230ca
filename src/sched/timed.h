// Waiting with a limit: block() that also ends at a deadline or when something is cancelled.
//
// Exactly one of the object, the timer and the cancellation ends a wait: they compete for the waiter's
// claim (gmp/wait_claim.h).
#pragma once

#include <cstdint>

#include "gmp/cancel_source.h"
#include "sched/park.h"
#include "timer/timer_event.h"

namespace weft::rt {

enum class wait_end : std::uint8_t { woken, timed_out, cancelled };

struct wait_limit {
  std::int64_t deadline = kNever;   // os/clock.h nanotime()
  cancel_source* source = nullptr;  // null: cannot be cancelled

  bool none() const { return deadline == kNever && source == nullptr; }
};

// As block(), but ends at the limit, too. A limit in the past still looks at the commit first: if that
// refuses, the result is `woken`.
//
// Requires: w.claim is set, unless there is no limit, and lives as long as anybody can find w: not in a
// frame below this one, because the object may list w for a while after this has returned.
//
// On timed_out and cancelled the object may still list w: the caller takes it off, under the
// object's lock, before w goes out of scope. A waker that meets w meanwhile fails to take() it.
// On woken the timer and the hook are gone when this returns.
wait_end block_until(waiter& w, commit_fn commit, void* arg, void* object, wait_reason reason,
                     const wait_limit& limit);

}  // namespace weft::rt
