// Whoever waits: a parked goroutine or a plain thread asleep. The node lives on the waiter's stack,
// so blocking allocates nothing. It is the only thing that locks, channels and joins keep of those
// who wait for them (Go's sudog).
//
// Ownership: the waiter owns the node until its commit publishes it; then the waker does, until it
// calls wake() on it. From that call on the node may be gone.
#pragma once

#include "base/note.h"

namespace weft::rt {

struct G;

struct waiter {
  G* gp = nullptr;         // null: a plain thread sleeps on `event`
  waiter* next = nullptr;  // for the list of whoever keeps it
  note event;              // plain threads only
};

}  // namespace weft::rt
