// When the process exits, goroutines that compute or sit in a blocking call are stopped by a signal,
// wherever they are: their handler sleeps and does not come back.
//
// Such a goroutine may hold malloc's lock, stdio's, or one of the program's. If the exiting thread
// then blocks, perhaps for that very lock, a guardian lets the frozen ones go, one at a time and for a moment
// each, until the exiting thread moves again. sysmon is the guardian, or the spawner, whoever comes first: a thread that had
// to be created now might need a lock that one of those holds whom preemption has frozen before (preempt.cc). One of them may
// be kept, sysmon by a handler of the program's, perhaps the one that exits, the spawner by libc. To everybody else the frozen
// ones look like threads that the kernel has descheduled.
//
// The words by which they agree are in freeze_core.h, which a model compiles, too. What they do:
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
#include "os/clock.h"
#include "os/process.h"
#include "sched/freeze_core.h"
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

// Beyond the bound they run.
constexpr std::uint32_t kMaxStragglers = 4096;
constinit freeze_core<kMaxStragglers> freezing;
constinit long long cpu_time_when_listed[kMaxStragglers];

}  // namespace

bool somebody_is_outside() {
  const inside here;
  const scoped_lock held(sched.lock);
  return sched.robbed_ms != nullptr || sched.frozen_ms > 0;
}

bool freezing_for_exit() { return freezing.count() != 0; }

bool freeze_for_exit() {
  if (!freezing_for_exit()) {
    return false;
  }
  const int self = gettid();
  const std::uint32_t me = freezing.take_request(self);
  if (me == freezing.kNobody) {
    return false;
  }
  if (!crashing()) {
    freezing.hold(me, self);
  }
  return true;
}

namespace {

void add_straggler(int tid, bool asked) {
  cpu_time_when_listed[freezing.count()] = task_cpu_time(tid);
  freezing.list(tid, asked);
}

void list_straggler(int tid) {
  if (tid != 0 && tid != gettid() && freezing.count() < kMaxStragglers) {
    add_straggler(tid, false);
  }
}

// As if it had been asked to freeze here. False: there are too many.
bool list_frozen(int tid) {
  if (freezing.count() == kMaxStragglers) {
    return false;
  }
  add_straggler(tid, true);
  return true;
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
  const std::uint32_t to_signal = freezing.count();
  rouse_frozen_locked(list_frozen);  // they wait here instead, where the guardian can let them go
  return to_signal;
}

// A straggler while it is let go. Where the kernel does not tell its state, since there is no /proc, or no descriptor to read
// it by, it sleeps if it has used no processor since the last look; or a busy machine has passed it over.
class turn_watch {
 public:
  explicit turn_watch(std::uint32_t i)
      : entry_(i), began_(task_cpu_time(freezing.tid(i))), last_look_(began_) {}
  // It has used its share, waits for somebody else, or is gone.
  bool is_over(std::int64_t share) {
    if (freezing.frozen(entry_)) {
      return false;
    }
    const int tid = freezing.tid(entry_);
    const long long now = task_cpu_time(tid);
    const char state = task_state(tid);
    idle_looks_ = now == last_look_ ? idle_looks_ + 1 : 0;
    last_look_ = now;
    const bool idle = state == 0 && idle_looks_ > 1;
    return now < 0 || now - began_ >= share || is_asleep(state) || idle;
  }

 private:
  std::uint32_t entry_;
  long long began_, last_look_;
  int idle_looks_ = 0;
};

bool exiting_thread_is_stuck() {
  const int tid = freezing.exiting();
  const long long before = task_cpu_time(tid);
  timespec pause{0, kLook};
  nanosleep(&pause,
            nullptr);  // with all signals masked: a handler might exit, and nobody would guard
  const char state = task_state(tid);  // 0: unknown, as above
  return (is_asleep(state) || state == 0) && task_cpu_time(tid) == before;
}

// A turn of straggler i. True: the exiting thread has moved meanwhile. That ends the turn, but not before it has begun: the
// exiting thread may be one that naps, and moves by itself before a busy machine has given this one a processor.
bool give_turn(std::uint32_t i, std::int64_t share) {
  turn_watch turn(i);
  freezing.let_go(i);
  bool stuck = true;
  while (!turn.is_over(stuck ? share : kLeastShare)) {
    stuck = exiting_thread_is_stuck() && stuck;
  }
  freezing.stop_again(i);
  send_runtime_signal(freezing.tid(i));
  return !stuck;
}

// Somebody would freeze if the machine let it: it does not keep the signal back, and has not had a processor for long.
// (Whether it wants one now says nothing: it may wait for a page, or, emulated, for the emulator.)
bool somebody_lacks_time() {
  for (std::uint32_t i = 0; i < freezing.count(); ++i) {
    const int tid = freezing.tid(i);
    if (!freezing.frozen(i) && task_state(tid) != 0 && !task_blocks(tid, runtime_signal()) &&
        task_cpu_time(tid) - cpu_time_when_listed[i] < kPatience) {
      return true;
    }
  }
  return false;
}

void wait_until_frozen(std::uint32_t asked) {
  const std::int64_t began = nanotime();
  while (freezing.frozen_count() < asked && !crashing()) {
    const std::int64_t waited = nanotime() - began;
    if (waited >= kPatience && (waited >= kLongestPatience || !somebody_lacks_time())) {
      return;
    }
    sched_yield();
  }
}

// Waits until sysmon, or who stands in for it, has come to guard_exit_if_asked(). False: it does not.
bool guardian_is_there() {
  start_system_threads();  // nobody is frozen where there was no sysmon
  freezing.call_guardian(gettid());
  rouse_spawner();  // one of them comes: the other may be in a handler, or wait for libc
  wake_sysmon();
  const std::int64_t until = nanotime() + kGuardianComes;
  while (!freezing.guarded()) {
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
    const bool again = ++turn % 2 == 0 && helpful < freezing.count();
    const std::uint32_t i = again ? helpful : next++ % freezing.count();
    if (give_turn(i, share)) {
      helpful = i;
      share = kLook;
    } else if (next % freezing.count() == 0 && share < kLongestShare) {
      share *= 2;
    }
  }
}

}  // namespace

void guard_exit_if_asked() {
  if (freezing.take_guard()) {
    guard_exit();
  }
}

void freeze_stragglers() {
  const std::uint32_t to_signal = list_stragglers();
  if (freezing.count() == 0) {
    return;
  }
  spinners_nap.store(true, WEFT_ORDER(SP0, relaxed));  // order: relaxed, a hint to this thread
  // The guardian first. Without one a lock held by a frozen goroutine would hang the exit; then rather let
  // them run, those whom preemption has frozen, too. (What the guardian waits for may be theirs: it may come later.)
  if (!guardian_is_there()) {
    freezing.let_all_go();
    return;
  }
  std::uint32_t asked = freezing.count() - to_signal;
  for (std::uint32_t i = 0; i < to_signal; ++i) {
    freezing.ask(i);
    asked += send_runtime_signal(freezing.tid(i)) ? 1 : 0;  // or the thread is gone
  }
  wait_until_frozen(asked);
}

}  // namespace weft::rt
