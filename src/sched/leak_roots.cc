// What goroutines that are alive at the end of the process point to is not a leak.
//
// Problem. LeakSanitizer looks for pointers in globals, in threads' own stacks and in the heap. Goroutines'
// stacks and records are mappings of their own, so that everything that only a waiting goroutine knows would be
// reported. Most programs end with some that wait.
//
// So when exit() has stopped the world, the words of every live goroutine that may be pointers are copied
// into one mapping, which LeakSanitizer is told to search: its record, with the closure, and its stack from
// the saved stack pointer upwards; of one that was stopped while it ran, all of its stack.
//
// Only what is alive counts: not free records, nor what earlier calls left below the stack pointer. Otherwise
// real leaks would hide behind old pointers.
//
// Rejected: registering stacks when they are mapped (LeakSanitizer would read a quarter of a megabyte per
// goroutine that ever was, dead frames included); one region per goroutine (it reads /proc/self/maps for
// each). A check in the middle of the program, __lsan_do_leak_check(), does not see goroutines.
#include "sched/leak_roots.h"

#if WEFT_ASAN
#include <cstdint>
#include <cstring>
#include <sanitizer/lsan_interface.h>

#include "gmp/arena.h"
#include "os/memory.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

// A first pass counts, a second one copies.
struct collector {
  std::uintptr_t* to = nullptr;
  std::size_t count = 0;
  std::size_t room = 0;
  const G* current = nullptr;
};

// Its redzones are poisoned, and they are read, too.
__attribute__((no_sanitize("address"))) void collect(collector& c, const std::byte* lo,
                                                     const std::byte* hi) {
  constexpr std::uintptr_t kLowest = 1 << 16;
  constexpr std::uintptr_t kHighest = std::uintptr_t{1} << 48;
  const auto first = (reinterpret_cast<std::uintptr_t>(lo) + 7) & ~std::uintptr_t{7};
  for (auto* word = reinterpret_cast<const std::uintptr_t*>(first);
       reinterpret_cast<const std::byte*>(word + 1) <= hi; ++word) {
    const std::uintptr_t value = *word;
    if (value < kLowest || value >= kHighest) {
      continue;
    }
    if (c.to == nullptr) {
      ++c.count;
    } else if (c.count < c.room) {
      c.to[c.count++] = value;
    }
  }
}

void collect_goroutine(G& g, void* arg) {
  auto& c = *static_cast<collector*>(arg);
  if (g.in(g_status::dead) || g.in(g_status::idle)) {
    return;
  }
  collect(c, reinterpret_cast<const std::byte*>(&g), reinterpret_cast<const std::byte*>(&g + 1));
  if (!g.stk) {
    return;  // has not run yet
  }
  const auto* sp = static_cast<const std::byte*>(g.ctx.sp);
  if (&g == c.current) {
    sp = static_cast<const std::byte*>(__builtin_frame_address(0));
  } else if (g.in(g_status::running)) {
    sp = g.stk.lo;
  }
  if (sp >= g.stk.lo && sp < g.stk.hi) {
    collect(c, sp, g.stk.hi);
  }
}

}  // namespace

void show_leak_roots() noexcept {
  collector c;
  c.current = current_goroutine();
  for_each_g(collect_goroutine, &c);
  if (c.count == 0) {
    return;
  }
  c.room = c.count + c.count / 8;  // frames of the two passes differ
  const std::size_t bytes = round_to_pages(c.room * sizeof(std::uintptr_t));
  c.count = 0;
  c.to = static_cast<std::uintptr_t*>(reserve(bytes));
  if (c.to == nullptr) {
    return;
  }
  for_each_g(collect_goroutine, &c);
  __lsan_register_root_region(c.to, bytes);
}

}  // namespace weft::rt
#endif
