// Whoever waits: a parked goroutine or a plain thread asleep. The node lives on the waiter's stack,
// so blocking allocates nothing. It is the only thing that locks, channels and joins keep of those
// who wait for them (Go's sudog).
//
// Ownership: the waiter owns the node until its commit publishes it; then the waker does, until it
// calls wake() on it. From that call on the node may be gone.
//
// A wait that several may end (gmp/wait_claim.h) has a claim. Rules for those who keep it in a list:
//  W1 it is on the list under the object's lock, and found there under that lock;
//  W2 who finds it takes it off and calls take(), still under the lock. If that fails somebody else
//     ends this wait: after the lock is dropped the node is not touched any more;
//  W3 after take() it is the waker's until wake();
//  W4 a waiter that was not woken by the object takes its node off under the object's lock before
//     it goes on. Otherwise the object meets a dead frame.
#pragma once

#include "base/note.h"
#include "gmp/wait_claim.h"

namespace weft::rt {

struct G;

struct waiter {
  G* gp = nullptr;              // null: a plain thread sleeps on `event`
  waiter* next = nullptr;       // for the list of whoever keeps it
  waiter* prev = nullptr;       // … if it is a list from which one may leave early
  wait_claim* claim = nullptr;  // null: only the object can end this wait
  const void* on = nullptr;     // the object, for reports
  note event;                   // plain threads only

  // W2. True: the wait is the caller's to end.
  [[nodiscard]] bool take() { return claim == nullptr || claim->take(); }
};

}  // namespace weft::rt
