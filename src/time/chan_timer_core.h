// The protocol of a timer that speaks through a channel: when its event is in the timers' structure, and when it sends. Why it
// is so, and what was rejected, is told in chan_timer.cc.
//
// Everything is guarded by the channel's own lock, sending included. Hence stop and reset leave nothing
// behind: a value is in the ring, from where they take it, or it has not been sent and never will be.
//
//   due      when the next value comes; 0: never
//   blocked  receivers that wait
//   armed    the time for which the event was started last; 0: not, or it has fired
//
// CT1: if somebody is blocked and due != 0, the event is pending for `due`, or firing.
// CT2: nobody is blocked, or due == 0: the event is not pending, unless it is overdue: started for somebody else while an
//      earlier run was on its way, it fires once for nothing. Otherwise nobody is woken for nothing.
// CT3: every pending or firing event holds a handle of the channel.
//
// A fire() comes late, when the timer was stopped or reset while it was on its way, and trusts `due` and nothing else.
//
// Timer supplies, for products (chan_timer.cc) and for models:
//   lock(), unlock()           the channel's; lock() stays on its thread
//   send_unlock(due)           offers the value to the channel, whose ring keeps an older one; leaves without the lock
//   drain()                    takes the value out of the ring; whether there was one
//   retain(), release()        a handle of the channel; not the last one
//   stop_event()               whether it was pending; it is not any more
//   restart(Timer&)            a scope that takes the event out, and starts it again, as timer_restart does
//   set_when(time)             in it
//   now()
//
// Go: runtime/time.go maybeRunChan, blockTimerChan
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "sched/timers.h"

namespace weft::rt {

template <class Timer>
class chan_timer_core {
 public:
  // Before anybody has the channel.
  void begin(std::int64_t due, std::int64_t period) {
    due_.set(due);
    period_.set(period);
  }

  // --- without the lock ---------------------------------------------------------------------------

  // Somebody is about to look for a value.
  void before_look() {
    self().lock();
    if (due_.get() == 0) {
      self().unlock();
      return;
    }
    look_unlock(self().now());
  }

  // 0: never. True: a value was to come, or had not been received. It never will.
  bool reset(std::int64_t due, std::int64_t period) {
    self().lock();
    const bool pending = due_.get() != 0;
    due_.set(due);
    period_.set(period);
    if (!WEFT_MUTANT("reset-unsettled")) settle();
    const bool unread = !WEFT_MUTANT("reset-leaves-value") && self().drain();
    self().unlock();
    return pending || unread;
  }

  void receiver_came_back() {
    self().lock();
    receiver_blocks(-1);
    self().unlock();
  }

  // --- with the lock ------------------------------------------------------------------------------

  // +1: it is about to wait.
  void receiver_blocks(int change) {
    blocked_.set(blocked_.get() + change);
    settle();
  }

  // The event has been taken out to fire. Leaves without the lock.
  void fire_unlock(std::int64_t now) {
    if (armed_.get() <= now || WEFT_MUTANT("fire-disarms-another")) {
      armed_.set(0);
    }  // else somebody has armed it anew while it was on its way: it is pending
    look_unlock(now);
  }

 private:
  Timer& self() { return static_cast<Timer&>(*this); }

  // Makes the event agree with the rest. Keeps CT1 to CT3.
  void settle() {
    const std::int64_t wanted = blocked_.get() > 0 ? due_.get() : 0;
    if (wanted == armed_.get() || (WEFT_MUTANT("armed-for-nobody") && blocked_.get() == 0)) {
      return;
    }
    armed_.set(wanted);
    if (wanted == 0) {
      if (self().stop_event()) {
        self().release();  // not the last: the caller has one
      }
      return;
    }
    const typename Timer::restart again(self());
    if (!again.was_pending() || WEFT_MUTANT("held-twice")) {
      self().retain();
    }
    self().set_when(wanted);
  }

  // Missed ticks are skipped, the phase is kept. [T-9]
  void next_tick(std::int64_t now) {
    const std::int64_t due = due_.get(), period = period_.get();
    if (period == 0) {
      due_.set(0);
      return;
    }
    const std::int64_t missed = (now - due) / period;
    due_.set(time_after(time_after(due, missed * period), period));
  }

  // Sends if the time has come. Leaves without the lock.
  void look_unlock(std::int64_t now) {
    const std::int64_t due = due_.get();
    if (due == 0 || now < due) {
      self().unlock();
      return;
    }
    next_tick(now);
    settle();
    self().send_unlock(due);
  }

  // guarded by the channel's lock
  cell<std::int64_t> due_{0};
  cell<std::int64_t> period_{0};
  cell<std::int64_t> armed_{0};
  cell<std::int32_t> blocked_{0};
};

}  // namespace weft::rt
