// See arena.h. A bump allocator over large mappings, and the table of all goroutines.
//
// The table is a chain of chunks, each filled from the front. Chunk first, then its count, then the
// G: a reader that loads a count sees that many finished Gs (AG1), and never takes a lock. Needed by
// crash reports, which run with any lock held by threads that will never run again.
#include "gmp/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/fatal.h"
#include "base/lock.h"
#include "base/print.h"
#include "os/memory.h"

namespace weft::rt {

namespace {

constexpr std::size_t kArenaChunk = std::size_t{1} << 20;

constinit ranked_lock arena_lock{lock_rank::all_g};
constinit std::byte* arena_next = nullptr;  // guarded by arena_lock
constinit std::byte* arena_end = nullptr;

struct g_chunk {
  static constexpr std::uint32_t kGs = 4095;
  atomic<g_chunk*> next{nullptr};
  atomic<std::uint32_t> used{0};
  alignas(64) G gs[kGs];
};

constinit atomic<g_chunk*> first_chunk{nullptr};
constinit g_chunk* last_chunk = nullptr;  // guarded by arena_lock

[[noreturn]] void out_of_memory(std::size_t bytes) {
  {
    printer out;
    out.str("runtime: cannot allocate ").udec(bytes).str(" bytes for scheduler records (errno=");
    out.dec(errno).str(")\n");
  }
  fatal("out of memory");
}

void* allocate_locked(std::size_t bytes, std::size_t align) {
  auto at = reinterpret_cast<std::uintptr_t>(arena_next);
  at = (at + align - 1) & ~(align - 1);
  if (arena_next == nullptr || at + bytes > reinterpret_cast<std::uintptr_t>(arena_end)) {
    const std::size_t want = std::max(kArenaChunk, round_to_pages(bytes));
    auto* fresh = static_cast<std::byte*>(reserve(want));
    if (fresh == nullptr) {
      out_of_memory(want);
    }
    if (bytes >= kArenaChunk) {
      return fresh;  // too large to share; the present chunk goes on
    }
    arena_next = fresh;
    arena_end = fresh + want;
    at = reinterpret_cast<std::uintptr_t>(fresh);
  }
  arena_next = reinterpret_cast<std::byte*>(at + bytes);
  return reinterpret_cast<void*>(at);
}

g_chunk* chunk_with_room_locked() {
  g_chunk* chunk = last_chunk;
  // order: relaxed, written under arena_lock, which is held
  if (chunk != nullptr && chunk->used.load(WEFT_ORDER(AG0, relaxed)) < g_chunk::kGs) {
    return chunk;
  }
  // Zeroed pages are a valid chunk of idle Gs but for what the constructors set; those run in
  // new_gs(), so that untouched Gs cost no memory.
  void* memory = allocate_locked(sizeof(g_chunk), alignof(g_chunk));
  auto* fresh = static_cast<g_chunk*>(memory);
  // order: AG1 release publishes the chunk; pairs with the acquire loads in for_each_g()
  (chunk != nullptr ? chunk->next : first_chunk).store(fresh, WEFT_ORDER(AG1, release));
  last_chunk = fresh;
  return fresh;
}

}  // namespace

void* arena_allocate(std::size_t bytes, std::size_t align) {
  const scoped_lock held(arena_lock);
  return allocate_locked(bytes, align);
}

G* new_gs(std::uint32_t n) {
  const scoped_lock held(arena_lock);
  g_chunk* chunk = chunk_with_room_locked();
  const std::uint32_t used = chunk->used.load(WEFT_ORDER(AG0, relaxed));  // order: relaxed, locked
  n = std::min(n, g_chunk::kGs - used);
  G* head = nullptr;
  for (std::uint32_t i = n; i-- > 0;) {
    G* gp = ::new (&chunk->gs[used + i]) G();
    gp->transition<g_status::idle, g_status::dead>();
    gp->schedlink = head;
    head = gp;
  }
  // order: AG1 release publishes the Gs; pairs with the acquire load in for_each_g()
  chunk->used.store(used + n, WEFT_ORDER(AG1, release));
  return head;
}

void for_each_g(void (*f)(G&, void*), void* arg) {
  // order: AG1 acquire; pairs with the release stores in chunk_with_room_locked() and new_gs()
  g_chunk* chunk = first_chunk.load(WEFT_ORDER(AG1, acquire));
  while (chunk != nullptr) {
    const std::uint32_t used = chunk->used.load(WEFT_ORDER(AG1, acquire));  // order: AG1, as above
    for (std::uint32_t i = 0; i < used; ++i) {
      f(chunk->gs[i], arg);
    }
    chunk = chunk->next.load(WEFT_ORDER(AG1, acquire));  // order: AG1, as above
  }
}

}  // namespace weft::rt
