// weft::timer and weft::ticker: what the one word of their handles means.
//
//   0            not a timer
//   2 t + 1      due at t, and nobody has asked for the channel yet: there is none; t = 0: stopped
//   p            a channel (chan_timer.cc)
//   p + 2        a callable (after_func.cc)
//
// A timer that is made and stopped without anybody having looked at its channel is a clock reading and
// a store. c() replaces the time by a channel, once, whoever else stops or resets it meanwhile.
//
// Go: time/sleep.go, time/tick.go
#include <weft/panic.h>
#include <weft/time.h>

#include "base/atomic.h"
#include "os/clock.h"
#include "sched/timers.h"
#include "time/after_func.h"
#include "time/chan_timer.h"

namespace weft {

clock::time_point clock::now() noexcept { return time_point(duration(rt::nanotime())); }

}  // namespace weft

namespace weft::detail {

namespace {

constexpr std::int64_t kFarthest = (INT64_MAX >> 2);  // fits the word

rt::atomic<timer_word>& shared(timer_word& w) {
  static_assert(sizeof(rt::atomic<timer_word>) == sizeof(timer_word));
  return *reinterpret_cast<rt::atomic<timer_word>*>(&w);
}

timer_word load(timer_word& w) {
  // order: TH1 acquire: the channel, as c() has made it; pairs with timer_channel()
  return shared(w).load(WEFT_ORDER(TH1, acquire));
}

bool is_time(timer_word w) { return (w & 1) != 0; }
bool is_callable(timer_word w) { return (w & 3) == 2; }
channel* channel_of(timer_word w) { return reinterpret_cast<channel*>(w); }
rt::func_timer* callable_of(timer_word w) { return reinterpret_cast<rt::func_timer*>(w - 2); }

timer_word word_of(std::int64_t due) {
  return static_cast<timer_word>(due < kFarthest ? due : kFarthest) * 2 + 1;
}
std::int64_t time_of(timer_word w) { return static_cast<std::int64_t>(w >> 1); }

std::int64_t due_in(std::int64_t ns) { return rt::time_after(rt::nanotime(), ns); }

// Puts another time in the place of the one that is there. True: done, *before is the old one. False:
// there is a channel, or a callable: *before says where.
bool exchange_time(timer_word& w, std::int64_t due, timer_word* before) {
  *before = load(w);
  while (is_time(*before)) {
    // order: TH1 acquire on failure, as load(); on success only because g++ wants no less
    if (shared(w).compare_exchange_weak(*before, word_of(due), WEFT_ORDER(TH1, acquire),
                                        WEFT_ORDER(TH1, acquire))) {
      return true;
    }
  }
  return false;
}

}  // namespace

timer_word timer_make(std::int64_t ns) noexcept { return word_of(due_in(ns)); }

void timer_drop(timer_word w) noexcept {
  if (is_callable(w)) {
    rt::drop_func_timer(callable_of(w));
  } else {
    chan_release(channel_of(w));
  }
}

channel* timer_channel(timer_word& w) {
  timer_word now = load(w);
  while (is_time(now)) {
    channel* c = rt::make_time_channel(time_of(now), 0);
    // order: TH1 release publishes the channel to whoever loads the word; failure acquire, as load()
    if (shared(w).compare_exchange_strong(now, reinterpret_cast<timer_word>(c),
                                          WEFT_ORDER(TH1, release), WEFT_ORDER(TH1, acquire))) {
      chan_retain(c);
      return c;
    }
    chan_release(c);
  }
  if (now == 0 || is_callable(now)) {
    return nullptr;
  }
  chan_retain(channel_of(now));
  return channel_of(now);
}

bool timer_stop(timer_word& w) {
  timer_word before = 0;
  if (exchange_time(w, 0, &before)) {
    return time_of(before) != 0;
  }
  if (before == 0) {
    throw panic_error("time: Stop called on uninitialized Timer");
  }
  return is_callable(before) ? rt::stop_func_timer(callable_of(before))
                             : rt::stop_time_channel(channel_of(before));
}

bool timer_reset(timer_word& w, std::int64_t ns) {
  const std::int64_t due = due_in(ns);
  timer_word before = 0;
  if (exchange_time(w, due, &before)) {
    return time_of(before) != 0;
  }
  if (before == 0) {
    throw panic_error("time: Reset called on uninitialized Timer");
  }
  return is_callable(before) ? rt::reset_func_timer(callable_of(before), due)
                             : rt::reset_time_channel(channel_of(before), due, 0);
}

timer_word ticker_make(std::int64_t ns) {
  if (ns <= 0) {
    throw panic_error("non-positive interval for NewTicker");
  }
  return reinterpret_cast<timer_word>(rt::make_time_channel(due_in(ns), ns));
}

void ticker_stop(timer_word& w) {
  if (w != 0) {
    rt::stop_time_channel(channel_of(w));
  }
}

void ticker_reset(timer_word& w, std::int64_t ns) {
  if (ns <= 0) {
    throw panic_error("non-positive interval for Ticker.Reset");
  }
  if (w == 0) {
    throw panic_error("time: Reset called on uninitialized Ticker");
  }
  rt::reset_time_channel(channel_of(w), due_in(ns), ns);
}

}  // namespace weft::detail
