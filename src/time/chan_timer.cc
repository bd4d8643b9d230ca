// Timers and tickers with a channel, as in Go 1.23: lazy. [T-14]
//
// Most timers of this kind are never received from while they are due: they are the "or too late" of
// a select, and are dropped. So the time is kept beside the channel and looked at by whoever wants to
// receive; only while somebody is blocked on the channel is there an event in the timers' structure.
// A timer that nobody listens to therefore neither wakes the process nor keeps it from being dead.
//
// Everything is guarded by the channel's own lock, sending included. Hence stop and reset leave nothing
// behind: a value is in the ring, from where they take it, or it has not been sent and never will be.
//
//   due      when the next value comes; 0: never
//   blocked  receivers that wait
//   armed    the time for which the event was started last; 0: not, or it has fired
//
// CT1: if somebody is blocked and due != 0, the event is pending for `due`, or firing.
//
// fire() takes the lock on the scheduler's stack, but does not wait there for a goroutine, which may need
// this very M to go on: if the lock is held for long a goroutine of its own does the rest. So it may come
// late, after the timer was stopped or reset, and trusts `due` and nothing else. Every pending or firing
// event holds a handle of the channel.
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

namespace weft::rt {

namespace {

using value_type = clock::time_point;

struct chan_timer : chan_hook, timer_event {
  channel* c = nullptr;  // constant after construction
  std::int64_t due = 0;
  std::int64_t period = 0;
  std::int64_t armed = 0;
  std::int32_t blocked_receivers = 0;
};

chan_timer& timer_of(chan_hook* h) { return *static_cast<chan_timer*>(h); }

// Makes the event agree with the rest. Keeps CT1. Locks: the channel's is held.
void settle(chan_timer& t) {
  const std::int64_t wanted = t.blocked_receivers > 0 ? t.due : 0;
  if (wanted == t.armed) {
    return;
  }
  t.armed = wanted;
  if (wanted == 0) {
    if (timer_stop(t)) {
      detail::chan_release(t.c);  // not the last: the caller has one
    }
    return;
  }
  const timer_restart again(t);
  if (!again.was_pending()) {
    detail::chan_retain(t.c);
  }
  t.when = wanted;
}

// Missed ticks are skipped, the phase is kept. [T-9]
void next_tick(chan_timer& t, std::int64_t now) {
  if (t.period == 0) {
    t.due = 0;
    return;
  }
  const std::int64_t missed = (now - t.due) / t.period;
  t.due = time_after(t.due, missed * t.period);
  t.due = time_after(t.due, t.period);
}

// Sends if the time has come. A ring that is full keeps the older value. Entered with the channel's
// lock, leaves without.
void look_unlock(chan_timer& t, std::int64_t now) {
  if (t.due == 0 || now < t.due) {
    t.c->unlock();
    return;
  }
  value_type value{clock::duration(t.due)};
  next_tick(t, now);
  settle(t);
  tsan_acquire(&t);  // arming precedes what is received [MM] 16
  channel* c = t.c;
  if (c->send(&value) == chan_status::blocked) {
    c->unlock();
  }
}

void before_receive(chan_hook* h) {
  chan_timer& t = timer_of(h);
  t.c->lock_staying();
  if (t.due == 0) {
    t.c->unlock();
    return;
  }
  look_unlock(t, nanotime());
}

void blocked_changes(chan_hook* h, int change) {
  chan_timer& t = timer_of(h);
  if (change < 0) {
    t.c->lock_staying();
  }
  t.blocked_receivers += change;
  settle(t);
  if (change < 0) {
    t.c->unlock();
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

// Entered with the channel's lock, leaves without.
void fire_unlock(channel* c, std::int64_t now) {
  chan_timer& t = timer_of(c->hook);
  if (t.armed <= now) {
    t.armed = 0;
  }  // else somebody has armed it anew while it was on its way: it is pending
  look_unlock(t, now);
}

void fire_when_free(void* memory) {
  channel* c = *static_cast<channel**>(memory);
  {
    const unseen here;
    c->lock();
    fire_unlock(c, nanotime());
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
    fire_unlock(c, now);
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
  t->due = due;
  t->period = period;
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
  c->lock_staying();
  const bool pending = t.due != 0;
  t.due = due;
  t.period = period;
  settle(t);
  const bool unread = c->drain([](void*) {});
  c->unlock();
  return pending || unread;
}

bool stop_time_channel(channel* c) { return reset_time_channel(c, 0, 0); }

}  // namespace weft::rt
