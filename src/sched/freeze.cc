// When the process exits, goroutines that compute or sit in a blocking call are stopped by a signal,
// wherever they are: their handler sleeps and does not come back.
//
// Such a goroutine may hold malloc's lock, stdio's, or one of the program's. If the exiting thread
// then blocks, perhaps for that very lock, a guardian lets the frozen ones go, one at a time and for a moment
// each, until the exiting thread moves again. sysmon is the guardian: a thread that had to be created now
// might need a lock that one of those holds whom preemption has frozen before (preempt.cc). If it is sysmon itself that exits,
// in a handler of the program's, the spawner is: it is there, too. To everybody else they look like threads that the kernel
// has descheduled.
//
//   exiting thread                         straggler              guardian
//   1. guardian
//   2. signal to every straggler     ──►   handler: frozen
//   3. wait until all are frozen           sleep on `released`    every 2 ms: exiting thread asleep,
//   4. go on with exit()                                          and no CPU used since the last look?
//                                          released == my tid: ◄─ released = tid of the next one
//                                          return, run on         after its share: signal it again
//
// Whoever made the exiting thread move once has what that one needs, and perhaps has it again: it gets
// every other turn from then on. A share is 2 ms, and doubles with every round in vain, since most of
// a short turn goes into looking. By CPU time, because on a busy machine 2 ms may pass before it has left its handler: then nobody ever
// moves. For the same reason exit() waits longer for a straggler that gets no processor. A thread that
// reports a crash is not frozen, and exit() waits for it: it will end the process.
//
// The signal is preemption's, SIGURG as a rule. Ms run with it unblocked even if the program blocks
// all signals (boot.cc); a goroutine that blocks it itself runs on. Whether a signal is a request is
// said by a word per straggler, not by the signal: the kernel drops what a signal carries once too many
// are queued. It carries a cookie all the same, to tell a request that was met already from other
// people's signals, which go to the handler that was there before. All signals are masked in the
// handler but those that glibc keeps for itself, which sigfillset leaves out.
#include "sched/freeze.h"

#include <cerrno>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/futex.h"
#include "os/clock.h"
#include "os/process.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/sysmon.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kPatience = 50'000'000;            // ns until a straggler has to be frozen
constexpr std::int64_t kLongestPatience = 2'000'000'000;  // … if it gets no processor
constexpr std::int64_t kLook = 2'000'000;                 // ns between the guardian's looks
constexpr std::int64_t kLongestShare = 32'000'000;
constexpr std::int64_t kLeastShare = 200'000;  // more than it takes to leave a handler
constexpr std::int64_t kGuardianComes = 1'000'000'000;

constinit atomic<std::uint32_t> released{0};  // tid of the one that may go on
// Constant once the guardian runs. Beyond the bound they run.
constexpr std::uint32_t kMaxStragglers = 4096;
constinit int exiting_tid = 0;
struct straggler {
  int tid = 0;
  long long cpu_time = 0;           // it had used when it was listed
  atomic<std::uint32_t> wanted{0};  // asked to freeze, and has not yet
  atomic<std::uint32_t> frozen{0};  // in its handler

  bool is_frozen() const {
    return frozen.load(WEFT_ORDER(FZ0, relaxed)) != 0;  // order: relaxed, a flag to wait for
  }
};
constinit straggler stragglers[kMaxStragglers];
constinit atomic<std::uint32_t> straggler_total{0};

// For handlers and the guardian.
std::uint32_t straggler_count() {
  // order: FZ1 acquire: sees whom they are; pairs with add_straggler()
  return straggler_total.load(WEFT_ORDER(FZ1, acquire));
}
constexpr std::uint32_t kAsked = 1, kGuards = 2;
constinit atomic<std::uint32_t> guardian{0};

std::uint32_t frozen_now() {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < straggler_count(); ++i) {
    n += stragglers[i].is_frozen() ? 1 : 0;
  }
  return n;
}

// This thread's entry, if it is to freeze. Once per request.
straggler* take_request(std::uint32_t self) {
  for (std::uint32_t i = 0; i < straggler_count(); ++i) {
    straggler& s = stragglers[i];
    // order: relaxed, the word alone decides
    if (static_cast<std::uint32_t>(s.tid) == self &&
        s.wanted.exchange(0, WEFT_ORDER(FZ0, relaxed)) != 0) {
      return &s;
    }
  }
  return nullptr;
}

}  // namespace

bool somebody_is_outside() {
  const inside here;
  const scoped_lock held(sched.lock);
  return sched.robbed_ms != nullptr || sched.frozen_ms > 0;
}

bool freezing_for_exit() { return straggler_count() != 0; }

bool freeze_for_exit() {
  if (!freezing_for_exit()) {
    return false;
  }
  const auto self = static_cast<std::uint32_t>(gettid());
  straggler* me = take_request(self);
  if (me == nullptr || crashing()) {
    return me != nullptr;
  }
  me->frozen.store(1, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, a flag
  for (;;) {
    // order: relaxed; nothing is handed over, the word alone decides
    const std::uint32_t now = released.load(WEFT_ORDER(FZ0, relaxed));
    if (now == self) {
      break;
    }
    futex_wait(released, now);
  }
  me->frozen.store(0, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, a flag
  return true;
}

namespace {

// False: the thread is gone.
bool send_freeze(straggler& to) {
  to.wanted.store(1, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, the signal comes later
  return send_runtime_signal(to.tid);
}

void add_straggler(int tid, bool asked) {
  const std::uint32_t n = straggler_count();
  stragglers[n].tid = tid;
  stragglers[n].cpu_time = task_cpu_time(tid);
  // order: relaxed, published with the rest
  stragglers[n].wanted.store(asked ? 1 : 0, WEFT_ORDER(FZ0, relaxed));
  // order: FZ1 release publishes the entry; pairs with straggler_count()
  straggler_total.store(n + 1, WEFT_ORDER(FZ1, release));
}

void list_straggler(int tid) {
  if (tid != 0 && tid != exiting_tid && straggler_count() < kMaxStragglers) {
    add_straggler(tid, false);
  }
}

// Those that preemption has frozen in the user's code, as if they had been asked to freeze here: they wake
// and wait here instead, where the guardian can let them go.
void take_frozen_over() WEFT_REQUIRES(sched.lock) {
  for (M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) {
    if (!mp->frozen_outside || straggler_count() == kMaxStragglers) {
      continue;
    }
    add_straggler(mp->tid, true);
    if (mp->nextp == nullptr) {  // else it wakes by itself, and finds the gate closed
      mp->park.wake();
    }
  }
}

// Ms that still hold a P, or are in the user's code without one, and those that are frozen already. Listed
// before the first one is frozen: it may hold sched.lock. How many of them, the first, need a signal.
std::uint32_t list_stragglers() {
  const inside here;
  const scoped_lock held(sched.lock);
  for (M* mp = sched.robbed_ms; mp != nullptr; mp = mp->robbed_next) {
    list_straggler(mp->tid);
  }
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    // order: relaxed; Ps do not change hands any more, and those that were stopping have had time to
    const int tid = sched.p(i)->thread.load(WEFT_ORDER(PT0, relaxed));
    list_straggler(tid);
  }
  const std::uint32_t to_signal = straggler_count();
  take_frozen_over();
  return to_signal;
}

// It has used its share, or waits for somebody else.
bool had_its_turn(const straggler& s, long long began, std::int64_t share) {
  if (s.is_frozen()) {
    return false;
  }
  const char state = task_state(s.tid);
  return task_cpu_time(s.tid) - began >= share || state == 'S' || state == 'D' || state == 0;
}

bool exiting_thread_is_stuck() {
  const long long before = task_cpu_time(exiting_tid);
  timespec pause{0, kLook};
  nanosleep(&pause,
            nullptr);  // with all signals masked: a handler might exit, and nobody would guard
  const char state = task_state(exiting_tid);
  return (state == 'S' || state == 'D') && task_cpu_time(exiting_tid) == before;
}

// True: the exiting thread has moved meanwhile. That ends the turn, but not before it has begun: the exiting thread may be one
// that naps, and moves by itself before a busy machine has given the chosen one a processor.
bool let_go(straggler& chosen, std::int64_t share) {
  const long long began = task_cpu_time(chosen.tid);
  // order: relaxed, the word alone decides
  released.store(static_cast<std::uint32_t>(chosen.tid), WEFT_ORDER(FZ0, relaxed));
  futex_wake(released, kMaxStragglers);
  bool stuck = true;
  while (!had_its_turn(chosen, began, stuck ? share : kLeastShare)) {
    stuck = exiting_thread_is_stuck() && stuck;
  }
  released.store(0, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, as above
  send_freeze(chosen);
  return !stuck;
}

// Somebody would freeze if the machine let it: it does not keep the signal back, and has not had a processor for long.
// (Whether it wants one now says nothing: it may wait for a page, or, emulated, for the emulator.)
bool somebody_lacks_time() {
  for (std::uint32_t i = 0; i < straggler_count(); ++i) {
    const straggler& s = stragglers[i];
    if (!s.is_frozen() && task_state(s.tid) != 0 && !task_blocks(s.tid, runtime_signal()) &&
        task_cpu_time(s.tid) - s.cpu_time < kPatience) {
      return true;
    }
  }
  return false;
}

void wait_until_frozen(std::uint32_t asked) {
  const std::int64_t began = nanotime();
  while (frozen_now() < asked && !crashing()) {
    const std::int64_t waited = nanotime() - began;
    if (waited >= kPatience && (waited >= kLongestPatience || !somebody_lacks_time())) {
      return;
    }
    sched_yield();
  }
}

// Waits until sysmon, or who stands in for it, has come to guard_exit_if_asked(). False: it does not.
bool guardian_is_there() {
  // order: FZ1 release: it knows whom it guards; pairs with guard_exit_if_asked()
  guardian.store(kAsked, WEFT_ORDER(FZ1, release));
  rouse_spawner();  // one of them comes: the other may be in a handler, or wait for libc
  wake_sysmon();
  const std::int64_t until = nanotime() + kGuardianComes;
  // order: relaxed, as above
  while (guardian.load(WEFT_ORDER(FZ0, relaxed)) != kGuards) {
    if (nanotime() > until) {
      return false;
    }
    sched_yield();
  }
  return true;
}

[[noreturn]] void guard_exit() {
  std::uint32_t turn = 0;
  std::uint32_t next = 0;
  std::uint32_t helpful = kMaxStragglers;  // whoever made the exiting thread move last
  std::int64_t share = kLook;
  for (;;) {
    if (!exiting_thread_is_stuck()) {
      continue;
    }
    const bool again = ++turn % 2 == 0 && helpful < straggler_count();
    const std::uint32_t i = again ? helpful : next++ % straggler_count();
    if (let_go(stragglers[i], share)) {
      helpful = i;
      share = kLook;
    } else if (next % straggler_count() == 0 && share < kLongestShare) {
      share *= 2;
    }
  }
}

}  // namespace

void guard_exit_if_asked() {
  // order: relaxed, a look; who is asked looks again
  if (guardian.load(WEFT_ORDER(FZ0, relaxed)) != kAsked) {
    return;
  }
  std::uint32_t asked = kAsked;
  // order: FZ1 acquire, pairs with guardian_is_there(); one of the two who may be it
  if (guardian.compare_exchange_strong(asked, kGuards, WEFT_ORDER(FZ1, acquire),
                                       WEFT_ORDER(FZ0, relaxed))) {
    guard_exit();
  }
}

void freeze_stragglers() {
  exiting_tid = gettid();
  const std::uint32_t to_signal = list_stragglers();
  // The guardian first. Without one a lock held by a frozen goroutine would hang the exit; then rather let
  // them run.
  if (straggler_count() == 0 || !guardian_is_there()) {
    return;
  }
  spinners_nap.store(true, WEFT_ORDER(SP0, relaxed));  // order: relaxed, a hint to this thread
  std::uint32_t asked = straggler_count() - to_signal;
  for (std::uint32_t i = 0; i < to_signal; ++i) {
    asked += send_freeze(stragglers[i]) ? 1 : 0;
  }
  wait_until_frozen(asked);
}

}  // namespace weft::rt
