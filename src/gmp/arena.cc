// See arena.h. A bump allocator over large mappings, and the table of all goroutines.
//
// The table is a record_list: crash reports read it without a lock.
#include "gmp/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/fatal.h"
#include "base/lock.h"
#include "base/print.h"
#include "gmp/record_list.h"
#include "os/memory.h"

namespace weft::rt {

namespace {

constexpr std::size_t kArenaChunk = std::size_t{1} << 20;

constinit ranked_lock arena_lock{lock_rank::all_g};
constinit std::byte* arena_next = nullptr;  // guarded by arena_lock
constinit std::byte* arena_end = nullptr;
constinit std::size_t used_bytes = 0;

using g_list = record_list<G, 4095>;
constinit g_list all_gs;  // makers hold arena_lock

[[noreturn]] void out_of_memory(std::size_t bytes) {
  {
    printer out;
    out.str("runtime: cannot allocate ").udec(bytes).str(" bytes for scheduler records (errno=");
    out.dec(errno).str(")\n");
  }
  fatal("out of memory");
}

void* allocate_locked(std::size_t bytes, std::size_t align) {
  used_bytes += bytes;
  auto at = reinterpret_cast<std::uintptr_t>(arena_next);
  at = (at + align - 1) & ~(align - 1);
  if (arena_next == nullptr || at + bytes > reinterpret_cast<std::uintptr_t>(arena_end)) {
    const bool shares = bytes <= kArenaChunk / 2;  // otherwise the present chunk goes on
    const std::size_t want = shares ? kArenaChunk : round_to_pages(bytes);
    auto* fresh = static_cast<std::byte*>(reserve(want));
    if (fresh == nullptr) {
      out_of_memory(want);
    }
    if (!shares) {
      return fresh;
    }
    arena_next = fresh;
    arena_end = fresh + want;
    at = reinterpret_cast<std::uintptr_t>(fresh);
  }
  arena_next = reinterpret_cast<std::byte*>(at + bytes);
  return reinterpret_cast<void*>(at);
}

g_list::free_part free_gs_locked() {
  if (all_gs.free().room() == 0) {
    // Zeroed pages are a valid chunk of idle Gs but for what the constructors set; those run in
    // new_gs(), so that untouched Gs cost no memory.
    all_gs.add(static_cast<g_list::chunk*>(
        allocate_locked(sizeof(g_list::chunk), alignof(g_list::chunk))));
  }
  return all_gs.free();
}

}  // namespace

void* arena_allocate(std::size_t bytes, std::size_t align) {
  const scoped_lock held(arena_lock);
  return allocate_locked(bytes, align);
}

std::size_t arena_used() {
  const scoped_lock held(arena_lock);
  return used_bytes;
}

G* new_gs(std::uint32_t n) {
  const scoped_lock held(arena_lock);
  const g_list::free_part part = free_gs_locked();
  n = std::min(n, part.room());
  G* head = nullptr;
  for (std::uint32_t i = n; i-- > 0;) {
    G* gp = ::new (&part.at->records[part.used + i]) G();
    gp->transition<g_status::idle, g_status::dead>();
    gp->schedlink = head;
    head = gp;
  }
  all_gs.publish(n);
  return head;
}

g_table all_g_table() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // conditionally supported, and supported here
  return {&all_gs, offsetof(g_list::chunk, next), offsetof(g_list::chunk, used),
          offsetof(g_list::chunk, records)};
#pragma GCC diagnostic pop
}

void for_each_g(void (*f)(G&, void*), void* arg) {
  all_gs.for_each([=](G& g) { f(g, arg); });
}

}  // namespace weft::rt
