// Timers that are due while everybody computes: an idle M borrows a P for those who slept.
//
// Problem. Who sleeps for a millisecond at a time beside goroutines that compute on all Ps wakes up a thousand times a
// second. If sysmon has to stop somebody for it each time, that is a signal, two threads that fall asleep and two that
// are woken, besides sysmon itself: the computations lose several per cent.
//
// But where all processors are in use, the thread that a timer wakes runs in somebody's place already: the kernel has
// taken the processor from one of those who compute. That one cannot notice that its P is gone for as long as it does
// not run. So the last M that was woken for a timer, and had nothing else to do, stands in: it sleeps until the next one
// (timer_watch.cc), takes the P of one that is on no processor, runs what is due, and gives the P back.
//
//   stand-in                                   the lender's M
//   1. its time has come                       computes; the kernel takes its processor
//   2. (sched.lock) border.rob(): as one
//      that blocks (robbed.cc)
//   3. runs timers, and whom they wake         whenever it runs: computes on
//   4. nobody is left: (sched.lock) the P is
//      the lender's again, border.give_back()
//   5. sleeps until the next timer
//
// BO1: the lender is one that was robbed, in every respect. If it enters the runtime meanwhile it waits for a P, as the
//      one who is as urgent as any; if it computes for long, because those who were woken do, it is frozen. Whoever it
//      is, then the stand-in keeps the P. But it is known to compute: who stops the world waits for it as for one that has
//      a P (`lends`), until it waits for one, or blocks.
// BO2: the P goes back to one that is robbed, and in its own code, or on its way to come_back(), which looks under the
//      lock: so it has none, and uses none. The lender sees what was done with it when it next enters (gmp/border.h, BD3).
// BO3: nobody else waits when a P is borrowed: they would wait for the lender's slice, which goes on afterwards.
// BO4: whoever comes to wait meanwhile, the lender among them, has his turn when the loan has lasted for many slices: the
//      stand-in keeps the P then, too. Otherwise two who hand over to each other would keep it for ever.
//
// Its thread has short slices, so that it comes at once (os/thread.h), and what is made there inherits them. So Ms are made by
// the spawner, and the library's own threads and programs after shed_short_slices(). What users make on an errand keeps them.
//
// A stand-in that finds its timer run by others, or everybody on processors, is none any longer: sysmon sees to timers, until
// it has to wake an M for one again.
//
// Rejected: sysmon as the one who sleeps until the next timer, who learns what is due next only when it looks again; a
// stand-in that asks for a P by a signal, which is received only by who is on another processor.
#include "base/debug_vars.h"
#include "base/fatal.h"
#include "os/process.h"
#include "os/thread.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/switch.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

constexpr std::int32_t kTries = 4;

// It runs where it must not be disturbed. The word is written inside the border only, so that who has robbed it sees it; TSan
// knows nothing of that.
WEFT_NO_TSAN bool keeps_p(const G* gp) { return gp->keeps_p != 0; }

// True: pp is nobody's.
bool take_from_locked(P* pp, M* owner) WEFT_REQUIRES(sched.lock) {
  if (!owner->border.rob()) {
    return false;
  }
  if (keeps_p(owner->curg)) {
    owner->border.give_back();
    return false;
  }
  tsan_acquire(&owner->p);  // from leave_runtime(), as in rob()
  owner->curg->transition<g_status::running, g_status::syscall>();
  WEFT_CHECK(release_p(owner, p_status::idle) == pp, "borrowed the wrong P");
  list_robbed_locked(owner);
  owner->lends = true;
  return true;
}

// For sysmon it is the lender's slice still, however many others there were.
void continue_slice_locked(P* pp, std::uint32_t slice) WEFT_REQUIRES(sched.lock) {
  const std::uint32_t now = slice_of(pp);
  if (pp->watch.tick == slice) {
    pp->watch.tick = now;
  }
  // order: SB0 relaxed, for sysmon
  if (pp->deaf_slice.load(WEFT_ORDER(SB0, relaxed)) == slice) {
    pp->deaf_slice.store(now, WEFT_ORDER(SB0, relaxed));  // order: SB0 relaxed, as above
  }
}

}  // namespace

void keep_p(M* mp) {
  mp->lender = nullptr;
  mp->stands_in = false;
  end_short_slices(mp);
}

// It asks for them again when it next sleeps (stand_in()).
void shed_short_slices() {
  M* mp = enter_runtime();
  if (mp != nullptr && mp->short_slices) {
    mp->short_slices = false;
    ask_for_short_slices(false);
  }
  leave_runtime(mp);
}

void end_long_errand(M* mp) {
  constexpr std::uint32_t kLongErrand = kFairnessTick;
  if (slice_of(mp->p) - mp->lenders_slice > kLongErrand) {
    keep_p(mp);
  }
}

bool borrow_p_locked(M* mp) {
  if (sched.gate.closed() || crashing() || debug_vars.asyncpreemptoff != 0 ||
      thread_is_created_locked() || sched.runq.has_returned() || fresh_work_locked()) {
    return false;  // keeps BO3; and BO1, for which one that computes on must be frozen
  }
  std::int32_t tries = 0;
  for (std::int32_t i = 0; i < sched.proc_count() && tries < kTries; ++i) {
    P* pp =
        sched.p((mp->lenders_p + i) % sched.proc_count());  // its thread is mostly where mp runs
    // order: PM1 acquire: sees the M set up; pairs with acquire_p()
    M* owner = pp->m.load(WEFT_ORDER(PM1, acquire));
    if (!is_running(pp) || owner == nullptr || !owner->border.outside()) {
      continue;
    }
    ++tries;
    const std::uint32_t slice = slice_of(pp);
    if (!task_runs(owner->tid) && take_from_locked(pp, owner)) {
      idle_m_remove(mp);
      static_cast<void>(stop_watching_timers(mp));
      mp->lender = owner;
      mp->lenders_p = pp->id;
      mp->lenders_slice = slice;
      mp->owes_watch = true;
      mp->timer_is_due = true;
      acquire_p(mp, pp);
      return true;
    }
  }
  return false;
}

bool repay_p(M* mp) {
  sched.lock.lock();
  M* owner = mp->lender;
  // Not one that has had another P meanwhile; it may have been robbed of that, because it blocks.
  if (sched.gate.closed() || crashing() || !(owner->lends || WEFT_MUTANT("repaid-in-vain"))) {
    sched.lock.unlock();
    keep_p(mp);  // keeps BO1
    return false;
  }
  forget_robbed_locked(owner);
  P* pp = release_p(mp, p_status::idle);
  owner->curg->transition<g_status::syscall, g_status::running>();
  acquire_p(owner, pp);
  count_slice(pp);
  continue_slice_locked(pp, mp->lenders_slice);
  tsan_release(&owner->p);    // to enter_runtime()
  owner->border.give_back();  // keeps BO2
  mp->stands_in = true;
  stop_m_unlock(mp);
  return true;
}

}  // namespace weft::rt
