// See debug/stack_overflow.h.
#include "debug/stack_overflow.h"

#include <csignal>
#include <cstdint>
#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/at_start.h"
#include "base/fatal.h"
#include "base/print.h"
#include "base/readable.h"
#include "debug/capture.h"
#include "debug/crash_stack.h"
#include "debug/dump.h"
#include "debug/frame.h"
#include "debug/traceback.h"
#include "fiber/stack.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

WEFT_SET_AT_START struct sigaction previous_segv;  // constant after start-up
WEFT_SET_AT_START struct sigaction previous_bus;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

bool overflows(const stack& s, std::uintptr_t fault, std::uintptr_t sp) {
  const std::uintptr_t lo = address(s.lo);
  const std::uintptr_t end = lo - stack_guard_bytes();
  const bool in_guard = fault < lo && fault >= end;
  const bool below = sp < lo && sp >= end;
  return s && (in_guard || below);
}

struct fault_report {
  const G& gp;
  const frame& innermost;
  crash_turn turn;
  int signal;
  const siginfo_t& info;
};

// The stacks, if they are wanted and can be had.
bool print_stacks(printer& out, const fault_report& f) {
  const traceback_level level = current_traceback_level();
  if (f.turn != crash_turn::report || level.show == traceback_level::detail::none) {
    return false;
  }
  freeze_for_crash();
  out.chr('\n');
  crash_dump.begin(out, level.show);
  crash_dump.print_running(f.gp, f.innermost);
  crash_dump.print_others();
  return true;
}

// On the crash stack: a stack for handlers that the program has made may be small.
void print_overflow(void* arg) {
  const auto& f = *static_cast<const fault_report*>(arg);
  const auto& [gp, innermost, turn, signal, info] = f;
  printer out;
  out.str("runtime: goroutine stack exceeds ").udec(gp.stk.size()).str("-byte limit\n");
  out.str("runtime: sp=").hex(innermost.sp()).str(" stack=[").hex(address(gp.stk.lo));
  out.str(", ").hex(address(gp.stk.hi)).str("]\nfatal error: stack overflow\n");
  out.flush();
  if (print_stacks(out, f)) {
    out.str("\nruntime: weft::attrs{.stack_size = BYTES} gives a goroutine a larger stack; ");
    out.str("large objects belong on the heap\n");
    print_stripped_files(out);
  }
}

// The same for any other fault. Go: runtime/signal_unix.go sighandler
void print_fault(void* arg) {
  const auto& f = *static_cast<const fault_report*>(arg);
  printer out;
  out.str(f.signal == SIGSEGV ? "SIGSEGV: segmentation violation" : "SIGBUS: bus error");
  out.str("\nPC=").hex(f.innermost.pc).str(" sigcode=").dec(f.info.si_code);
  out.str(" addr=").hex(address(f.info.si_addr)).chr('\n');
  out.flush();
  if (print_stacks(out, f)) {
    print_stripped_files(out);
  }
}

// Of a thread of the runtime, outside of any goroutine: is what it wanted close to its stack pointer? There is memory
// as long as there is stack. How large that is only libc knows, which a handler cannot ask.
bool thread_overflows(std::uintptr_t fault, std::uintptr_t sp) {
  constexpr std::uintptr_t kNear = 64 * 1024;
  return fault < sp + kNear && sp < fault + kNear;
}

struct thread_report {
  const M& mp;
  const frame& innermost;
  crash_turn turn;
};

void print_thread_overflow(void* arg) {
  const auto& [mp, innermost, turn] = *static_cast<const thread_report*>(arg);
  printer out;
  out.str("runtime: the stack of a thread is used up: m=").udec(mp.id).str(" tid=").dec(mp.tid);
  out.str(" sp=").hex(innermost.sp()).str("\nfatal error: stack overflow outside of goroutines\n");
  out.flush();
  const traceback_level level = current_traceback_level();
  if (turn != crash_turn::report || level.show == traceback_level::detail::none) return;
  freeze_for_crash();
  out.chr('\n');
  crash_dump.begin(out, traceback_level::detail::system);
  crash_dump.print_thread(&mp, "idle", innermost);
  crash_dump.print_others();
  print_stripped_files(out);
}

// While the report is on the crash stack the kernel takes the stack for handlers for free, and would
// begin the next handler over our frames. So there is none: not even for a fault, which ends the
// process then, as it should.
void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void report(const G& gp, const frame& innermost, int signal, const siginfo_t& info,
            void (*print)(void*)) {
  block_all_signals();
  fault_report what{gp, innermost, begin_crash(), signal, info};
  on_crash_stack(what.turn == crash_turn::report ? &gp : static_cast<const G*>(nullptr), print,
                 &what);
}

void report(const M& mp, const frame& innermost) {
  block_all_signals();
  thread_report what{mp, innermost, begin_crash()};
  on_crash_stack(what.turn == crash_turn::report ? &mp : static_cast<const M*>(nullptr),
                 print_thread_overflow, &what);
}

// What the kernel does before it calls a handler.
void as_for(const struct sigaction& handler, int signal) {
  pthread_sigmask(SIG_BLOCK, &handler.sa_mask, nullptr);
  if ((handler.sa_flags & SA_NODEFER) != 0 && sigismember(&handler.sa_mask, signal) == 0) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  if ((handler.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    std::signal(signal, SIG_DFL);
  }
}

const struct sigaction& previous(int signal) {
  return signal == SIGSEGV ? previous_segv : previous_bus;
}

bool nobody_handled(int signal) {
  return previous(signal).sa_handler == SIG_DFL || previous(signal).sa_handler == SIG_IGN;
}

// As if weft did not exist.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction before = previous(signal);
  if (!nobody_handled(signal)) {
    as_for(before, signal);
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(signal, info, context);
    } else {
      before.sa_handler(signal);
    }
    return;
  }
  if (before.sa_handler == SIG_IGN && info->si_code <= 0) {
    return;  // sent by somebody, and ignored
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  if (info->si_code <= 0) {
    raise(signal);  // a fault comes again by itself
  }
}

// After a report. The world stands still by now, so the process ends even if the fault does not come again, as the page
// has come back meanwhile.
void die_of(int signal, siginfo_t* info, void* context) {
  pass_on(signal, info, context);
  if (readable(address(info->si_addr), 1)) {
    raise(signal);
  }
}

// Not instrumented: of the M, on whose thread the goroutine is that has been interrupted.
WEFT_NO_TSAN bool is_on_its_thread(const M* mp) { return mp->tid == gettid(); }

// Runs on: signal, on the thread's own stack for handlers.
void on_fault(int signal, siginfo_t* info, void* context) {
  const M* mp = current_m();
  // A child of vfork() or fork() has the M's memory, but is not its thread, and dies alone.
  if (mp == nullptr || !is_on_its_thread(mp) || info->si_code <= 0) {
    pass_on(signal, info, context);
    return;
  }
  const G* gp = current_goroutine();
  const frame innermost = interrupted_frame(*static_cast<const ucontext_t*>(context));
  if (gp != nullptr && overflows(gp->stk, address(info->si_addr), innermost.sp())) {
    report(*gp, innermost, signal, *info, print_overflow);
    end_crash();  // on our own stack: the next reporter has the crash stack by now
  }
  if (gp != nullptr && nobody_handled(signal)) {
    report(*gp, innermost, signal, *info, print_fault);
    die_of(signal, info, context);
  } else if (gp == nullptr && signal == SIGSEGV && nobody_handled(signal) &&
             thread_overflows(address(info->si_addr), innermost.sp())) {
    report(*mp, innermost);
    die_of(signal, info, context);
  } else {
    pass_on(signal, info, context);
  }
}

}  // namespace

WEFT_RUNS_AT_START void report_stack_overflows() noexcept {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, nullptr, &previous_segv);  // before a fault can ask for it
  sigaction(SIGBUS, nullptr, &previous_bus);
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace weft::rt
