// sched.lock, whose holder may have sysmon or the spawner woken.
//
// Who of them is woken looks at what this lock guards before anything else. Were it woken while the lock is held, and all processors
// are in use, it would take the holder's, wait for the lock, and leave the processor to a goroutine that computes: the holder
// has the lock until the kernel's next tick, milliseconds later, and everybody waits for it. So they are woken when
// the lock is free.
//
//   holder                                   sleeper
//   1. under the lock: the slot = its note
//   2. unlock(): takes the note out,
//      then releases the lock
//   3. sets the note                    ──►  wakes, looks under the lock, and clears the note there if there is
//                                            nothing (more) for it
//
// SL-a: a note that was put into the slot is set once, by the one who unlocks next. The slot is emptied before the lock is
//       released: it is another holder's afterwards, whose note would be lost, or set for the last one's sake, too.
// SL-b: there is one slot. Those who share the lock ask for one note only, and not again until its sleeper has cleared it.
#pragma once

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "base/note.h"
#include "gmp/long_sleep.h"

namespace weft::rt {

extern constinit long_sleep sysmon_rest;

class WEFT_CAPABILITY("lock") waking_lock : public ranked_lock {
 public:
  using ranked_lock::ranked_lock;

  // Require: held. What the caller has done under the lock is seen by whoever is woken.
  void wake_sysmon_afterwards() {
    wakes_sysmon_.store(true, WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock
  }
  // Nobody else wakes it, nor clears it before it has been woken.
  void wake_afterwards(note& n) {
    WEFT_CHECK(wakes() == nullptr || wakes() == &n, "sched.lock is to wake two");  // keeps SL-b
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
    if (!WEFT_MUTANT("note-stays") && !WEFT_MUTANT("note-taken-late")) {
      wakes_.store(nullptr,
                   WEFT_ORDER(SL0, relaxed));  // order: relaxed, under the lock. keeps SL-a
    }
    ranked_lock::unlock();
    if (WEFT_MUTANT("note-taken-late")) {
      wakes_.store(nullptr, WEFT_ORDER(SL0, relaxed));  // order: relaxed, a mistake
    }
    if (sysmon && !WEFT_MUTANT("sysmon-sleeps-on")) {
      sysmon_rest.wake();
    }
    if (other != nullptr) {
      other->wake();
    }
  }

  // Guarded by the lock itself. Atomic for TSan, to which a lock that is taken in a section is none (sched/section.h).
  atomic<bool> wakes_sysmon_{false};  // rarely written: under the lock, which is counted itself
  atomic<note*> wakes_{nullptr};      // rarely written: likewise
};

#ifdef WEFT_MODEL  // of the scheduler, in which there are neither sysmon nor the spawner
using sched_lock = ranked_lock;
#else
using sched_lock = waking_lock;
#endif

}  // namespace weft::rt
