// The loop of every M, and what every switch leaves to its successor.
//
// Go: runtime/proc.go schedule, execute, park_m, goyield_m
#include "base/fatal.h"
#include "sched/chaos.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/switch.h"
#include "sched/thread_exit.h"
#include "sched/world.h"

namespace weft::rt {

void unpark(M* mp, G* gp) {
  gp->transition<g_status::waiting, g_status::runnable>();
  queue_put(mp, mp->p, gp, /*next=*/true);
  wake_p(mp->p);
}

void take_up(M* mp, P* pp, G* gp) {
  gp->carries = false;
  sample_running(pp, gp);
  eh_enter(mp->eh_globals, gp->eh);
}

namespace {

// Runs gp until its M comes back to g0.
WEFT_NO_TSAN void execute(M* mp, G* gp, bool inherit_time) {
  take_over(mp, gp, inherit_time);
  mp->tools.leave(gp->tools);
  weft_switch(&mp->g0, &gp->ctx, mp, goroutine_main);
  mp->tools.arrive();
  if (live_borders) {
    mp->border.set_depth(1);  // g0 is always inside
  }
}

// Picks what to run next. Null: this M has lent its P to a locked goroutine's M, and has another; or it was
// dismissed.
G* next_goroutine(M* mp, bool* inherit_time) {
  if (mp->locked_g != nullptr && mp->preselected == nullptr) {
    // If the world stops meanwhile it runs all the same, up to its next scheduling point: were it to queue again,
    // it would starve beside somebody who stops the world again and again.
    stop_locked_m(mp);
    if (process_is_exiting() && !WEFT_MUTANT("locked-past-exit")) {
      stand_aside();  // whoever freezes the others did not see us: the P had no thread
    }
    *inherit_time = false;
    return mp->locked_g;
  }
  G* gp = mp->preselected;
  mp->preselected = nullptr;
  *inherit_time = false;
  if (gp == nullptr) {
    const found f = find_runnable(mp);
    gp = f.gp;
    if (gp == nullptr) {
      return nullptr;
    }
    *inherit_time = f.inherit_time && !is_untouched(mp->p);  // from nobody
  }
  if (mp->spinning) {
    reset_spinning(mp);
  }
  if (!WEFT_MUTANT("watch-owed")) {
    pay_watch(mp);
  }
  if (gp->frozen) {
    thaw(mp, gp);
    return nullptr;
  }
  if (gp->locked_m != nullptr && gp->locked_m != mp) {
    start_locked_m(mp, gp);
    return nullptr;
  }
  return gp;
}

}  // namespace

WEFT_NO_TSAN void schedule(M* mp) {
  tsan_ignore_begin();  // as after a switch from a goroutine: section.h
  for (;;) {
    complete_switch(mp, leaving::parked);
    tsan_ignore_end();
    if (mp->leaves_loop && mp->locked_g == nullptr) {
      return;
    }
    WEFT_CHECK(mp->curg == nullptr, "schedule: a goroutine still runs here");
    if (mp->hands_p_on) [[unlikely]] {
      mp->hands_p_on = false;
      hand_off_p(release_p(mp, p_status::idle));
      stop_m(mp);
    }
    bool inherit_time = false;
    G* gp = next_goroutine(mp, &inherit_time);
    tsan_ignore_begin();
    if (gp != nullptr) {
      execute(mp, gp, inherit_time);
      if (mp->lent_once) [[unlikely]] {
        end_loan(mp);
      }
    }
  }
}

}  // namespace weft::rt
