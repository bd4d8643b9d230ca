// The signal by which a goroutine is frozen (preempt.cc), and by which exit() stops who still runs (freeze.cc).
//
// SIGURG, which is ignored by default. It carries a cookie, to tell it from other people's; those go to the handler
// that was there before. But whether there is a request is said by a word of the M, for the kernel drops
// what signals carry when too many are queued, and merges them.
//
// The handler runs on the M's stack for handlers, with all signals masked but glibc's own, and calls nothing but
// futex(2) and the like.
#include <cerrno>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/at_start.h"
#include "base/debug_vars.h"
#include "base/lock_rank.h"
#include "base/print.h"
#include "os/clock.h"
#include "os/process.h"
#include "sched/freeze.h"
#include "sched/preempt.h"
#include "sched/restart.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

constinit int the_signal = SIGURG;  // constant after boot
WEFT_SET_AT_START constinit struct sigaction previous {};
constinit char cookie = 0;                 // its address
constinit atomic<bool> no_cookies{false};  // some sandboxes have only tgkill(2)

// What a signal carries may be lost, where a request is known to be on its way: the kernel drops it when too many are
// queued.
bool ours(const siginfo_t* info, bool request) {
  const bool lost = (info->si_code == SI_USER && info->si_pid == 0) ||
                    (info->si_code == SI_TKILL && info->si_pid == getpid() &&
                     no_cookies.load(WEFT_ORDER(SG0, relaxed)));  // order: relaxed, a flag
  return (info->si_code == SI_QUEUE && info->si_value.sival_ptr == &cookie) || (request && lost);
}

// Which a program can spare, and whose sender does not count on what the system does about it.
bool can_be_ours(int signal) {
  switch (signal) {
    case SIGURG:
    case SIGUSR1:
    case SIGUSR2:
    case SIGWINCH:
    case SIGIO: return true;
    default: return signal >= SIGRTMIN && signal <= SIGRTMAX;
  }
}

// As if weft were not there: it may end the process, once the handler has returned.
void leave_to_the_system(int signal) {
  if (signal != SIGURG && signal != SIGWINCH) {
    sigaction(signal, &previous, nullptr);
    syscall(SYS_tgkill, getpid(), gettid(), signal);
  }
}

void pass_signal_on(int signal, siginfo_t* info, void* context) {
  if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {  // whatever the flags say
    if (previous.sa_handler == SIG_DFL) leave_to_the_system(signal);
    return;
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
}

// Runs on: signal. Not instrumented, as give_way().
WEFT_NO_TSAN void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (freeze_for_exit()) {
    errno = saved_errno;
    return;
  }
  M* mp = current_m();
  const bool mine = mp != nullptr && mp->tid == gettid();  // not so in a vfork child
  const bool request = mine && take_request(mp);           // first: the next call may not return
  const bool from_us = ours(info, request);
  if (!from_us) {
    pass_signal_on(signal, info, context);
  }
  tsan_ignore_begin();  // what is called writes to the goroutine's stack, as the kernel would
  const std::int64_t began = nanotime();
  if (request) {
    mp->interrupted = context;
    obey_request(mp);
    mp->interrupted = nullptr;
  }
  if (from_us && (mp == nullptr || (mine && mp->border.outside()))) {
    resume_interrupted_call(signal, context, nanotime() - began);
  }
  tsan_ignore_end();
  errno = saved_errno;
}

}  // namespace

bool send_runtime_signal(int tid) noexcept {
  if (tid <= 0) {
    return false;  // it has just left its M
  }
  siginfo_t info{};
  info.si_signo = the_signal;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = &cookie;
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, the_signal, &info) == 0) {
    return true;
  }
  if (errno != ESRCH && errno != EAGAIN) {
    no_cookies.store(true, WEFT_ORDER(SG0, relaxed));  // order: relaxed, a flag
  }
  return syscall(SYS_tgkill, getpid(), tid, the_signal) == 0;
}

int runtime_signal() noexcept { return the_signal; }

WEFT_RUNS_AT_START void choose_signal() noexcept {
  const int wish = debug_vars.preemptsignal;
  if (wish == 0) return;
  if (can_be_ours(wish)) {
    the_signal = wish;
    return;
  }
  printer out;
  out.str(
      "runtime: WEFTDEBUG key preemptsignal takes SIGURG, SIGUSR1, SIGUSR2, SIGWINCH, SIGIO or ");
  out.dec(SIGRTMIN).str(" to ").dec(SIGRTMAX).str(", not ").dec(wish).str(": SIGURG is used\n");
}

WEFT_RUNS_AT_START void install_preemption() noexcept {
#ifdef WEFT_LOCK_RANK
  set_frozen_check([] {
    const M* mp = current_m();
    return mp != nullptr && mp->border.outside();
  });
#endif
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);                // but for those that glibc keeps for itself
  sigaction(the_signal, nullptr, &previous);  // before the first one can ask for it
  sigaction(the_signal, &action, nullptr);
}

}  // namespace weft::rt
