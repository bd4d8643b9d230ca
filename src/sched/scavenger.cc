// What Go's collector does on the side: memory that nobody uses goes back to the system (D10).
//
// Problem. Stacks of goroutines that have ended are kept, with their pages, because the next goroutine wants
// them warm; values in pools likewise. After a burst that is a lot of memory for nothing. But giving back costs
// a system call per stack and a page fault later, so what is used again soon should stay; and in an idle
// process nobody wakes up to clean.
//
//   cycle        when                                   what
//   background   every 5 s, if there is something       stacks that lay idle for a whole period
//   forced       2 minutes after the last one           runtime::gc(): idle stacks, a generation of each pool
//   pressure     memory is short (os/memory_pressure.h) the same, and pools altogether
//
// sysmon comes by in each of its rounds and only decides: pools run users' destructors, and madvise may wait for
// the kernel's locks. The work is done by a goroutine that exists as long as there is something to do
// (start_helper()). If there is no M yet, the next round tries again.
//
// Cold stacks are found without a clock: the pool is a stack, so that what lies below its lowest level of a
// period was not used in it (fiber/stack.h). Stacks in the cache of a P that has not switched in a whole
// period go to the pool first.
//
// How short memory is the kernel says in files. They are opened once, by the thread of the program that starts sysmon: sysmon
// itself may not, as the program may be in a cage by the time that it looks (os/cgroup.h, C1). Not by boot(), which is earlier
// still: a process that ends without ever having had a second thread would pay for it.
//
// SC1: scavenger_tick() names a time only while a background cycle can still find something, or an idle thread
//      will be old enough to end. Then an idle process is clean after some 20 s, and nobody wakes any more. What
//      comes by the clock (forced, pressure) does not count: whoever wakes first catches up.
//
// Go: runtime/mgcscavenge.go; runtime/proc.go forcegchelper, sysmon
#include "sched/scavenger.h"

#include <algorithm>

#include "os/memory_pressure.h"
#include "sched/sched_api.h"
#include "sched/world.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kPeriod = 5'000'000'000;         // ns
constexpr std::int64_t kPressureLook = 1'000'000'000;   // ns
constexpr std::int64_t kForcedAfter = 120'000'000'000;  // ns; Go: forcegcperiod

struct scavenger_state {
  ranked_lock lock{lock_rank::leaf};        // held while files are read
  bool busy WEFT_GUARDED_BY(lock) = false;  // a goroutine is on its way
  scavenging task WEFT_GUARDED_BY(lock) = scavenging::nothing;
  std::int64_t next_period WEFT_GUARDED_BY(lock) = 0;
  std::int64_t next_look WEFT_GUARDED_BY(lock) = 0;    // at the pressure
  std::int64_t next_forced WEFT_GUARDED_BY(lock) = 0;  // 0: not known yet
  bool opened WEFT_GUARDED_BY(lock) = false;
  const char* tree WEFT_GUARDED_BY(lock) = "";
  memory_pressure pressure WEFT_GUARDED_BY(lock);
  std::uint64_t done[4] WEFT_GUARDED_BY(lock) = {};  // by scavenging
};

constinit scavenger_state state;
constinit cgroup::scratch scratch WEFT_GUARDED_BY(state.lock);  // all zero: costs no space in files

class WEFT_SCOPED_CAPABILITY locked_section {
 public:
  locked_section() WEFT_ACQUIRE(state.lock) : mp_(enter_runtime()) { state.lock.lock(); }
  ~locked_section() WEFT_RELEASE() {
    state.lock.unlock();
    leave_runtime(mp_);
  }
  locked_section(const locked_section&) = delete;
  locked_section& operator=(const locked_section&) = delete;

 private:
  M* mp_;
};

// Caches of idle Ps that have run nothing since the last look go to the pool.
void empty_cold_caches() {
  const scoped_lock held(sched.lock);
  for (P* pp = sched.idle_ps; pp != nullptr; pp = pp->idle_next) {
    // order: SW0 relaxed; an idle P does not switch
    const std::uint32_t now = pp->switches.load(WEFT_ORDER(SW0, relaxed));
    if (pp->switches_seen == now) {
      the_stacks.give(pp->stacks, pp->stack_count);
      pp->stack_count = 0;
    }
    pp->switches_seen = now;
  }
}

// How many stacks could be given back, if they stay idle.
std::size_t idle_stacks() {
  std::size_t n = the_stacks.warm();
  const scoped_lock held(sched.lock);
  for (const P* pp = sched.idle_ps; pp != nullptr; pp = pp->idle_next) {
    n += pp->stack_count;
  }
  return n;
}

// If there are none, or they may not be read, nobody tries again.
void open_pressure_locked() WEFT_REQUIRES(state.lock) {
  if (!state.opened) {
    state.opened = true;
    state.pressure.open(scratch, state.tree);
  }
}

bool memory_is_short_locked(std::int64_t now) WEFT_REQUIRES(state.lock) {
  if (now < state.next_look) {
    return false;
  }
  state.next_look = now + kPressureLook;
  return state.pressure.rose(now);
}

// What comes by the clock.
scavenging due_locked(std::int64_t now) WEFT_REQUIRES(state.lock) {
  if (state.next_forced == 0) {
    state.next_forced = now + kForcedAfter;
  }
  if (memory_is_short_locked(now)) {
    return scavenging::pressure;
  }
  return now >= state.next_forced ? scavenging::forced : scavenging::nothing;
}

// Nothing, if somebody is on his way already.
scavenging decide(std::int64_t now, bool cold_stacks) {
  const scoped_lock held(state.lock);
  if (state.busy) {
    return scavenging::nothing;
  }
  state.task = due_locked(now);
  if (state.task == scavenging::nothing && cold_stacks) {
    state.task = scavenging::background;
  }
  if (state.task == scavenging::forced || state.task == scavenging::pressure) {
    state.next_forced = now + kForcedAfter;
  }
  state.busy = state.task != scavenging::nothing;
  return state.task;
}

bool period_is_over(std::int64_t now) {
  const scoped_lock held(state.lock);
  if (now < state.next_period) {
    return false;
  }
  state.next_period = now + kPeriod;
  return true;
}

void scavenge(scavenging how) {
  if (how == scavenging::background) {
    while (trim_in_section(&stack_pool::trim_some_cold)) {
    }
    return;
  }
  drop_caches(how ==
              scavenging::pressure);  // first: destructors of what is dropped may need stacks
  return_idle_stacks();
}

// The goroutine.
void run_cycle(void*) {
  scavenging task = scavenging::nothing;
  {
    const locked_section held;
    task = state.task;
  }
  scavenge(task);
  const locked_section held;
  state.busy = false;
  ++state.done[static_cast<std::size_t>(task)];
}

}  // namespace

void scavenge_now() {
  {
    const locked_section held;
    state.next_forced = nanotime() + kForcedAfter;
  }
  scavenge(scavenging::forced);
}

void open_pressure_files() {
  const scoped_lock held(state.lock);
  open_pressure_locked();
}

std::int64_t scavenger_tick(std::int64_t now) {
  const std::int64_t reap_again = reap_idle_ms(now);
  const bool look = period_is_over(now);
  if (look) {
    empty_cold_caches();
  }
  const bool cold = look && the_stacks.age();
  bool more = false;
  if (decide(now, cold) != scavenging::nothing && !start_helper(run_cycle)) {
    const scoped_lock held(state.lock);
    state.busy = false;
    more = true;
  }
  more = more || idle_stacks() >= kWorthTrimming;  // keeps SC1
  const scoped_lock held(state.lock);
  return more ? std::min(reap_again, state.next_period) : reap_again;
}

void watch_pressure_in(const char* tree) {
  const locked_section held;
  state.pressure.close();
  state.opened = false;
  state.next_look = 0;
  state.tree = tree == nullptr ? "" : tree;
  if (system_threads_begun()) {
    open_pressure_locked();
  }
}

std::uint64_t scavengings_done(scavenging how) {
  const locked_section held;
  return state.done[static_cast<std::size_t>(how)];
}

}  // namespace weft::rt
