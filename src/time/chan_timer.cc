// Timers and tickers with a channel, as in Go 1.23: lazy. [T-14]
//
// Most timers of this kind are never received from while they are due: they are the "or too late" of
// a select, and are dropped. So the time is kept beside the channel and looked at by whoever wants to
// receive; only while somebody is blocked on the channel is there an event in the timers' structure.
// A timer that nobody listens to therefore neither wakes the process nor keeps it from being dead.
//
// The protocol is in chan_timer_core.h: all of it under the channel's own lock.
//
// fire() takes the lock on the scheduler's stack, but does not wait there for a goroutine, which may need
// this very M to go on: if the lock is held for long a goroutine of its own does the rest. So it may come
// late, after the timer was stopped or reset.
// Rejected: a lock of the timer's own (Go has two, ordered around the channel's); cancelling with
// timer_cancel (waits for fire(), which waits for the lock that we hold).
//
// Go: runtime/time.go maybeRunChan, blockTimerChan; time/sleep.go
#include "time/chan_timer.h"

#include <weft/detail/spawn.h>
#include <weft/time.h>

#include "os/clock.h"
#include "sched/section.h"
#include "sched/timers.h"
#include "time/chan_timer_core.h"

namespace weft::rt {

namespace {

using value_type = clock::time_point;

struct chan_timer : chan_hook, timer_event, chan_timer_core<chan_timer> {
  using restart = timer_restart;

  channel* c = nullptr;  // constant after construction

  void lock() { c->lock_staying(); }
  void unlock() { c->unlock(); }
  void send_unlock(std::int64_t due) {
    value_type value{clock::duration(due)};
    tsan_acquire(this);  // arming precedes what is received [MM] 16
    channel* to = c;
    if (to->send(&value) == chan_status::blocked) {
      to->unlock();
    }
  }
  bool drain() {
    return c->drain([](void*) {});
  }
  void retain() { detail::chan_retain(c); }
  void release() { detail::chan_release(c); }
  bool stop_event() { return timer_stop(*this); }
  void set_when(std::int64_t time) { when = time; }
  static std::int64_t now() { return nanotime(); }
};

chan_timer& timer_of(chan_hook* h) { return *static_cast<chan_timer*>(h); }

void before_receive(chan_hook* h) { timer_of(h).before_look(); }

void blocked_changes(chan_hook* h, int change) {
  if (change < 0) {
    timer_of(h).receiver_came_back();
  } else {
    timer_of(h).receiver_blocks(change);
  }
}

void on_a_goroutine(channel* c, void (*run)(void* memory)) {
  const detail::spawn_slot slot = detail::spawn_begin(sizeof(channel*), alignof(channel*));
  *static_cast<channel**>(slot.memory) = c;
  detail::spawn_commit(slot, run, nullptr);
}

// The last handle must not go here: freeing memory takes libc's locks, for which the scheduler may not
// wait. A goroutine does it.
void release_elsewhere(channel* c) {
  // order: relaxed; if this is the only one nobody can make another
  auto n = c->handles.load(WEFT_ORDER(CT0, relaxed));
  while (n > 1) {
    // order: CR1 release: what was done through this handle precedes the destruction; pairs with
    // chan_release(). Failure: relaxed, as above
    if (c->handles.compare_exchange_weak(n, n - 1, WEFT_ORDER(CR1, release),
                                         WEFT_ORDER(CT0, relaxed))) {
      return;
    }
  }
  on_a_goroutine(c, [](void* memory) { detail::chan_release(*static_cast<channel**>(memory)); });
}

void fire_when_free(void* memory) {
  channel* c = *static_cast<channel**>(memory);
  {
    const unseen here;
    c->lock();
    timer_of(c->hook).fire_unlock(nanotime());
  }
  detail::chan_release(c);
}

void fires(timer_event* e, std::int64_t now) {
  channel* c = static_cast<chan_timer*>(e)->c;
  {
    const unseen here;
    if (!c->try_lock_spinning()) {
      on_a_goroutine(c, fire_when_free);
      return;
    }
    timer_of(c->hook).fire_unlock(now);
  }
  release_elsewhere(c);
}

void released(chan_hook* h) noexcept { delete &timer_of(h); }

}  // namespace

channel* make_time_channel(std::int64_t due, std::int64_t period) {
  auto* t = new chan_timer;
  t->before_receive = rt::before_receive;
  t->blocked = blocked_changes;
  t->chan_hook::released = rt::released;
  t->fire = fires;
  t->begin(due, period);
  try {
    t->c = chan_make(detail::element_of<value_type>, 1, t);
  } catch (...) {
    delete t;
    throw;
  }
  tsan_release(t, "ARM");
  tsan_release(static_cast<timer_event*>(t), "ARM");  // what never changes, to whoever fires it
  return t->c;
}

bool reset_time_channel(channel* c, std::int64_t due, std::int64_t period) {
  chan_timer& t = timer_of(c->hook);
  tsan_release(&t, "ARM");
  const unseen here;
  return t.reset(due, period);
}

bool stop_time_channel(channel* c) { return reset_time_channel(c, 0, 0); }

}  // namespace weft::rt
