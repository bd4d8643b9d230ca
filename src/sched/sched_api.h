// What the verbs of the scheduler say to each other. Public to src/sched only, but for park.h.
//
// Reading order is a goroutine's life: spawn.cc, schedule.cc, find_runnable.cc, steal.cc, park.cc,
// ready.cc, exit.cc; then idle.cc for those who have nothing to do, timers.cc and timer_watch.cc for
// those who wait for a time, world.cc for those who stop everybody, foreign.cc and locked.cc for
// threads that are not ours, boot.cc for the beginning.
#pragma once

#include <cstdint>

#include "gmp/sched.h"
#include "os/clock.h"
#include "sched/chaos.h"
#include "sched/section.h"
#include "sched/sysmon.h"
#include "sched/timers.h"

namespace weft::rt {

// boot.cc --------------------------------------------------------------------------------------
// The runtime starts itself on first use. Cheap when started.
void ensure_started();

// Time slices of pp so far.
inline std::uint32_t slice_of([[maybe_unused]] const P* pp) {
#ifdef WEFT_MODEL
  return 1;  // not the fairness tick
#else
  return pp->schedtick.load(WEFT_ORDER(ST0, relaxed));  // order: relaxed, the owner's own counter
#endif
}

// Since its M has taken pp nobody has begun a slice of his own there.
inline bool is_untouched(const P* pp) {
  // order: SB0 relaxed, the owner's own
  return slice_of(pp) == pp->first_slice.load(WEFT_ORDER(SB0, relaxed));
}

// One slice in OneIn, a power of two, for samples. By a hash: goroutines that take turns have slices at regular
// distances, and in step with these a sample would see the same one each time.
template <std::uint32_t OneIn>
[[gnu::always_inline]] inline bool is_sampled(const P* pp) {
  return slice_of(pp) * 0x9e3779b1u < 0xffffffffu / OneIn;
}

// queue.cc -------------------------------------------------------------------------------------
// The ring was full when somebody wanted to append gp.
void queue_put_full(P* pp, G* gp);
// Chaos: now and then the oldest goes to the end, and gp in its place. The ring may look empty meanwhile, but
// whoever puts something into it wakes somebody anyway. keeps I1
G* queue_shuffled(M* mp, P* pp, G* gp);
// Puts a runnable G on pp, as its next one or at the tail; overflow goes to the global queue.
// Requires: the caller owns pp.
// True: it is next, and displaced nobody.
[[gnu::always_inline]] inline bool queue_put(M* mp, P* pp, G* gp, bool next) {
  WEFT_DCHECK(gp->in(g_status::runnable), "queue_put of a goroutine that is not runnable");
  if (next && !chaos_coin(mp)) {
    gp = pp->runq.put_next(gp);
    if (gp == nullptr) {
      return true;
    }
  }
  if (chaos_build) {
    gp = queue_shuffled(mp, pp, gp);
  }
  if (!pp->runq.push(gp)) [[unlikely]] {
    queue_put_full(pp, gp);
  }
  return false;
}

// The next one on pp: runnext, in the same time slice, or the oldest of the ring. Two goroutines that
// hand over to each other are one slice that never ends, and would starve everybody else here; so
// every kLongestSlice switches the ring goes first and a new slice begins.
[[gnu::always_inline]] inline bool slice_is_over(const P* pp) {
  // order: SW0 relaxed, the owner's own counter
  return pp->switches.load(WEFT_ORDER(SW0, relaxed)) % kLongestSlice == 0;
}
[[gnu::always_inline]] inline G* take_local(P* pp, bool slice_over, bool* inherit) {
  G* gp = slice_over ? nullptr : pp->runq.pop_next();
  *inherit = gp != nullptr;
  if (gp == nullptr) {
    gp = pp->runq.pop();
  }
  return gp != nullptr ? gp : pp->runq.pop_next();
}
inline G* take_local(P* pp, bool* inherit) { return take_local(pp, slice_is_over(pp), inherit); }

// How long goroutines are runnable before they run, by a sample, so that only one in 256 slices reads the
// clock. Of one that is measured, `waiting_since` is minus the time at which it became runnable; of all
// others, dead ones and new ones included, it is never negative, so that spawning need not write it.
#ifdef WEFT_MODEL
inline void sample_runnable(const P*, G*) {}
inline void sample_running(P*, G*) {}
#else
[[gnu::always_inline]] inline void sample_runnable(const P* pp, G* gp) {
  if (is_sampled<256>(pp)) [[unlikely]] {
    gp->waiting_since = -nanotime();
    gp->carries = true;
  }
}
[[gnu::always_inline]] inline void sample_running(P* pp, G* gp) {
  if (gp->waiting_since < 0) [[unlikely]] {
    pp->latencies.record(nanotime() + gp->waiting_since);
    gp->waiting_since = 0;
  }
}
#endif

// schedule.cc ----------------------------------------------------------------------------------
// The loop of every M, on g0. Requires: mp holds a P. Returns when mp leaves it: the goroutine has ended
// that was locked to it by the user, or for which the thread was lent (lock_main_thread); or it was idle for
// long, and is dismissed (reap.cc).
void schedule(M* mp);
// Gives gp back what it carries.
void take_up(M* mp, P* pp, G* gp);
// A park whose commit refused: what it waited for has happened, so it is runnable at once. [PK-1]
void unpark(M* mp, G* gp);

// find_runnable.cc -----------------------------------------------------------------------------
struct found {
  G* gp;
  bool inherit_time;  // a runnext hand-over: the time slice goes on
};
// Blocks until there is something to run; nothing if mp is dismissed. Runs on: g0. Blocks: M.
found find_runnable(M* mp);
// The oldest of the global queue that any M may run. Null: there is none, or others wait there, too, or the lock is
// taken, and g0 decides. Blocks: nothing.
G* take_global();
// The part that may run on a goroutine's stack: local work only, null if g0 must decide.
inline G* pick_local(M* mp, P* pp, bool* inherit);

// steal.cc -------------------------------------------------------------------------------------
G* steal_work(M* mp);
G* spin_for_work(M* mp);

// idle.cc --------------------------------------------------------------------------------------
// New work is visible: start somebody if nobody looks for work and a P is idle. [SP-5]
void wake_p_slow();
inline void wake_p(const P* pp) {
  if (pp->wakes_nobody) {
    wake_sysmon();  // unfenced: at worst it comes by itself, within 10 ms
    return;
  }
  if (sched.idle.claim_wake()) [[unlikely]] {
    wake_p_slow();
  } else {
    sched.dozer.poke();
    wake_sysmon_for_work();
  }
}
// The same for a goroutine that is next on pp and will mostly run here: gmp/nap.h. But the one that woke it may compute on
// while nobody is there to steal it: then it waits for sysmon.
inline void wake_p_for_next(const P* pp) {
  if (pp->wakes_nobody) {
    wake_sysmon();  // unfenced, as above
  } else if (!sched.dozer.will_look()) {
    if (sched.idle.claim_wake()) [[unlikely]] {
      wake_p_slow();
    } else if (!WEFT_MUTANT("next-waits-alone")) {
      wake_sysmon_for_work();
    }
  }
}
// mp has found work after spinning. [SP-6]
void reset_spinning(M* mp);
// An M creates a thread, and may wait for locks of libc's: nobody who may hold one loses his P. (preempt.cc, PE2)
inline bool thread_is_created_locked() WEFT_REQUIRES(sched.lock) {
  // order: CT0 relaxed, raised under sched.lock
  return sched.creators.load(WEFT_ORDER(CT0, relaxed)) != 0;
}
// Gives pp to an M, new if need be. Locks: caller holds sched.lock, which is released.
void start_m_unlock(P* pp, bool spinning) WEFT_RELEASE(sched.lock);
// Hands pp to a sleeping M. Locks: caller holds sched.lock, which is released.
void hand_p_unlock(M* mp, P* pp) WEFT_RELEASE(sched.lock);
// The kernel treats mp's thread as others again, unless it stands in (borrow.cc).
void end_short_slices(M* mp);
// Sleeps until a P is handed over, and takes it; or until it is dismissed. Locks: as above. Blocks: M.
void sleep_for_p_unlock(M* mp) WEFT_RELEASE(sched.lock);
// Sleeps until somebody hands over a P, or dismisses it. Requires: no P, not spinning.
void stop_m(M* mp);
// The same. Locks: caller holds sched.lock, which is released.
void stop_m_unlock(M* mp) WEFT_RELEASE(sched.lock);
// Lets go of the P and, if there is really nothing to do, sleeps. Returns with a P, and perhaps
// with a G from the global queue.
G* go_idle(M* mp);
// Whether any queue has something, but for that of the P `than`.
bool others_have_work(const P* than);
void acquire_p(M* mp, P* pp);
P* release_p(M* mp, p_status to);
P* idle_p_get() WEFT_REQUIRES(sched.lock);
// That which mp had last, if it is idle; or another one. Looks through the list.
P* idle_p_get_of(const M* mp) WEFT_REQUIRES(sched.lock);
void idle_p_put(P* pp) WEFT_REQUIRES(sched.lock);
// One that has work and waits for a new M.
P* unmanned_p_get() WEFT_REQUIRES(sched.lock);
// The same for an M that comes for it. Whoever wanted one that looks for work, and wakes others if there is more, has left a
// request, and the M is that one. keeps I1
P* unmanned_p_take(M* mp) WEFT_REQUIRES(sched.lock);
// As idle_p_get, and asks the next M that runs dry to look for the work that could not be started.
P* idle_p_get_for_work() WEFT_REQUIRES(sched.lock);
// The next batch of the global queue: the first is returned, the rest goes to pp's empty ring.
G* global_batch_get(P* pp) WEFT_REQUIRES(sched.lock);
void idle_m_put(M* mp) WEFT_REQUIRES(sched.lock);
M* idle_m_get() WEFT_REQUIRES(sched.lock);
void idle_m_remove(M* mp) WEFT_REQUIRES(sched.lock);
void hand_off_p(P* pp);

// timers.cc ------------------------------------------------------------------------------------
// timer_start() within a section; mp is its M, or null. The event may be gone on return.
void arm_timer(M* mp, timer_event& e);
// Runs what is due on mp's P, or everywhere if time has woken mp. Runs on: g0.
void run_own_timers(M* mp);
// Runs what is due on victim; *now is the time, or 0 if nobody has asked yet. If there is a crowd, not
// before most of it is due (timer_set::slack), unless told so. True: something ran.
bool run_timers(M* mp, P* victim, std::int64_t* now, bool crowd_too = false);
// Timers of Ps that go out of use. Requires: the world is stopped.
void move_timers(std::int32_t procs);
// True if the clock should be read now on behalf of pp's timers: g0 does it. Counts a switch.
[[gnu::always_inline]] inline bool timers_want_a_look(P* pp) {
  if (pp->timers.next() == kNever) [[likely]] {
    return false;
  }
  if (pp->timer_countdown > 1) {
    --pp->timer_countdown;
    return false;
  }
  return true;
}

// Whether a goroutine that parks now is followed by runnext, as pick_local() decides: it is neither another one's turn nor time
// to look at timers.
inline bool runnext_is_next(const P* pp) {
  return !slice_is_over(pp) && slice_of(pp) % kFairnessTick != 0 &&
         (pp->timers.next() == kNever || pp->timer_countdown > 1);
}

// timer_watch.cc -------------------------------------------------------------------------------
// pp's earliest timer is now at `when`: somebody must wake for it. mp is the M of the section, or null.
void somebody_must_watch(M* mp, const P* pp, std::int64_t when);
// When the next timer is due on any P, or a little before; kNever if there is none.
std::int64_t earliest_timer();
// The same for sysmon: kNever if somebody sleeps until then.
std::int64_t timer_for_sysmon();
// When whoever is awake runs pp's timers: the next one is due, and where there is a crowd most of it.
inline std::int64_t run_time(const P* pp) {
  return time_after(pp->timers.next(), pp->timers.slack() / 4 * 3);
}
// mp sleeps until the result: it becomes the watcher if there is none, or none for so early a time.
// kTimerDue: it has taken a P and left the idle list, spinning.
inline constexpr std::int64_t kTimerDue = 0;
std::int64_t watch_timers(M* mp) WEFT_REQUIRES(sched.lock);
// mp is handed a P. True: it was the watcher; its deputy, if there is one, is it now.
bool stop_watching_timers(M* mp) WEFT_REQUIRES(sched.lock);
// A P has become idle without its M, or the watcher has other work: somebody must watch.
void find_timer_watcher();
// mp goes on to other things: what it has put off, since it would mostly fall asleep, and watch by itself.
inline void pay_watch(M* mp) {
  if (mp->owes_watch) {
    mp->owes_watch = false;
    find_timer_watcher();
  }
}
// A sleeper will wake so soon that it can take its share of a crowd without being woken for it. A hint:
// who wakes nobody because of it asks watcher_will_look() afterwards.
bool watcher_comes_soon(std::int64_t now);
// True: it will look for work. Otherwise the caller wakes somebody.
[[nodiscard]] bool watcher_will_look();

// borrow.cc ------------------------------------------------------------------------------------
// A timer is due, and all Ps are in use: mp, which is idle, takes one for a moment from a goroutine that is on no
// processor. True: it has left the idle list.
bool borrow_p_locked(M* mp) WEFT_REQUIRES(sched.lock);
// What mp has is a P like any other's, or has become one, and mp no better than others: it stands in no longer.
void keep_p(M* mp);
// It keeps a P that it has borrowed if the errand turns out to be long.
void end_long_errand(M* mp);
// mp has nothing left to do with it: the P is its lender's again. True: mp has slept, and has another one, or is
// dismissed. False: it keeps it. Blocks: M.
bool repay_p(M* mp);
// Before something is made here, a thread or a process, that would inherit how the kernel treats the calling thread, for good.
// Runs on: G, plain thread.
void shed_short_slices();

// thread.cc ------------------------------------------------------------------------------------
// What set_max_threads() bounds: not those who stand still, nor those who are about to end.
inline std::int32_t ms_toward_limit_locked() WEFT_REQUIRES(sched.lock) {
  return sched.m_count - sched.frozen_ms - sched.leaving_ms;
}
// Ends the process, with Go's message. Whoever comes second waits for that.
[[noreturn]] void exceed_thread_limit(std::int32_t limit);
// A new M that starts with pp. Locks: acquires none held. Blocks: M.
// Ends the process where there are more than the limit and `beyond`.
M* reserve_m(std::int32_t beyond = 0) WEFT_REQUIRES(sched.lock);
void start_thread(M* mp, P* pp, bool spinning);
// Its last step, which takes libc's locks.
void create_m_thread(M* mp);
// A thread of the runtime's own; fatal if there can be none.
void create_or_die(void* (*main)(void*), void* arg);
// False on threads that must not wait for libc's locks.
bool may_create_threads();
// Before the first M runs.
void start_system_threads();
inline bool system_threads_begun() {
  return sched.begun.load(WEFT_ORDER(CT0, relaxed));  // order: relaxed, a hint, or under sched.lock
}
// The calling thread is mp from now on.
void bind_thread(M* mp);

// joining.cc -----------------------------------------------------------------------------------
// A spare one, made without a P: takes one that waits for it, or an idle one, or sleeps until there is one.
void join_idle_ms(M* mp);
// The calling thread is mp no longer: gives the P on and the record back. It is a plain thread afterwards. [M-5]
void leave_m(M* mp);

// reap.cc --------------------------------------------------------------------------------------
// Ends threads that have been idle for long, if there are many; `now` is nanotime(), or a test's own clock.
// When it wants to be called again; kNever: not before somebody falls asleep.
// Runs on: sysmon. Locks: acquires sched.lock.
std::int64_t reap_idle_ms(std::int64_t now);

// world.cc -------------------------------------------------------------------------------------
// Who has stopped the world comes to a scheduling point itself.
inline constexpr const char* kBlocksInStoppedWorld = "scheduling point inside stop_the_world";
// This M's P stops until the world goes on; returns with a P.
void stop_for_world(M* mp);

// foreign.cc -----------------------------------------------------------------------------------
// Makes a G runnable from a thread without a P.
void inject(G* gp);
void inject_unlock(G* gp) WEFT_RELEASE(sched.lock);

// deadlock.cc ----------------------------------------------------------------------------------
// Whether everything is asleep, so that somebody should look whether that is a deadlock.
bool all_asleep() WEFT_REQUIRES(sched.lock);
// Looks; does not return if it is one.
void check_dead() WEFT_REQUIRES(sched.lock);
// A plain thread has ended or fallen asleep: what looked alive may be dead now. False: there is no M
// that would look again later.
bool look_for_deadlock_soon();
// How long to wait before one looks, and before one looks again.
inline constexpr std::int64_t kFirstLook = 2'000'000;
constexpr std::int64_t longer(std::int64_t pause) {
  constexpr std::int64_t kLongestPause = 60'000'000'000;
  return pause * 2 < kLongestPause ? pause * 2 : kLongestPause;
}
std::int64_t live_goroutines();

// locked.cc ------------------------------------------------------------------------------------
// mp runs only its locked goroutine, which is not runnable: hands the P off, sleeps until it is.
void stop_locked_m(M* mp);
// gp may run only on its own M: gives that M this P, and sleeps.
void start_locked_m(M* mp, G* gp);
// mp's thread was lent to a goroutine for its first run, and the goroutine has left its stack. Before anybody can see that.
void end_loan(M* mp);
// gp, which runs on mp, and mp run only together from now on, and no longer.
void link_to_m(M* mp, G* gp);
void unlink_from_m(M* mp, G* gp);

// exit.cc --------------------------------------------------------------------------------------
// The goroutine that runs here, or null. Safe in user code under TSan.
G* current_goroutine() noexcept;
// goexit() on the current goroutine.
[[noreturn]] void end_goroutine();
// Where every goroutine's stack begins.
departure goroutine_main(void* transfer);

// in_place.cc ----------------------------------------------------------------------------------
// Runs child, which the calling goroutine joins and nobody has started yet, on this stack. True: it
// has ended. False: it is elsewhere, or this is no place for it.
bool run_in_place(G* child);

// spawn.cc -------------------------------------------------------------------------------------
// A goroutine of the runtime's own, for a thread without a P that may neither allocate nor create
// threads. False: there has never been an M.
bool start_helper(void (*body)(void*));
// While it lives the calling goroutine runs users' code: reports show it, even if it is one of the runtime's own. [CN-2]
class users_turn {
 public:
  users_turn() noexcept;
  ~users_turn();
  users_turn(const users_turn&) = delete;
  users_turn& operator=(const users_turn&) = delete;

 private:
  G* helper_;  // or null
};
// Gives gp a stack and an entry. Requires: it has none.
void bind_stack(P* pp, G* gp);
void stack_give(P* pp, const stack& s, bool standard);
// What a goroutine owns on the heap, freed by itself when it ends.
struct belongings {
  void* closure;
  std::size_t closure_align;
  const char* name;
};
void free_belongings(const belongings& b);
// The record of a dead goroutine that its joiner, or its spawner, owns.
void g_recycle(G* gp);
void count_ended(P* pp);
G* g_free_get(P* pp);
void g_free_put(P* pp, G* gp);

}  // namespace weft::rt
