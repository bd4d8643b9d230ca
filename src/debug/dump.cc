// See debug/dump.h.
#include "debug/dump.h"

#include <cstdint>

#include "debug/ancestors.h"
#include "debug/capture.h"
#include "debug/crash_stack.h"
#include "debug/schedtrace.h"
#include "debug/waits.h"
#include "fiber/sanitizer.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "gmp/m.h"
#include "os/clock.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

constexpr std::uint64_t kOneByOne = 100;     // as many goroutines are printed each by itself
constexpr std::uint64_t kExamined = 20'000;  // as many stacks are compared, at about 3 us each
constexpr std::size_t kComparedFrames = 24;
constexpr std::int64_t kMinute = 60'000'000'000;

bool exists(const G& gp) { return !gp.in(g_status::dead) && !gp.in(g_status::idle); }

// Not instrumented: its bits are the goroutine's.
WEFT_NO_TSAN bool is_helper(const G& gp) { return gp.helper; }

WEFT_NO_TSAN std::uint64_t id_of(const M* mp) { return mp->id; }
WEFT_NO_TSAN int tid_of(const M* mp) { return mp->tid; }
WEFT_NO_TSAN const void* interrupted_at(const M* mp) { return mp->interrupted; }

void print_m(printer& out, const M* mp) {
  out.str(" m=");
  if (mp == nullptr) {
    out.str("nil");
  } else {
    out.udec(id_of(mp)).str(" mp=").hex(reinterpret_cast<std::uintptr_t>(mp));
  }
}

}  // namespace

constinit goroutine_dump crash_dump;

// What is printed of a goroutine, read once.
struct goroutine_dump::view {
  std::uint64_t goid = 0;
  std::uint64_t parent = 0;
  const G* gp = nullptr;
  const M* m = nullptr;
  const char* status = "";
  const char* name = nullptr;
  const void* created_pc = nullptr;
  context ctx;
  std::int64_t minutes = 0;  // that it has waited
  bool has_stack = false;
  bool runs = false;
  bool frozen = false;
  bool locked = false;
  bool leaked = false;

  explicit view(const G& gp);
};

// Not instrumented: the goroutine may be changing.
WEFT_NO_TSAN goroutine_dump::view::view(const G& g) {
  goid = g.goid;
  parent = g.parent_goid;
  gp = &g;
  m = g.m;
  name = g.name;
  created_pc = g.created_pc;
  ctx = g.ctx;
  has_stack = g.stk && g.ctx.started();
  const M* home = g.locked_m;
  locked = home != nullptr && (!home->lent_once || home->locked_by_user != 0);
  // Also one whose P was taken: it is on its stack all the same (sched/preempt.cc).
  frozen = g.frozen;
  runs = g.in(g_status::running) || g.in(g_status::syscall) || frozen;
  // order: GS0 relaxed, as everywhere that a status is only shown
  status = to_string(g.status.load(WEFT_ORDER(GS0, relaxed)));
  if (g.in(g_status::waiting)) {
    if (*to_string(g.reason) != '\0') status = to_string(g.reason);
    if (g.waiting_since > 0) minutes = (nanotime() - g.waiting_since) / kMinute;
  }
}

void goroutine_dump::print_header(const view& v) noexcept {
  printer& out = *out_;
  out.str("goroutine ").udec(v.goid);
  if (show_ == detail::system) {
    out.str(" gp=").hex(reinterpret_cast<std::uintptr_t>(v.gp));
    print_m(out, v.m);
  }
  out.str(" [").str(v.status);
  if (v.leaked) out.str(" (leaked)");
  if (v.minutes > 0) out.str(", ").dec(v.minutes).str(" minutes");
  if (v.locked) out.str(", locked to thread");
  out.chr(']');
  if (v.name != nullptr) out.str(" {name: ").str(v.name).chr('}');
  out.str(":\n");
}

void goroutine_dump::print_captured(const captured_thread& thread) noexcept {
  if (thread) {
    print_stack(*out_, thread.innermost(), show_);
  } else {
    out_->str("\tgoroutine running on other thread; stack unavailable\n");
  }
}

void goroutine_dump::print_goroutine(view v) noexcept {
  v.leaked = is_leaked(*v.gp);
  print_header(v);
  if (v.runs) {
    const int tid = v.m == nullptr ? 0 : tid_of(v.m);
    if (v.frozen) {
      print_captured(captured_thread(tid, v.m == nullptr ? nullptr : interrupted_at(v.m)));
    } else {
      print_captured(captured_thread(tid));
    }
  } else if (v.has_stack) {
    print_stack(*out_, frame_of(v.ctx), show_);
  }
  if (v.goid != 1) print_created_by(*out_, v.created_pc, v.parent);
  print_ancestors(*out_, v.goid, show_);
}

// Looking a name up takes a tenth of a millisecond, and the same few addresses come all the time.
bool goroutine_dump::hidden(std::uintptr_t pc) noexcept {
  known_pc& known = known_pcs_[(pc * 0x9e3779b97f4a7c15) >> 56];
  if (known.pc != pc) known = {pc, is_runtime_frame(pc)};
  return known.of_runtime;
}

// Of what a reader would see: two ways through the runtime to one place are one.
std::uint64_t goroutine_dump::hash_of(const view& v) noexcept {
  std::uintptr_t pcs[kComparedFrames];
  const std::size_t count =
      v.has_stack && !v.runs ? collect_pcs(frame_of(v.ctx), pcs, kComparedFrames) : 0;
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uintptr_t word) { hash = (hash ^ word) * 0x100000001b3; };
  mix(reinterpret_cast<std::uintptr_t>(v.status));
  mix(reinterpret_cast<std::uintptr_t>(v.created_pc));
  mix(static_cast<std::uintptr_t>(v.locked));
  for (std::size_t i = 0; i < count; ++i) {
    if (show_ == detail::system || !hidden(pcs[i])) mix(pcs[i]);
  }
  return hash;
}

void goroutine_dump::separate() noexcept {
  if (separated_) out_->chr('\n');
  separated_ = true;
}

void goroutine_dump::print_one(const G& gp) noexcept {
  separate();
  print_goroutine(view(gp));
  out_->flush();
}

void goroutine_dump::group_one(const G& gp) noexcept {
  if (++seen_ > kExamined) {
    ++elsewhere_;
    return;
  }
  const view v(gp);
  const std::uint64_t hash = hash_of(v);
  for (std::size_t i = 0; i < group_count_; ++i) {
    group& g = groups_[i];
    if (g.hash != hash) continue;
    if (g.count <= kIdsShown) g.ids[g.count - 1] = v.goid;
    ++g.count;
    return;
  }
  if (group_count_ == kGroups) {
    ++elsewhere_;
    return;
  }
  groups_[group_count_++] = {hash, 1, &gp, {}};
}

void goroutine_dump::print_group(const group& g) noexcept {
  print_one(*g.first);
  if (g.count > 1) {
    const std::uint64_t more = g.count - 1;
    out_->str("...and ").udec(more).str(" more like it: ");
    for (std::uint64_t i = 0; i < more && i < kIdsShown; ++i) {
      if (i > 0) out_->str(", ");
      out_->str("goroutine ").udec(g.ids[i]);
    }
    out_->str(more > kIdsShown ? ", ...\n" : "\n");
  }
  out_->flush();
}

void goroutine_dump::visit(G& gp, void* self) noexcept {
  auto* dump = static_cast<goroutine_dump*>(self);
  if (!exists(gp) || &gp == dump->except_) return;
  if (dump->show_ != detail::system && is_helper(gp)) return;  // [CN-2]
  switch (dump->pass_) {
    case pass::count: dump->count_one(); break;
    case pass::print: dump->print_one(gp); break;
    case pass::group: dump->group_one(gp); break;
  }
}

void goroutine_dump::for_each(pass what) noexcept {
  pass_ = what;
  seen_ = 0;
  for_each_g(visit, this);
}

void goroutine_dump::print_running(const G& gp, const frame& innermost) noexcept {
  separate();
  except_ = &gp;
  view v(gp);
  v.status = to_string(g_status::running);  // seen from a handler it may be about to park
  print_header(v);
  print_stack(*out_, innermost, show_);
  if (v.goid != 1) print_created_by(*out_, v.created_pc, v.parent);
  print_ancestors(*out_, v.goid, show_);
  out_->flush();
}

void goroutine_dump::print_thread(const M* mp, const char* state, const frame& innermost) noexcept {
  separate();
  out_->str("goroutine 0");
  if (show_ == detail::system) {
    out_->str(" gp=nil");
    print_m(*out_, mp);
  }
  out_->str(" [").str(state).str("]:\n");
  print_stack(*out_, innermost, show_);
  out_->flush();
}

void goroutine_dump::print_others() noexcept {
  elsewhere_ = 0;
  group_count_ = 0;
  for_each(pass::count);
  if (seen_ <= kOneByOne) {
    for_each(pass::print);
    return;
  }
  for_each(pass::group);
  for (std::size_t i = 0; i < group_count_; ++i) print_group(groups_[i]);
  if (elsewhere_ > 0) {
    separate();
    out_->str("...and ").udec(elsewhere_).str(" more goroutines\n");
  }
}

namespace {

struct dump_job {
  printer& out;
  fault whose;
  const G* self;
  frame innermost;
};

void dump_on_crash_stack(void* arg) {
  const auto& job = *static_cast<dump_job*>(arg);
  printer& out = job.out;
  const bool runtime_fault = job.whose == fault::runtime;
  const auto show =
      runtime_fault ? traceback_level::detail::system : current_traceback_level().show;
  print_schedtrace_for_crash(out);
  crash_dump.begin(out, show);
  if (job.self != nullptr) {
    crash_dump.print_running(*job.self, job.innermost);
  } else if (runtime_fault) {
    out.str("runtime stack:\n");
    print_stack(out, job.innermost, show);
    out.chr('\n');
  }
  crash_dump.print_others();
  if (!runtime_fault && job.self == nullptr) print_waits(out);  // a deadlock
  print_stripped_files(out);
  out.flush();
}

}  // namespace

void dump_goroutines(printer& out, fault whose) noexcept {
  if (current_traceback_level().show == traceback_level::detail::none) return;
  const G* self = current_goroutine();
  dump_job job{out, whose, self, this_frame()};
  on_crash_stack(self, dump_on_crash_stack, &job);
}

}  // namespace weft::rt
