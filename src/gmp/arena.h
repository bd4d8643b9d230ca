// Memory for records that are never freed: Gs, Ms, Ps. Readers may hold stale pointers to them for
// as long as they like. Does not use malloc, so it may run where malloc's lock must not be taken.
#pragma once

#include <cstddef>
#include <new>

#include "base/on_zeros.h"
#include "gmp/g.h"

namespace weft::rt {

// Zeroed memory that lives as long as the process. Fatal if there is none.
void* arena_allocate(std::size_t bytes, std::size_t align);

template <class T>
T* arena_new() {
  return ::new (arena_allocate(sizeof(T), alignof(T))) T();
}

// The same for a T that is told that it lies on zeros: pages of large tables are not touched before they are used.
template <class T>
T* arena_new_sparse() {
  return ::new (arena_allocate(sizeof(T), alignof(T))) T(on_zeros{});
}

// Bytes handed out so far.
std::size_t arena_used();

// Up to n new Gs, dead and listed, chained by schedlink; at least one. Fatal if there is no memory.
G* new_gs(std::uint32_t n);

// Where the table of all Gs is, for debuggers.
struct g_table {
  const void* first;  // address of the pointer to the first chunk
  std::size_t next_offset, used_offset, records_offset;
};
g_table all_g_table();

// Calls f for every G that was ever made, oldest first. No lock: Gs are only ever added.
void for_each_g(void (*f)(G&, void*), void* arg);

}  // namespace weft::rt
