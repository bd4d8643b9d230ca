// sched.lock, whose holder may have sysmon or the spawner woken.
//
// Who of them is woken looks at what this lock guards before anything else. Were it woken while the lock is held, and all processors
// are in use, it would take the holder's, wait for the lock, and leave the processor to a goroutine that computes: the holder
// has the lock until the kernel's next tick, milliseconds later, and everybody waits for it. So they are woken when
// the lock is free.
#pragma once

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/note.h"
#include "gmp/long_sleep.h"

namespace weft::rt {

extern constinit long_sleep sysmon_rest;

#ifdef WEFT_MODEL  // what is woken, and when, has models of its own
using sched_lock = ranked_lock;
#else
class WEFT_CAPABILITY("lock") sched_lock : public ranked_lock {
 public:
  using ranked_lock::ranked_lock;

  // Require: held. What the caller has done under the lock is seen by whoever is woken.
  void wake_sysmon_afterwards() {
    wakes_sysmon_.store(true, WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock
  }
  // Nobody else wakes it, nor clears it before it has been woken.
  void wake_afterwards(note& n) {
    wakes_.store(&n, WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock
  }

  WEFT_NO_THREAD_SAFETY_ANALYSIS void unlock() WEFT_RELEASE() {
    const bool sysmon = wakes_sysmon();
    note* other = wakes();
    if (sysmon || other != nullptr) [[unlikely]] {
      unlock_and_wake(sysmon, other);
    } else {
      ranked_lock::unlock();
    }
  }

 private:
  bool wakes_sysmon() const {
    return wakes_sysmon_.load(WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock
  }
  note* wakes() const {
    return wakes_.load(WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock
  }

  [[gnu::noinline]] WEFT_NO_THREAD_SAFETY_ANALYSIS void unlock_and_wake(bool sysmon, note* other) {
    wakes_sysmon_.store(false, WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock
    wakes_.store(nullptr, WEFT_ORDER(SL0, relaxed));       // order: relaxed, under the lock
    ranked_lock::unlock();
    if (sysmon) {
      sysmon_rest.wake();
    }
    if (other != nullptr) {
      other->wake();
    }
  }

  // Guarded by the lock itself. Atomic for TSan, to which a lock that is taken in a section is none (sched/section.h).
  atomic<bool> wakes_sysmon_{false};
  atomic<note*> wakes_{nullptr};
};
#endif

}  // namespace weft::rt
