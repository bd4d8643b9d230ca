// When the process exits, goroutines that compute or sit in a blocking call are stopped by a signal,
// wherever they are: their handler sleeps and does not come back.
//
// Such a goroutine may hold malloc's lock, stdio's, or one of the program's. If the exiting thread
// then blocks, perhaps for that very lock, a guardian thread lets the frozen ones go, one at a time
// and for a moment each, until the exiting thread moves again. To everybody else they look like
// threads that the kernel has descheduled.
//
//   exiting thread                         straggler              guardian
//   1. handler, guardian
//   2. signal to every straggler     ──►   handler: frozen
//   3. wait until all are frozen           sleep on `released`    every 2 ms: exiting thread asleep,
//   4. go on with exit()                                          and no CPU used since the last look?
//                                          released == my tid: ◄─ released = tid of the next one
//                                          return, run on         after its share: signal it again
//
// Whoever made the exiting thread move once has what that one needs, and perhaps has it again: it gets
// every other turn from then on. A share is 2 ms, and doubles with every round in vain, since most of
// a short turn goes into looking. By CPU time, because on a busy machine 2 ms may pass before it has left its handler: then nobody ever
// moves. A thread that reports a crash is not frozen, and exit() waits for it: it will end the process.
//
// The signal is SIGURG, which is ignored by default. Ms run with it unblocked even if the program blocks
// all signals (boot.cc); a goroutine that blocks it itself runs on. Whether a SIGURG is a request is
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
#include "os/thread.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

constexpr int kFreezeSignal = SIGURG;
constexpr std::int64_t kPatience = 50'000'000;  // ns until a straggler has to be frozen
constexpr std::int64_t kLook = 2'000'000;       // ns between the guardian's looks
constexpr std::int64_t kLongestShare = 32'000'000;

constinit atomic<std::uint32_t> released{0};  // tid of the one that may go on
// Constant once the guardian runs. More stragglers than Ps there cannot be; beyond the bound they run.
constexpr std::uint32_t kMaxStragglers = 1024;
constinit int exiting_tid = 0;
struct straggler {
  int tid = 0;
  atomic<std::uint32_t> wanted{0};  // asked to freeze, and has not yet
  atomic<std::uint32_t> frozen{0};  // in its handler

  bool is_frozen() const {
    return frozen.load(WEFT_ORDER(FZ0, relaxed)) != 0;  // order: relaxed, a flag to wait for
  }
};
constinit straggler stragglers[kMaxStragglers];
constinit std::uint32_t straggler_count = 0;
constinit std::int32_t guardian_count = 0;  // the exiting thread's own
constinit struct sigaction previous {};

std::uint32_t frozen_now() {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < straggler_count; ++i) {
    n += stragglers[i].is_frozen() ? 1 : 0;
  }
  return n;
}

void chain(int signal, siginfo_t* info, void* context) {
  if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    return;  // whatever the flags say
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

bool carries_cookie(const siginfo_t* info) {
  return info->si_code == SI_QUEUE && info->si_value.sival_ptr == &released;
}

// This thread's entry, if it is to freeze. Once per request.
straggler* take_request(std::uint32_t self) {
  for (std::uint32_t i = 0; i < straggler_count; ++i) {
    straggler& s = stragglers[i];
    // order: relaxed, the word alone decides
    if (static_cast<std::uint32_t>(s.tid) == self &&
        s.wanted.exchange(0, WEFT_ORDER(FZ0, relaxed)) != 0) {
      return &s;
    }
  }
  return nullptr;
}

// Runs on: signal. On the straggler's own stack.
void freeze_here(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto self = static_cast<std::uint32_t>(gettid());
  straggler* me = take_request(self);
  if (me == nullptr || crashing()) {
    if (me == nullptr && !carries_cookie(info)) {
      chain(signal, info, context);
    }
    errno = saved_errno;
    return;
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
  errno = saved_errno;
}

// False: the thread is gone.
bool send_freeze(straggler& to) {
  siginfo_t info{};
  info.si_signo = kFreezeSignal;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = &released;
  to.wanted.store(1, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, the signal comes later
  return syscall(SYS_rt_tgsigqueueinfo, getpid(), to.tid, kFreezeSignal, &info) == 0 ||
         syscall(SYS_tgkill, getpid(), to.tid, kFreezeSignal) ==
             0;  // some sandboxes have only this
}

// Ms that still hold a P. Listed before the first one is frozen: it may hold sched.lock.
void list_stragglers() {
  const scoped_lock held(sched.lock);
  for (std::int32_t i = 0; i < sched.proc_count() && straggler_count < kMaxStragglers; ++i) {
    // order: relaxed; Ps do not change hands any more, and those that were stopping have had time to
    const int tid = sched.p(i)->thread.load(WEFT_ORDER(PT0, relaxed));
    if (tid != 0 && tid != exiting_tid) {
      stragglers[straggler_count++].tid = tid;
    }
  }
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
  nanosleep(&pause, nullptr);
  const char state = task_state(exiting_tid);
  return (state == 'S' || state == 'D') && task_cpu_time(exiting_tid) == before;
}

// True: the exiting thread has moved meanwhile.
bool let_go(straggler& chosen, std::int64_t share) {
  const long long began = task_cpu_time(chosen.tid);
  // order: relaxed, the word alone decides
  released.store(static_cast<std::uint32_t>(chosen.tid), WEFT_ORDER(FZ0, relaxed));
  futex_wake(released, kMaxStragglers);
  bool stuck = true;
  while (!had_its_turn(chosen, began, share) && stuck) {
    stuck = exiting_thread_is_stuck();
  }
  released.store(0, WEFT_ORDER(FZ0, relaxed));  // order: relaxed, as above
  send_freeze(chosen);
  return !stuck;
}

void* guard_exit(void*) {
  std::uint32_t turn = 0;
  std::uint32_t next = 0;
  std::uint32_t helpful = kMaxStragglers;  // whoever made the exiting thread move last
  std::int64_t share = kLook;
  for (;;) {
    if (!exiting_thread_is_stuck()) {
      continue;
    }
    const bool again = ++turn % 2 == 0 && helpful < straggler_count;
    const std::uint32_t i = again ? helpful : next++ % straggler_count;
    if (let_go(stragglers[i], share)) {
      helpful = i;
      share = kLook;
    } else if (next % straggler_count == 0 && share < kLongestShare) {
      share *= 2;
    }
  }
}

}  // namespace

std::int32_t guardians() { return guardian_count; }

void freeze_stragglers() {
  exiting_tid = gettid();
  list_stragglers();
  struct sigaction action {};
  action.sa_sigaction = freeze_here;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  if (straggler_count == 0 || sigaction(kFreezeSignal, &action, &previous) != 0) {
    return;
  }
  // The guardian first: creating a thread takes libc's locks. Without one a lock held by a frozen
  // goroutine would hang the exit; then rather let them run.
  if (create_thread(guard_exit, nullptr) != 0) {
    return;
  }
  guardian_count = 1;
  spinners_nap.store(true, WEFT_ORDER(SP0, relaxed));  // order: relaxed, a hint to this thread
  std::uint32_t asked = 0;
  for (std::uint32_t i = 0; i < straggler_count; ++i) {
    asked += send_freeze(stragglers[i]) ? 1 : 0;
  }
  const std::int64_t until = nanotime() + kPatience;
  while (frozen_now() < asked && !crashing() && nanotime() < until) {
    sched_yield();
  }
}

}  // namespace weft::rt
