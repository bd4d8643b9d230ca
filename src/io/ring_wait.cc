// See ring_wait.h, and poll/ring.h for the contract.
//
// The operation is under way before its goroutine parks; the two meet in `done`, a completion with one
// waiter. A wait with a limit that is over retracts its waiter, asks for the cancellation, and waits again, without a
// limit: the kernel may write to the buffer until it has said that it is done (RI1). Mostly a disk cannot be
// interrupted, and the result is that of the operation, only late.
//
// At most kMostRingOps are under way; others queue for a place, so that ten thousand goroutines cost neither
// memory of the kernel nor threads.
//
// Nobody who waits here can be lost to the poller: it is counted before its waiter can be found (PO1 in
// sched/netpoll.cc), and taken off the count by whoever ends the wait.
#include "io/ring_wait.h"

#include <cerrno>

#include "gmp/limited_waiter.h"
#include "io/fd.h"
#include "os/clock.h"
#include "sched/netpoll.h"
#include "sync/sema_core.h"
#include "sync/sleeper.h"

namespace weft::rt {

namespace {

constexpr wait_reason kReason = wait_reason::io_wait;

constinit sema_core<sleeper> places{kMostRingOps};

// False: the limit came first.
bool take_place(const wait_limit& limit) {
  if (places.try_acquire()) [[likely]] {
    return true;
  }
  sleeper n;
  if (!places.enlist(n) || sleep_until(n, kReason, limit)) {
    return true;
  }
  if (places.give_up(n)) {
    return false;
  }
  settle(n, kReason);
  return true;
}

void leave_place() {
  if (sleeper* n = places.release(1)) {
    rouse(n);
  }
}

// In a commit: once it is published, the waiter may be gone.
bool publish(waiter* w, completion<waiter>& event) {
  const bool plain_thread = w->gp == nullptr;
  io_wait_begins();
  if (!event.enlist(w)) {
    io_wait_over();
    return false;
  }
  if (plain_thread) {
    somebody_must_poll();
  }
  return true;
}

bool publish_done(waiter* w, void* op) { return publish(w, static_cast<ring_op*>(op)->done); }

using limited = limited_waiter<waiter>;

bool publish_dropped(waiter* w, void* of) { return publish(w, static_cast<limited*>(of)->dropped); }

void wait_until_done(ring_op& op) {
  while (!op.done.done()) {
    waiter w;
    block(w, publish_done, &op, op.done.address(), kReason);
  }
}

// `woken`: it is done.
wait_end wait_until_done(ring_op& op, const wait_limit& limit) {
  while (!op.done.done()) {
    wait_claim claim;
    limited w;
    w.claim = &claim;
    const wait_end end = block_until(w, publish_done, &op, op.done.address(), kReason, limit);
    if (end == wait_end::woken) {
      continue;
    }
    io_wait_over();  // no list has it
    if (op.done.retract(&w)) {
      return end;
    }
    while (!w.dropped.done()) {
      waiter again;
      block(again, publish_dropped, &w, w.dropped.address(), kReason);
    }
  }
  return wait_end::woken;
}

int error_of_end(wait_end end) {
  return end == wait_end::timed_out ? own_error(errc::timed_out) : ECANCELED;
}

// What the kernel says of an operation that it gave up: it has had no effect.
bool given_up(std::int32_t result) { return result == -ECANCELED || result == -EINTR; }

}  // namespace

int error_of_limit(const wait_limit& limit) {
  if (limit.none()) [[likely]] {
    return 0;
  }
  if (limit.source != nullptr && limit.source->cancelled()) {
    return ECANCELED;
  }
  return limit.deadline != kNever && limit.deadline <= nanotime() ? own_error(errc::timed_out) : 0;
}

bool run_on_ring(ring_op& op, const wait_limit& limit, std::int64_t* result) {
  if (!ring_usable()) {
    return false;
  }
  if (!take_place(limit)) {
    *result = -error_of_limit(limit);
    return true;
  }
  wait_end end = wait_end::woken;
  bool taken = false;
  do {  // again, if the thread that submitted it has ended
    op.done.reset();
    taken = ring_submit(op) == 0;
    if (!taken) {
      break;
    }
    end = wait_until_done(op, limit);
    if (end != wait_end::woken) {
      ring_cancel(op);
      wait_until_done(op);
    }
  } while (op.result == -ECANCELED && end == wait_end::woken);
  leave_place();
  if (taken) {
    *result = end != wait_end::woken && given_up(op.result) ? -error_of_end(end) : op.result;
  }
  return taken;
}

}  // namespace weft::rt
