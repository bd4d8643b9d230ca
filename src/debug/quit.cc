// See debug/quit.h.
#include "debug/quit.h"

#include <csignal>
#include <cstdint>
#include <ucontext.h>

#include "base/at_start.h"
#include "base/fatal.h"
#include "base/print.h"
#include "base/tls.h"
#include "debug/capture.h"
#include "debug/crash_stack.h"
#include "debug/dump.h"
#include "debug/traceback.h"
#include "debug/waits.h"
#include "os/clock.h"
#include "sched/restart.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"

namespace weft::rt {

namespace {

struct quit_job {
  const siginfo_t* info;
  const ucontext_t* at;
  const M* mp;
  const G* gp;
  frame innermost;
};

void print_registers(printer& out, const ucontext_t& at) {
#if defined(__x86_64__)
  constexpr struct {
    const char* name;
    int number;
  } kRegisters[] = {
      {"rax    ", REG_RAX}, {"rbx    ", REG_RBX}, {"rcx    ", REG_RCX},   {"rdx    ", REG_RDX},
      {"rdi    ", REG_RDI}, {"rsi    ", REG_RSI}, {"rbp    ", REG_RBP},   {"rsp    ", REG_RSP},
      {"r8     ", REG_R8},  {"r9     ", REG_R9},  {"r10    ", REG_R10},   {"r11    ", REG_R11},
      {"r12    ", REG_R12}, {"r13    ", REG_R13}, {"r14    ", REG_R14},   {"r15    ", REG_R15},
      {"rip    ", REG_RIP}, {"rflags ", REG_EFL}, {"cs     ", REG_CSGSFS}};
  for (const auto& r : kRegisters) {
    auto value = static_cast<std::uint64_t>(at.uc_mcontext.gregs[r.number]);
    if (r.number == REG_CSGSFS) value &= 0xffff;
    out.str(r.name).hex(value).chr('\n');
  }
#elif defined(__aarch64__)
  for (int n = 0; n < 31; ++n) {
    out.chr('r').dec(n).str(n < 10 ? "      " : "     ").hex(at.uc_mcontext.regs[n]).chr('\n');
  }
  out.str("sp      ").hex(at.uc_mcontext.sp).chr('\n');
  out.str("pc      ").hex(at.uc_mcontext.pc).chr('\n');
#endif
}

void print_on_crash_stack(void* arg) {
  const auto& job = *static_cast<const quit_job*>(arg);
  printer out;
  out.str("SIGQUIT: quit\nPC=").hex(job.innermost.pc).str(" m=");
  if (job.mp != nullptr) {
    out.udec(job.mp->id);
  } else {
    out.str("nil");
  }
  out.str(" sigcode=").dec(job.info->si_code).str("\n\n");
  out.flush();
  freeze_for_crash();
  if (current_traceback_level().show == traceback_level::detail::none) return;
  crash_dump.begin(out, traceback_level::detail::system);
  if (job.gp != nullptr) {
    crash_dump.print_running(*job.gp, job.innermost);
  } else {
    const char* state = job.mp != nullptr ? "idle" : is_sysmon() ? "sysmon" : "plain thread";
    crash_dump.print_thread(job.mp, state, job.innermost);
  }
  crash_dump.print_others();
  print_partial_deadlocks(out);
  out.chr('\n');
  print_registers(out, *job.at);
  print_stripped_files(out);
}

// Runs on: signal.
void on_quit(int, siginfo_t* info, void* context) {
  const auto& at = *static_cast<const ucontext_t*>(context);
  const std::int64_t began = nanotime();
  if (answer_capture(info, at)) {
    resume_interrupted_call(SIGQUIT, context, nanotime() - began);
    return;
  }
  const M* mp = current_m();
  quit_job job{info, &at, mp, mp == nullptr ? nullptr : mp->curg, interrupted_frame(at)};
  const bool whole = begin_crash() == crash_turn::report;
  on_crash_stack(whole ? mp : nullptr, print_on_crash_stack, &job);
  end_crash();
}

}  // namespace

WEFT_RUNS_AT_START void report_on_quit() noexcept {
  struct sigaction before {};
  if (sigaction(SIGQUIT, nullptr, &before) != 0 || before.sa_handler != SIG_DFL ||
      (before.sa_flags & SA_SIGINFO) != 0) {
    return;
  }
  struct sigaction action {};
  action.sa_sigaction = on_quit;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGSEGV);  // a fault in the report must not be silent
  sigdelset(&action.sa_mask, SIGBUS);
  if (sigaction(SIGQUIT, &action, nullptr) == 0) capture_by(on_quit);
}

}  // namespace weft::rt
