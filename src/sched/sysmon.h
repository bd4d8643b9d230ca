// The thread that watches all others: sysmon.
#pragma once

#include "base/annotations.h"
#include "gmp/long_sleep.h"
#include "gmp/sched.h"
#include "os/clock.h"
#include "sched/timers.h"

namespace weft::rt {

// With the first M that is not lent, or when somebody first wants it.
void start_sysmon();

// Something has happened that it may have to look at, and it may be asleep: a stop of the world; work waits while no P is
// idle; somebody has to be made to stop, or may come back from a call and compute while the world stands still. Cheap if
// it is awake.
// Until there is one it counts as asleep, and to wake it is to make it: so no sched.lock is held here.
inline void wake_sysmon() noexcept;
void wake_sysmon_slow() noexcept;
// The same where whoever wants it is about to make it, if there is none.
inline void wake_sysmon_locked() noexcept WEFT_REQUIRES(sched.lock);
// A P was taken from the idle list. It may sleep on if it will look within its longest pause: who sleeps for a moment
// at a time would pay for two wake-ups each time otherwise, his own and that of sysmon.
inline void wake_sysmon_for_p_locked() noexcept WEFT_REQUIRES(sched.lock);

// The calling thread is it.
bool is_sysmon() noexcept;

// While it sleeps, and holds nothing: handlers of the program's signals may run on its thread.
class signals_let_in {
 public:
  signals_let_in() noexcept;
  ~signals_let_in();
  signals_let_in(const signals_let_in&) = delete;
  signals_let_in& operator=(const signals_let_in&) = delete;
};
// So long, however many handlers run.
void sleep_open(std::int64_t ns) noexcept;

// Its longest pause while a P is in use. [SM-1]
inline constexpr std::int64_t kLongestLook = 10'000'000;  // ns

// How late it may come to a timer while all Ps are busy: it would not take one away sooner, mostly.
inline constexpr std::int64_t kTimerGrace = 900'000;  // ns

// retake.cc -----------------------------------------------------------------------------------
// After so long it should look again; or when there is work to look after, unless it is firm.
struct next_look {
  std::int64_t pause;  // ns
  bool firm = false;
};
// Since when, as far as it is known, the slice has lasted that pp is in now; it had not begun at the last look.
std::int64_t slice_began(const P* pp, std::int64_t last_look, std::int64_t now) noexcept;
// Looks at every P and every robbed M.
next_look retake(std::int64_t now) noexcept;
// Work waits, and no P is idle. Not counting those who were frozen before: they are in no hurry.
bool somebody_waits(std::int64_t now) noexcept;

// robbed.cc -----------------------------------------------------------------------------------
bool is_running(const P* pp);
// By what the kernel says now. A signal would end its call (restart.cc).
bool is_in_a_call(int tid);
// Takes pp from mp if the goroutine there is still in its own code, in the slice `tick`, and hands it on. `fresh`
// goroutines wait; for_lock: it may wait for what a frozen goroutine holds.
bool rob(P* pp, M* mp, std::uint32_t tick, std::int32_t fresh, bool for_lock);
// Those who compute without a P; some of them at each look. After how long to look again.
std::int64_t freeze_robbed(std::int64_t now);
// mp is in the user's code without a P; or it is back in the runtime, or frozen.
void list_robbed_locked(M* mp) WEFT_REQUIRES(sched.lock);
// It has a P again, waits for one, or blocks: a stop of the world need not wait for it.
void lends_no_more_locked(M* mp) WEFT_REQUIRES(sched.lock);
// False: it was in nobody's list.
bool forget_robbed_locked(M* mp) WEFT_REQUIRES(sched.lock);

#ifdef WEFT_MODEL  // there is none in models of the scheduler; its sleep has its own
inline bool sysmon_told = false, sysmon_told_of_work = false;
inline void wake_sysmon() noexcept { sysmon_told = true; }
inline void wake_sysmon_locked() noexcept { sysmon_told = true; }
inline void wake_sysmon_for_p_locked() noexcept {
}  // perhaps it sleeps for no longer than its pause
inline void wake_sysmon_for_work() noexcept { sysmon_told_of_work |= sched.idle.idle() == 0; }
inline void wake_sysmon_for_timer(std::int64_t) noexcept { sysmon_told = true; }
inline bool sysmon_sleeps() noexcept { return true; }
#else
inline void wake_sysmon() noexcept {
  if (sysmon_rest.asleep()) [[unlikely]] {
    wake_sysmon_slow();
  }
}
inline void wake_sysmon_locked() noexcept {
  // order: CT0 relaxed, under sched.lock
  if (sysmon_rest.asleep() && sched.begun.load(WEFT_ORDER(CT0, relaxed))) {
    sched.lock.wake_sysmon_afterwards();
  }
}
// Who sleeps for good began to under the lock, so that the time read here is not one of an earlier sleep.
inline void wake_sysmon_for_p_locked() noexcept {
  if (sysmon_rest.asleep() && !sysmon_rest.looks_before(nanotime() + kLongestLook)) {
    wake_sysmon_locked();
  }
}
// After a full fence. Where a P is idle somebody else sees to it.
inline void wake_sysmon_for_work() noexcept {
  if (sysmon_rest.asleep() && sched.idle.idle() == 0) [[unlikely]] {
    wake_sysmon();
  }
}
inline bool sysmon_sleeps() noexcept { return sysmon_rest.asleep(); }
// No P is idle, and a timer that is due at `when` was started. After a full fence, or it may be late by 10 ms.
inline void wake_sysmon_for_timer(std::int64_t when) noexcept {
  if (!sysmon_rest.looks_before(time_after(when, kTimerGrace))) [[unlikely]] {
    wake_sysmon();
  }
}
#endif

}  // namespace weft::rt
