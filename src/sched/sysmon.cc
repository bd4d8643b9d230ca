// sysmon: a thread without a P that looks after those who have one.
//
// It takes Ps from goroutines that block without saying so, and from those that compute while others
// wait (retake.cc). That is all it decides; it runs no goroutine and fires no timer. It never waits for
// anybody but for an instant at sched.lock, and calls nothing that takes a lock of libc: one of the frozen
// goroutines might hold it (preempt.cc, PE2).
//
// How it sleeps
//   somebody waits, and no P is idle     20 us to 1 ms, as retake() says; 2 ms if only those wait who were
//                                        frozen before, unless somebody else makes work visible
//   Ps switch often, and by themselves   2 ms
//   nobody waits                         until the next timer that no M sleeps for, 10 ms at most; whoever makes
//                                        work visible, or starts an earlier timer, and finds no idle P wakes it
//   … but some have lost their Ps in     1 to 10 ms (robbed.cc), likewise
//   calls, and too few Ps are idle
//   every P is idle, for a while         until a P is taken from the idle list. As many as there are Ps may be
//                                        in calls that block: should all of them compute, no Ps are
//                                        taken away from anybody
//
// Whoever makes work visible while it sleeps for long wakes it: gmp/long_sleep.h.
//
// Signals that are sent to the process are for any thread that does not mask them. Those that are frozen mask all of them
// (preempt_signal.cc), and so may the main thread: sysmon takes what nobody else takes. But only where it sleeps, and holds
// nothing: the program's handler may do there what it may do anywhere. It may even call exit(), which is one thing for
// which handlers are used; then the spawner is the guardian (freeze.cc).
// Rejected: masks that are open all the time. A handler might find sched.lock held by its own thread.
//
// Go: runtime/proc.go sysmon [SM-1], [SM-2]
#include "sched/sysmon.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include "base/at_start.h"
#include "base/debug_vars.h"
#include "os/clock.h"
#include "os/test_hooks.h"
#include "os/thread.h"
#include "sched/diagnostics.h"
#include "sched/foreign.h"
#include "sched/freeze.h"
#include "sched/max_procs.h"
#include "sched/netpoll.h"
#include "sched/scavenger.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"

namespace weft::rt {

constinit long_sleep sysmon_rest{long_sleep::kAsleep};  // until there is a thread for it

namespace {

constexpr std::int64_t kShort = 1'000'000;           // below, nobody needs to wake it
constexpr std::int64_t kScavenging = 1'000'000'000;  // ns
constexpr int kIdleRounds = 5;  // of the longest sleep, before it sleeps for good

// … and those without a P are few enough to be left alone, whatever they do. keeps gomaxprocs a bound
bool all_idle() WEFT_REQUIRES(sched.lock) {
  return sched.idle.idle() == sched.proc_count() && sched.robbed_count <= sched.proc_count();
}

constinit sigset_t open_mask{};  // sysmon's own, constant once it runs

// As user code runs with on Ms. But what its own output brings about is not the program's affair, which could not know
// that the process writes.
void choose_mask() {
  open_mask = sched.initial_mask;
  if (debug_vars.schedtrace != 0) {
    sigaddset(&open_mask, SIGPIPE);
    sigaddset(&open_mask, SIGXFSZ);
  }
}

// Until somebody takes a P, or `until`. False: it must go on looking.
bool sleep_deep(std::int64_t until) {
  {
    const scoped_lock held(sched.lock);
    if (!all_idle() || sched.gate.closed()) {
      return false;
    }
    sysmon_rest.begin();  // whoever takes a P does so under this lock
  }
  {
    const signals_let_in here;
    if (until == kNever) {
      sysmon_rest.sleep();
    } else {
      sysmon_rest.sleep_until(until);
    }
  }
  sysmon_rest.end();
  return true;
}

void sleep_until_work(std::int64_t ns) {
  sysmon_rest.begin();
  const std::int64_t now = nanotime();
  if (!somebody_waits(now)) {
    // One that was started meanwhile, but not before it would have been looked at again.
    const std::int64_t timer = std::max(timer_for_sysmon(), now + kShort);
    const signals_let_in here;
    sysmon_rest.sleep_until(std::min(now + ns, timer));
  }
  sysmon_rest.end();
}

WEFT_SET_AT_START constinit atomic<int> sysmon_tid{0};  // whoever exits asks for it

void* sysmon_main(void*) {
  sysmon_tid.store(gettid(), WEFT_ORDER(SY0, relaxed));  // order: relaxed, for itself
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);          // ns
  ask_for_short_slices(
      true);            // or it may have to wait until the slice of one that computes is over
  watch_thread_exit();  // a handler may call exit() here. Nobody is frozen yet who could hold malloc's lock
  choose_mask();
  sysmon_rest.end();
  int idle_rounds = 0;
  bool just_woken = false;
  std::int64_t next_scavenging =
      nanotime() + kScavenging;  // there is nothing to return at the beginning
  for (;;) {
    guard_exit_if_asked();
    const std::int64_t now = nanotime();
    note_time(now);
    netpoll_backstop(now);  // [SM-5]
    // What is due once in a while does not get in the way of those for whom it was woken.
    if (!just_woken) {
      update_default_procs(now);
      schedtrace_tick(now);
    }
    if (!just_woken && now >= next_scavenging) {
      scavenger_tick(now);
      next_scavenging = now + kScavenging;
    }
    const bool first_look = std::exchange(just_woken, false);
    const auto [pause, firm] = retake(now);
    if (pause < kShort || firm) {
      idle_rounds = 0;
      sleep_open(pause);
      continue;
    }
    // Not at once again: where a P is taken for a moment at a time, it would be woken each time.
    const bool quiet = !first_look && debug_vars.schedtrace == 0 &&
                       sched.idle.idle() == sched.proc_count() && ++idle_rounds > kIdleRounds;
    // What is left to do: otherwise it would stay.
    if (quiet) {
      update_default_procs(now);
      just_woken = sleep_deep(scavenger_tick(now));
    }
    if (!just_woken) {
      sleep_until_work(pause < kLongestLook ? pause : kLongestLook);
    }
  }
}

}  // namespace

signals_let_in::signals_let_in() noexcept { pthread_sigmask(SIG_SETMASK, &open_mask, nullptr); }

signals_let_in::~signals_let_in() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  handler_is_over();
}

void sleep_open(std::int64_t ns) noexcept {
  const std::int64_t until = nanotime() + ns;
  const timespec when{static_cast<time_t>(until / 1'000'000'000),
                      static_cast<long>(until % 1'000'000'000)};
  const signals_let_in here;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

void wake_sysmon_slow() noexcept {
  start_system_threads();
  sysmon_rest.wake();
}

void start_sysmon() { create_or_die(sysmon_main, nullptr); }

bool is_sysmon() noexcept {
  return sysmon_tid.load(WEFT_ORDER(SY0, relaxed)) == gettid();  // order: relaxed, its own store
}

}  // namespace weft::rt
