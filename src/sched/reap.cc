// Threads that have been idle for long end.
//
// Problem. A thousand goroutines that block at once need a thousand threads; afterwards most of these sleep,
// and each holds a stack, a stack for signal handlers and whatever libraries keep per thread. Go keeps
// them for ever.
//
// How long an M has slept is counted in periods, not read from a clock: going idle is frequent and must
// stay cheap. An M that was idle at the beginning and at the end of a whole period, and is not among the
// kSpareMs + gomaxprocs that slept last, is taken off the idle list and marked, both under sched.lock;
// then its note is set. It wakes, finds the mark, leaves its loop and ends like the thread of a goroutine
// that was locked to it (joining.cc).
//
// R1: from the list to its end nobody hands it a P, for those who do look at the list, under the lock. So
//     dismissing and starting cannot cross each other, and there is nothing to model.
// R2: the watcher of timers, its deputy, who waits for news of descriptors, and who looks for deadlocks
//     stay. Others rely on their wake-up.
//
// The list is a stack, so that under a steady load the same few Ms are used, and those below grow old.
//
// Rejected: a limit on each M's own sleep. Hundreds of timers in the kernel, and each wakes its thread
// for nothing as long as it may not end.
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kPeriod = 2'500'000'000;  // ns: an M ends after one to two of these
constexpr std::int32_t kSpareMs = 4;
constexpr std::uint32_t kAtOnce = 64;  // dismissed while the lock is held

constinit std::int64_t next_period WEFT_GUARDED_BY(sched.lock) = 0;

// The first one, from `mp` down the list, that nobody relies on.
M* dispensable_locked(M* mp) WEFT_REQUIRES(sched.lock) {
  while (mp != nullptr && (mp == sched.timer_watcher || mp == sched.timer_deputy ||
                           mp == sched.poller || mp->watches_deadlock)) {  // keeps R2
    mp = mp->idle_next;
  }
  return mp;
}

// The same below those that slept last. Null: there are no more than should be.
M* first_surplus_locked() WEFT_REQUIRES(sched.lock) {
  M* mp = sched.idle_ms;
  for (std::int32_t kept = sched.proc_count() + kSpareMs; mp != nullptr && kept > 0; --kept) {
    mp = mp->idle_next;
  }
  return dispensable_locked(mp);
}

// Takes those off the list who have slept for long. How many.
std::uint32_t dismiss_locked(M** dismissed) WEFT_REQUIRES(sched.lock) {
  std::uint32_t n = 0;
  for (M* next = first_surplus_locked(); n < kAtOnce && next != nullptr;) {
    M* mp = next;
    next = dispensable_locked(mp->idle_next);
    if (sched.idle_period - mp->idle_since >= 2) {
      idle_m_remove(mp);  // keeps R1
      mp->dismissed = true;
      dismissed[n++] = mp;
    }
  }
  return n;
}

bool period_is_over(std::int64_t now) {
  const scoped_lock held(sched.lock);
  if (now < next_period) {
    return false;
  }
  next_period = now + kPeriod;
  ++sched.idle_period;
  return true;
}

// Some of them. False: there are no more.
bool dismiss_some() {
  M* dismissed[kAtOnce];
  bool awake[kAtOnce];
  sched.lock.lock();
  const std::uint32_t n = dismiss_locked(dismissed);
  for (std::uint32_t i = 0; i < n; ++i) {
    awake[i] = dismissed[i]->poked;  // its note is set already: it will see the mark
  }
  sched.lock.unlock();
  for (std::uint32_t i = 0; i < n; ++i) {
    if (!awake[i]) {
      dismissed[i]->park.wake();
    }
  }
  return n == kAtOnce;
}

}  // namespace

std::int64_t reap_idle_ms(std::int64_t now) {
  if (period_is_over(now)) {
    while (dismiss_some()) {
    }
  }
  const scoped_lock held(sched.lock);
  return first_surplus_locked() != nullptr ? next_period : kNever;
}

}  // namespace weft::rt
