// See debug/schedtrace.h.
#include "debug/schedtrace.h"

#include "base/debug_vars.h"
#include "gmp/arena.h"
#include "os/clock.h"
#include "sched/diagnostics.h"
#include "sched/sched_api.h"
#include "sched/sysmon.h"

namespace weft::rt {

namespace {

constinit atomic<std::int64_t> first_line{0};  // its time
std::int64_t last_tick = 0;                    // sysmon's own

// The time of the first line; `now` if this is it.
std::int64_t beginning(std::int64_t now) {
  std::int64_t none = 0;
  // order: ST0 relaxed, a lone number
  const bool first = first_line.compare_exchange_strong(none, now, WEFT_ORDER(ST0, relaxed),
                                                        WEFT_ORDER(ST0, relaxed));
  return first ? now : none;
}

std::uint32_t schedtick_of(const P& pp) {
  return pp.schedtick.load(WEFT_ORDER(ST0, relaxed));  // order: ST0 relaxed, shown only
}

const char* text(bool b) { return b ? "true" : "false"; }

void print_id(printer& out, std::int64_t id) {
  if (id < 0) {
    out.str("nil");
  } else {
    out.dec(id);
  }
}
WEFT_NO_TSAN std::int64_t id_of(const M* mp) {
  return mp == nullptr ? -1 : static_cast<std::int64_t>(mp->id);
}
WEFT_NO_TSAN std::int64_t id_of(const P* pp) { return pp == nullptr ? -1 : pp->id; }
WEFT_NO_TSAN std::int64_t id_of(const G* gp) {
  return gp == nullptr ? -1 : static_cast<std::int64_t>(gp->goid);
}

void print_lists(printer& out) {
  out.str(" [ ");
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) out.udec(sched.p(i)->runq.size()).chr(' ');
  out.str("] schedticks=[ ");
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    out.udec(schedtick_of(*sched.p(i))).chr(' ');
  }
  out.chr(']');
}

// Not instrumented: Ps, Ms and Gs are in use.
WEFT_NO_TSAN void print_p(printer& out, const P& pp) {
  out.str("  P").dec(pp.id).str(": status=");
  // order: PS0 relaxed, shown only
  out.udec(static_cast<std::uint32_t>(pp.status.load(WEFT_ORDER(PS0, relaxed))));
  out.str(" schedtick=").udec(schedtick_of(pp)).str(" syscalltick=0 m=");
  // order: relaxed, shown only
  print_id(out, id_of(pp.m.load(WEFT_ORDER(PM1, relaxed))));
  out.str(" runqsize=").udec(pp.runq.size()).str(" gfreecnt=").udec(pp.free_count);
  out.str(" timerslen=").udec(pp.timers.count_hint()).chr('\n');
}

WEFT_NO_TSAN void print_m(printer& out, const M& mp) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  out.str("  M").udec(mp.id).str(": p=");
  print_id(out, id_of(mp.p));
  out.str(" curg=");
  print_id(out, id_of(mp.curg));
  out.str(" mallocing=0 throwing=0 preemptoff= locks=0 dying=0 spinning=").str(text(mp.spinning));
  out.str(" blocked=").str(text(mp.is_idle)).str(" lockedg=");
  print_id(out, id_of(mp.locked_g));
  out.chr('\n');
}

WEFT_NO_TSAN void print_g(G& gp, void* to) {
  auto& out = *static_cast<printer*>(to);
  // order: GS0 relaxed, shown only
  const auto status = gp.status.load(WEFT_ORDER(GS0, relaxed));
  if (status == g_status::idle) return;  // no record yet
  out.str("  G").udec(gp.goid).str(": status=").udec(static_cast<std::uint32_t>(status));
  out.chr('(').str(to_string(gp.reason)).str(") m=");
  print_id(out, id_of(gp.m));
  out.str(" lockedm=");
  print_id(out, id_of(gp.locked_m));
  out.chr('\n');
}

WEFT_NO_TSAN void print_all(printer& out, std::int64_t now,
                            bool detailed) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  out.str("SCHED ").dec((now - beginning(now)) / 1'000'000).str("ms: gomaxprocs=");
  out.dec(sched.proc_count()).str(" idleprocs=").dec(sched.idle.idle());
  out.str(" threads=").dec(sched.m_count).str(" spinningthreads=").dec(sched.idle.spinning());
  out.str(" needspinning=").udec(sched.idle.spinner_requested() ? 1 : 0);
  out.str(" idlethreads=").dec(sched.idle_m_count).str(" runqueue=").udec(sched.runq.size());
  if (detailed) {
    out.str(" gcwaiting=").str(text(sched.gate.closed()));
    out.str(" nmidlelocked=").dec(sched.locked_m_idle);
    out.str(" stopwait=").dec(sched.gate.busy());
    out.str(" sysmonwait=").str(text(sysmon_rest.asleep()));
  } else {
    print_lists(out);
  }
  if (debug_vars.schedextra != 0) {
    out.str(" foreign=").dec(sched.foreign.blocked()).str(" frozen=").dec(sched.frozen_ms);
  }
  out.chr('\n');
  if (!detailed) return;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) print_p(out, *sched.p(i));
  for (const M* mp = sched.all_ms; mp != nullptr; mp = mp->all_next) print_m(out, *mp);
  for_each_g(print_g, &out);
}

}  // namespace

void print_schedtrace(printer& out, std::int64_t now, bool detailed, bool locked) noexcept {
  if (!locked) {
    print_all(out, now, detailed);
    return;
  }
  const scoped_lock held(sched.lock);
  print_all(out, now, detailed);
}

void print_schedtrace_for_crash(printer& out) noexcept {
  if (debug_vars.schedtrace > 0 || debug_vars.scheddetail > 0) {
    print_schedtrace(out, nanotime(), true, false);
    out.chr('\n');
  }
}

// By sysmon, in every round; see sched/diagnostics.h.
void schedtrace_tick(std::int64_t now) {
  if (debug_vars.schedtrace <= 0) return;
  if (last_tick != 0 && now - last_tick < std::int64_t{debug_vars.schedtrace} * 1'000'000) return;
  last_tick = now;
  printer out;
  print_schedtrace(out, now, debug_vars.scheddetail > 0, true);
}

}  // namespace weft::rt
