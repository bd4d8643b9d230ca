// The beginning: the runtime starts itself when somebody first uses it, be it a static initialiser.
//
// Booting makes the Ps and nothing else. The first M comes with the first goroutine; mostly it is the thread that boots
// (locked.cc).
//
// Go: runtime/proc.go schedinit
#include <cerrno>
#include <pthread.h>

#include "base/asymmetric_fence.h"
#include "base/at_start.h"
#include "base/debug_vars.h"
#include "base/fatal.h"
#include "base/print.h"
#include "gmp/arena.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/memory.h"
#include "os/process.h"
#include "sched/diagnostics.h"
#include "sched/max_procs.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/thread_exit.h"
#include "sched/world.h"

namespace weft::rt {

constinit sched_state sched;

namespace {

enum : std::uint32_t { kNotStarted, kStarting, kStarted };
constinit atomic<std::uint32_t> boot_state{kNotStarted};

void print_ms(printer& out, std::int64_t ns) {
  out.dec(ns / 1'000'000).chr('.');
  const std::int64_t micros = ns / 1000 % 1000;
  out.str(micros < 10 ? "00" : micros < 100 ? "0" : "").dec(micros).str(" ms");
}

// Go: runtime/proc.go doInit1. The memory is what the arena has handed out; malloc is not called.
void print_inittrace() {
  printer out;
  out.str("init weft @");
  print_ms(out, process_age());
  out.str(", ");
  print_ms(out, nanotime() - sched.started_at);
  out.str(" clock, ").udec(arena_used()).str(" bytes, 0 allocs\n");
}

WEFT_RUNS_AT_START void boot() {
  pthread_sigmask(SIG_SETMASK, nullptr, &sched.initial_mask);
  load_debug_vars();
  choose_signal();
  sched.blocked_runtime_signal = sigismember(&sched.initial_mask, runtime_signal()) == 1;
  sigdelset(&sched.initial_mask, runtime_signal());
  sched.started_at = nanotime();
  note_time(sched.started_at);
  sched.cpus.store(affinity_cpus(), WEFT_ORDER(BT0, relaxed));  // order: relaxed, a number
  init_asymmetric_fence();
  using entry = p_table<P>::entry;
  static_assert(sizeof(entry) == sizeof(P*));  // fresh memory, all zero: null pointers
  void* table = reserve(sizeof(entry) * (std::size_t{kMaxProcs} + 1));
  if (table == nullptr) {
    {
      printer out;
      out.str("runtime: cannot reserve the table of processors (errno=").dec(errno).str(")\n");
    }
    fatal("out of memory");
  }
  sched.ps.adopt(static_cast<entry*>(table), kMaxProcs);  // published by BT1
  const std::int32_t procs = initial_procs();
  sched.lock.lock();
  resize_procs(procs);
  for (std::int32_t i = sched.proc_count(); i-- > 0;) {
    idle_p_put(sched.p(i));
  }
  sched.lock.unlock();
  crash_hooks hooks;
  hooks.freeze_world = debug_vars.dontfreezetheworld != 0 ? nullptr : freeze_world_for_crash;
  set_crash_hooks(hooks);
  install_diagnostics();
  install_preemption();
  watch_process_exit();
  if (debug_vars.inittrace != 0) {
    print_inittrace();
  }
}

}  // namespace

void ensure_started() {
  // order: BT1 acquire; pairs with the release below, publishes what boot() made
  if (boot_state.load(WEFT_ORDER(BT1, acquire)) == kStarted) [[likely]] {
    return;
  }
  std::uint32_t expected = kNotStarted;
  // order: relaxed, only decides who boots; failure looks again below
  if (boot_state.compare_exchange_strong(expected, kStarting, WEFT_ORDER(BT0, relaxed),
                                         WEFT_ORDER(BT0, relaxed))) {
    boot();
    boot_state.store(kStarted, WEFT_ORDER(BT1, release));  // order: BT1 publishes boot()'s work
    return;
  }
  while (boot_state.load(WEFT_ORDER(BT1, acquire)) != kStarted) {  // order: BT1, as above
    cpu_pause();
  }
}

}  // namespace weft::rt
