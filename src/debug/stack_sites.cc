// WEFTDEBUG=stackusage=1: the deepest stacks of goroutines, by where they were created.
//
// Problem. runtime::stack_usage() tells a goroutine about itself, and what it sees of a stack that others have
// used before is theirs. To choose attrs::stack_size one wants to know of all that `go` at one place has started.
//
// In this mode the end of every goroutine asks the kernel which pages of its stack were touched, notes the lowest by
// the place of its creation, and gives the pages back, so that the next one starts on a clean stack. Children run
// on their joiner's stack no more. Those that have not ended are looked at when somebody asks.
//
// One lock guards the table: debug mode. What does not fit is counted under the last entry.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include <weft/runtime.h>

#include "base/debug_vars.h"
#include "base/lock.h"
#include "base/print.h"
#include "debug/stack_usage.h"
#include "debug/traceback.h"
#include "fiber/sanitizer.h"
#include "gmp/arena.h"
#include "gmp/g.h"
#include "gmp/inside.h"
#include "os/memory.h"
#include "sched/diagnostics.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

constexpr std::size_t kSites = 512;

struct site_use {
  const void* created_pc = nullptr;  // null: not known, or one too many
  std::uint64_t goroutines = 0;
  std::size_t size = 0;
  std::size_t most = 0;
};

struct site_table {
  site_use sites[kSites];
  std::size_t count = 0;

  void add(const void* created_pc, std::size_t size, std::size_t most) {
    site_use* s = std::find_if(sites, sites + count, [created_pc](const site_use& known) {
      return known.created_pc == created_pc;
    });
    if (s == sites + count && count < kSites) *s = {created_pc, 0, 0, 0}, ++count;
    if (s == sites + kSites) --s;
    ++s->goroutines;
    s->size = std::max(s->size, size);
    s->most = std::max(s->most, most);
  }
  void sort() {
    std::sort(sites, sites + count,
              [](const site_use& a, const site_use& b) { return a.most > b.most; });
  }
};

constinit ranked_lock table_lock{lock_rank::leaf};
constinit site_table ended;  // guarded by table_lock

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// Not instrumented: the goroutine may be ending. Its stack stays mapped, or the kernel says that it has gone.
WEFT_NO_TSAN void add_living(G& gp, void* to) {
  const stack s = gp.stk;
  if (gp.in(g_status::dead) || gp.in(g_status::idle) || !s || s.hi <= s.lo) return;
  const std::size_t most = address(s.hi) - lowest_resident(address(s.lo), address(s.hi));
  if (most > 0) static_cast<site_table*>(to)->add(gp.created_pc, s.size(), most);
}

void collect(site_table& all) {
  {
    const inside here;
    const scoped_lock held(table_lock);
    all = ended;
  }
  for_each_g(add_living, &all);
  all.sort();
}

void print_site(printer& out, const site_use& s) {
  if (s.created_pc == nullptr) {
    out.str("others");
  } else {
    print_place(out, s.created_pc);
  }
}

void print_at_exit() {
  static constinit site_table all;
  collect(all);
  printer out;
  out.str("weft: stacks by place of creation: most used, size, goroutines\n");
  for (std::size_t i = 0; i < all.count; ++i) {
    out.chr('\t').udec(all.sites[i].most).chr(' ').udec(all.sites[i].size).chr(' ');
    out.udec(all.sites[i].goroutines).chr(' ');
    print_site(out, all.sites[i]);
    out.chr('\n');
  }
}

}  // namespace

void init_stack_sites() noexcept {
  if (debug_vars.stackusage != 0) std::atexit(print_at_exit);
}

void note_stack_use(const G& gp) {
  const std::uintptr_t page = page_size();
  const std::uintptr_t lo = address(gp.stk.lo), hi = address(gp.stk.hi);
  const std::uintptr_t lowest = lowest_resident(lo, hi);
  {
    const inside here;
    const scoped_lock held(table_lock);
    ended.add(gp.created_pc, hi - lo, hi - lowest);
  }
  // What lies below this frame and the call itself. (By its number: a tool's madvise() has frames of its own.)
  constexpr std::uintptr_t kRoom = 4096;
  const std::uintptr_t here = (address(__builtin_frame_address(0)) - kRoom) & ~(page - 1);
  if (lowest < here) syscall(SYS_madvise, lowest, here - lowest, MADV_DONTNEED);
}

}  // namespace weft::rt

namespace weft::runtime {

std::vector<stack_site> stack_usage_by_site() {
  std::vector<stack_site> result;
  if (rt::debug_vars.stackusage == 0) return result;
  const auto all = std::make_unique<rt::site_table>();
  rt::collect(*all);
  for (std::size_t i = 0; i < all->count; ++i) {
    const rt::site_use& s = all->sites[i];
    stack_site& to = result.emplace_back();
    rt::printer out([](void* text, const char* data,
                       std::size_t n) { static_cast<std::string*>(text)->append(data, n); },
                    &to.created_by);
    rt::print_site(out, s);
    to.goroutines = s.goroutines;
    to.size = s.size;
    to.most = s.most;
  }
  return result;
}

}  // namespace weft::runtime
