// See debug/stack_overflow.h.
#include "debug/stack_overflow.h"

#include <csignal>
#include <cstdint>
#include <pthread.h>
#include <ucontext.h>

#include "base/fatal.h"
#include "base/print.h"
#include "debug/crash_stack.h"
#include "debug/dump.h"
#include "debug/frame.h"
#include "debug/traceback.h"
#include "fiber/guard.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

struct sigaction previous_segv;  // constant after start-up
struct sigaction previous_bus;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// The activation that a signal has interrupted.
frame interrupted_frame(const ucontext_t& at) {
  frame f;
  f.exact = true;
#if defined(__x86_64__)
  constexpr int kInDwarfOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                   REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15};
  int n = 0;
  for (const int reg : kInDwarfOrder) {
    f.set(n++, static_cast<std::uintptr_t>(at.uc_mcontext.gregs[reg]));
  }
  f.pc = static_cast<std::uintptr_t>(at.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  for (int n = 0; n < kStackRegister; ++n) {
    f.set(n, at.uc_mcontext.regs[n]);
  }
  f.set(kStackRegister, at.uc_mcontext.sp);
  f.pc = at.uc_mcontext.pc;
#endif
  return f;
}

bool overflows(const stack& s, std::uintptr_t fault, std::uintptr_t sp) {
  const std::uintptr_t lo = address(s.lo);
  const bool in_guard = fault < lo && fault >= lo - kGuardBytes;
  const bool below = sp < lo && sp >= lo - kGuardBytes;
  return s && (in_guard || below);
}

struct overflow {
  const G& gp;
  const frame& innermost;
  crash_turn turn;
};

// On the crash stack: a stack for handlers that the program has made may be small.
void report_and_end(void* arg) {
  const auto& [gp, innermost, turn] = *static_cast<const overflow*>(arg);
  {
    printer out;
    out.str("runtime: goroutine stack exceeds ").udec(gp.stk.size()).str("-byte limit\n");
    out.str("runtime: sp=").hex(innermost.sp()).str(" stack=[").hex(address(gp.stk.lo));
    out.str(", ").hex(address(gp.stk.hi)).str("]\nfatal error: stack overflow\n");
    out.flush();
    const traceback_level level = current_traceback_level();
    if (turn == crash_turn::report && level.show != traceback_level::detail::none) {
      freeze_for_crash();
      out.chr('\n');
      print_running_goroutine(out, gp, innermost, level.show);
      print_other_goroutines(out, &gp, level.show, true);
    }
  }
  end_crash();
}

[[noreturn]] void report(const G& gp, const frame& innermost) {
  overflow what{gp, innermost, begin_crash()};
  on_crash_stack(what.turn == crash_turn::report ? &gp : nullptr, report_and_end, &what);
  __builtin_trap();
}

// What the kernel does before it calls a handler.
void as_for(const struct sigaction& handler, int signal) {
  pthread_sigmask(SIG_BLOCK, &handler.sa_mask, nullptr);
  if ((handler.sa_flags & SA_NODEFER) != 0) {
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  if ((handler.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    std::signal(signal, SIG_DFL);
  }
}

// As if weft did not exist.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction before = signal == SIGSEGV ? previous_segv : previous_bus;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    as_for(before, signal);
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
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

// Runs on: signal, on the thread's own stack for handlers.
void on_fault(int signal, siginfo_t* info, void* context) {
  const G* gp = current_goroutine();
  if (gp != nullptr && info->si_code > 0) {
    const frame innermost = interrupted_frame(*static_cast<const ucontext_t*>(context));
    if (overflows(gp->stk, address(info->si_addr), innermost.sp())) {
      report(*gp, innermost);
    }
  }
  pass_on(signal, info, context);
}

}  // namespace

void report_stack_overflows() noexcept {
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
