// WEFTDEBUG=tracebackancestors=N: where those stood who created a goroutine, and who created them.
//
//   [originating from goroutine 1]:
//   main::{lambda#1}::operator()(...)
//           /home/app/main.cc:12
//
// Each `go` notes the creator's stack in a table, by the id of the child; the table is a ring, so that very
// old ones are lost. Debug mode: one lock. Go: runtime/proc.go saveAncestors
#include "debug/ancestors.h"

#include "base/at_start.h"
#include "base/debug_vars.h"
#include "base/lock.h"
#include "debug/frame.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "gmp/inside.h"
#include "sched/diagnostics.h"

namespace weft::rt {

namespace {

constexpr std::size_t kRemembered = 8192;
constexpr std::size_t kFrames = 24;

struct birth_place {
  std::uint64_t child = 0;
  std::uint64_t parent = 0;
  std::size_t count = 0;
  std::uintptr_t pcs[kFrames] = {};
};

constinit ranked_lock table_lock{lock_rank::leaf};
constinit birth_place* table =
    nullptr;  // constant after boot; its entries are guarded by table_lock

}  // namespace

WEFT_RUNS_AT_START void init_ancestors() noexcept {
  if (debug_vars.tracebackancestors == 0) return;
  table = static_cast<birth_place*>(
      arena_allocate(kRemembered * sizeof(birth_place), alignof(birth_place)));  // zeroed: empty
}

void note_ancestors(std::uint64_t child, std::uint64_t parent) {
  birth_place here;
  here.child = child;
  here.parent = parent;
  here.count = collect_pcs(this_frame(), here.pcs, kFrames);
  const inside border;
  const scoped_lock held(table_lock);
  table[child % kRemembered] = here;
}

// In a crash report, without the lock.
WEFT_NO_TSAN void print_ancestors(printer& out, std::uint64_t goid,
                                  traceback_level::detail show) noexcept {
  if (table == nullptr) return;
  for (int n = debug_vars.tracebackancestors; n > 0; --n) {
    const birth_place& born = table[goid % kRemembered];
    if (born.child != goid || born.parent == 0) return;
    out.str("[originating from goroutine ").udec(born.parent).str("]:\n");
    print_pcs(out, born.pcs, born.count, show);
    goid = born.parent;
  }
}

}  // namespace weft::rt
