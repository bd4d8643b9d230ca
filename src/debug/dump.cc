// See debug/dump.h.
#include "debug/dump.h"

#include <cstdint>

#include "debug/crash_stack.h"
#include "fiber/sanitizer.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "gmp/m.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

using detail = traceback_level::detail;

constexpr std::uint64_t kOneByOne = 100;     // as many goroutines are printed each by itself
constexpr std::uint64_t kExamined = 20'000;  // as many stacks are compared, at about 3 us each
constexpr std::size_t kGroups = 64;
constexpr std::size_t kIdsShown = 5;
constexpr std::size_t kComparedFrames = 24;

// What is printed of a goroutine, read once.
struct view {
  std::uint64_t goid;
  std::uint64_t parent;
  const G* gp;
  const M* m;
  const char* status;
  const char* name;
  const void* created_pc;
  context ctx;
  bool has_stack;
  bool runs;
  bool locked;
};

// Not instrumented: the goroutine may be changing.
WEFT_NO_TSAN view look_at(const G& gp) {
  view v{};
  v.goid = gp.goid;
  v.parent = gp.parent_goid;
  v.gp = &gp;
  v.m = gp.m;
  v.name = gp.name;
  v.created_pc = gp.created_pc;
  v.ctx = gp.ctx;
  v.has_stack = gp.stk && gp.ctx.started();
  v.locked = gp.locked_m != nullptr;
  v.runs = gp.in(g_status::running);
  // order: GS0 relaxed, as everywhere that a status is only shown
  v.status = to_string(gp.status.load(WEFT_ORDER(GS0, relaxed)));
  if (gp.in(g_status::waiting) && *to_string(gp.reason) != '\0') v.status = to_string(gp.reason);
  return v;
}

bool exists(const G& gp) { return !gp.in(g_status::dead) && !gp.in(g_status::idle); }

WEFT_NO_TSAN std::uint64_t id_of(const M* mp) { return mp->id; }

void print_header(printer& out, const view& v, detail show) {
  out.str("goroutine ").udec(v.goid);
  if (show == detail::system) {
    out.str(" gp=").hex(reinterpret_cast<std::uintptr_t>(v.gp)).str(" m=");
    if (v.m == nullptr) {
      out.str("nil");
    } else {
      out.udec(id_of(v.m)).str(" mp=").hex(reinterpret_cast<std::uintptr_t>(v.m));
    }
  }
  out.str(" [").str(v.status);
  if (v.locked) out.str(", locked to thread");
  out.chr(']');
  if (v.name != nullptr) out.str(" {name: ").str(v.name).chr('}');
  out.str(":\n");
}

void print_origin(printer& out, const view& v) {
  if (v.goid != 1) print_created_by(out, v.created_pc, v.parent);
}

// A goroutine that does not run on this thread.
void print_goroutine(printer& out, const view& v, detail show) {
  print_header(out, v, show);
  if (v.runs) {
    out.str("\tgoroutine running on other thread; stack unavailable\n");
  } else if (v.has_stack) {
    print_stack(out, frame_of(v.ctx), show);
  }
  print_origin(out, v);
}

// Goroutines in one state and at one place.
struct group {
  std::uint64_t hash;
  std::uint64_t count;
  const G* first;
  std::uint64_t ids[kIdsShown];  // of those after the first
};

// State of a dump; one at a time (base/fatal.h), so it need not be on the crashing stack.
struct dump_state {
  printer* out;
  const G* except;
  detail show;
  bool separated;
  std::uint64_t seen;
  std::uint64_t elsewhere;  // examined, but in no group, or not examined
  std::size_t group_count;
  group groups[kGroups];
  // Return addresses and whether they are the runtime's; direct-mapped, kept from dump to dump.
  struct {
    std::uintptr_t pc;
    bool of_runtime;
  } known_pcs[256];
};
dump_state state;

// Looking a name up takes a tenth of a millisecond, and the same few addresses come all the time.
bool hidden(std::uintptr_t pc) {
  auto& known = state.known_pcs[(pc * 0x9e3779b97f4a7c15) >> 56];
  if (known.pc != pc) known = {pc, is_runtime_frame(pc)};
  return known.of_runtime;
}

// Of what a reader would see: two ways through the runtime to one place are one.
std::uint64_t hash_of(const view& v) {
  std::uintptr_t pcs[kComparedFrames];
  const std::size_t count =
      v.has_stack && !v.runs ? collect_pcs(frame_of(v.ctx), pcs, kComparedFrames) : 0;
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uintptr_t word) { hash = (hash ^ word) * 0x100000001b3; };
  mix(reinterpret_cast<std::uintptr_t>(v.status));
  mix(reinterpret_cast<std::uintptr_t>(v.created_pc));
  mix(static_cast<std::uintptr_t>(v.locked));
  for (std::size_t i = 0; i < count; ++i) {
    if (state.show == detail::system || !hidden(pcs[i])) mix(pcs[i]);
  }
  return hash;
}

void separate() {
  if (state.separated) state.out->chr('\n');
  state.separated = true;
}

void count_one(G& gp, void*) {
  if (exists(gp) && &gp != state.except) ++state.seen;
}

void print_one(G& gp, void*) {
  if (!exists(gp) || &gp == state.except) return;
  separate();
  print_goroutine(*state.out, look_at(gp), state.show);
  state.out->flush();
}

void group_one(G& gp, void*) {
  if (!exists(gp) || &gp == state.except) return;
  if (++state.seen > kExamined) {
    ++state.elsewhere;
    return;
  }
  const view v = look_at(gp);
  const std::uint64_t hash = hash_of(v);
  for (std::size_t i = 0; i < state.group_count; ++i) {
    group& g = state.groups[i];
    if (g.hash != hash) continue;
    if (g.count <= kIdsShown) g.ids[g.count - 1] = v.goid;
    ++g.count;
    return;
  }
  if (state.group_count == kGroups) {
    ++state.elsewhere;
    return;
  }
  state.groups[state.group_count++] = {hash, 1, &gp, {}};
}

void print_group(const group& g) {
  separate();
  print_goroutine(*state.out, look_at(*g.first), state.show);
  if (g.count > 1) {
    const std::uint64_t more = g.count - 1;
    state.out->str("...and ").udec(more).str(" more like it: ");
    for (std::uint64_t i = 0; i < more && i < kIdsShown; ++i) {
      if (i > 0) state.out->str(", ");
      state.out->str("goroutine ").udec(g.ids[i]);
    }
    state.out->str(more > kIdsShown ? ", ...\n" : "\n");
  }
  state.out->flush();
}

}  // namespace

void print_running_goroutine(printer& out, const G& gp, const frame& innermost,
                             detail show) noexcept {
  const view v = look_at(gp);
  print_header(out, v, show);
  print_stack(out, innermost, show);
  print_origin(out, v);
  out.flush();
}

void print_other_goroutines(printer& out, const G* except, detail show, bool separated) noexcept {
  state.out = &out;
  state.except = except;
  state.show = show;
  state.separated = separated;
  state.seen = state.elsewhere = 0;
  state.group_count = 0;
  for_each_g(count_one, nullptr);
  if (state.seen <= kOneByOne) {
    for_each_g(print_one, nullptr);
    return;
  }
  state.seen = 0;
  for_each_g(group_one, nullptr);
  for (std::size_t i = 0; i < state.group_count; ++i) print_group(state.groups[i]);
  if (state.elsewhere > 0) {
    separate();
    out.str("...and ").udec(state.elsewhere).str(" more goroutines\n");
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
  const detail show = runtime_fault ? detail::system : current_traceback_level().show;
  if (job.self != nullptr) {
    print_running_goroutine(out, *job.self, job.innermost, show);
  } else if (runtime_fault) {
    out.str("runtime stack:\n");
    print_stack(out, job.innermost, show);
  }
  print_other_goroutines(out, job.self, show, job.self != nullptr || runtime_fault);
  out.flush();
}

}  // namespace

void dump_goroutines(printer& out, fault whose) noexcept {
  if (current_traceback_level().show == detail::none) return;
  const G* self = current_goroutine();
  dump_job job{out, whose, self, this_frame()};
  on_crash_stack(self, dump_on_crash_stack, &job);
}

}  // namespace weft::rt
