// Timers as the rest of the runtime sees them. The structure that keeps them is src/timer; when they
// are looked at, and who sleeps until the next one, is timers.cc.
#pragma once

#include <cstdint>

#include "os/clock.h"
#include "timer/timer_event.h"

namespace weft::rt {

struct M;

// Arms an event: fire() will be called once, at e.when or a little later, unless it is cancelled.
// A time in the past means soon. kNever is a timer, too: it keeps the process from being dead.
// Requires: e is idle (new, cancelled, or fired and then cancelled); no lock held that fire() takes,
// nor one that ranks below `timers`. Runs on: G, g0, plain thread. Blocks: nothing.
void timer_start(timer_event& e);

// True: it was pending, and does not fire. False: it has fired, or was idle; then fire() has
// returned (unless the caller is fire() itself) and the memory may go. e is idle afterwards.
// Two threads must not cancel or start one event at the same time.
// Requires: no lock held that fire() may take. Runs on: G, g0, plain thread. Blocks: briefly, while
// another M is inside fire().
bool timer_cancel(timer_event& e);

// As timer_cancel(), but does not wait for a fire() that is under way, and may be called by anybody at
// any time, with locks held that fire() takes. The event must outlive its fire() by other means.
bool timer_stop(timer_event& e);

// Takes an event out, pending or not, for its owner to change, and starts it again at the end of the scope.
// timer_stop() and others of these wait meanwhile, spinning; so the scope is a section: an owner who could be
// preempted would leave them spinning on the only P, for ever. As with timer_stop(), the event must outlive its
// fire() by other means, and the owner may hold locks that fire() takes.
//
//     timer_restart again(t);
//     if (!again.was_pending()) retain(t);
//     t.when = due;
class timer_restart {
 public:
  explicit timer_restart(timer_event& e);
  ~timer_restart();
  timer_restart(const timer_restart&) = delete;
  timer_restart& operator=(const timer_restart&) = delete;

  bool was_pending() const { return was_pending_; }

 private:
  timer_event& event_;
  M* mp_;
  bool was_pending_;
};

// now + d without overflow; a negative d is now. For deadlines from durations.
inline std::int64_t time_after(std::int64_t now, std::int64_t d) {
  if (d <= 0) {
    return now;
  }
  return d > kNever - now ? kNever : now + d;
}

// A goroutine or plain thread waits until `when`. At once if that is in the past.
void sleep_until(std::int64_t when);

}  // namespace weft::rt
