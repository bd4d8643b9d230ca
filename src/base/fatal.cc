// The turns of crashing threads and the text of fatal errors; protocol in base/fatal.h and
// base/crash_queue.h.
//
// A waiting crasher polls instead of sleeping on a futex: the reporter may die half-way, and then
// there is nobody to wake it. A millisecond is nothing to a process that is ending.
#include "base/fatal.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/crash_queue.h"
#include "base/print.h"

namespace weft::rt {

namespace {

constexpr int kCrashStatus = 2;
constexpr int kNoStackTraceStatus = 4;
constexpr int kHopelessStatus = 5;
constexpr int kLatecomerMilliseconds = 2000;  // how long queued crashers get for their reports

constinit crash_queue queue;

// Set at start-up, read by whoever crashes. One word each, so that no reader sees half a hook.
atomic<void (*)()> freeze_hook{nullptr};
atomic<void (*)(printer&, fault)> dump_hook{nullptr};
atomic<bool> core_wanted{false};

template <class Hook>
void set_hook(atomic<Hook>& hook, Hook value) {
  // order: CR1 publishes whatever the hook's code relies on; pairs with the acquire in get_hook.
  if (value != nullptr) hook.store(value, WEFT_ORDER(CR1, release));
}

template <class Hook>
Hook get_hook(const atomic<Hook>& hook) {
  return hook.load(WEFT_ORDER(CR1, acquire));  // order: CR1 pairs with set_hook
}

int this_thread_id() { return static_cast<int>(::syscall(SYS_gettid)); }

// Sanitizers put themselves in front of _exit(), flush buffers and may wait for other threads.
[[noreturn]] void exit_now(int status) {
  ::syscall(SYS_exit_group, status);
  __builtin_trap();
}

void sleep_a_millisecond() {
  const timespec pause{0, 1'000'000};
  ::nanosleep(&pause, nullptr);
}

// The reporter failed while it was reporting.
crash_turn begin_again() {
  printer out;
  switch (queue.begin_again()) {
    case 2: out.str("panic during panic\n"); return crash_turn::minimal;
    case 3:
      out.str("stack trace unavailable\n");
      out.flush();
      exit_now(kNoStackTraceStatus);
    default: exit_now(kHopelessStatus);
  }
}

[[noreturn]] void leave() {
  if (core_wanted.load(WEFT_ORDER(CR4, relaxed))) {  // order: CR4 a lone flag, set at start-up
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGABRT, &standard, nullptr);
    sigset_t only_abort;
    sigemptyset(&only_abort);
    sigaddset(&only_abort, SIGABRT);
    // Straight to the kernel: pthread_kill and raise may wait for a lock of the thread list.
    ::syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &only_abort, nullptr, sizeof(unsigned long));
    ::syscall(SYS_tgkill, ::getpid(), this_thread_id(), SIGABRT);
  }
  exit_now(kCrashStatus);
}

[[noreturn]] void fatal_with_place(const char* message, const char* file, int line, fault whose) {
  const crash_turn turn = begin_crash();
  printer out;
  out.str("fatal error: ").indented(message);
  if (file != nullptr) out.str(" (").str(file).chr(':').dec(line).chr(')');
  out.str("\n");
  out.flush();
  if (turn == crash_turn::report) {
    freeze_for_crash();
    if (auto dump = get_hook(dump_hook); dump != nullptr) {
      out.str("\n");
      dump(out, whose);
      out.flush();
    }
  }
  end_crash();
}

}  // namespace

crash_turn begin_crash() noexcept {
  const int self = this_thread_id();
  if (queue.reports(self)) return begin_again();
  queue.join();
  while (!queue.try_begin(self)) sleep_a_millisecond();
  return crash_turn::report;
}

void freeze_for_crash() noexcept {
  if (auto freeze = get_hook(freeze_hook); freeze != nullptr) freeze();
}

void end_crash() noexcept {
  if (queue.end()) {
    // The last of them exits the process. One that was frozen in the queue never will.
    for (int i = 0; i < kLatecomerMilliseconds; ++i) sleep_a_millisecond();
  }
  leave();
}

bool crashing() noexcept { return queue.any(); }

bool reports_crash() noexcept { return queue.reports(this_thread_id()); }

void wait_for_crash() noexcept {
  while (crashing()) sleep_a_millisecond();
}

void fatal(const char* message) noexcept { fatal_with_place(message, nullptr, 0, fault::runtime); }

void fatal(const char* message, fault whose) noexcept {
  fatal_with_place(message, nullptr, 0, whose);
}

void fatal_check(const char* text, const char* file, int line) noexcept {
  fatal_with_place(text, file, line, fault::runtime);
}

void set_crash_hooks(const crash_hooks& hooks) noexcept {
  set_hook(freeze_hook, hooks.freeze_world);
  set_hook(dump_hook, hooks.dump);
}

void set_crash_with_core(bool enabled) noexcept {
  core_wanted.store(enabled, WEFT_ORDER(CR4, relaxed));  // order: CR4 a lone flag
}

}  // namespace weft::rt
