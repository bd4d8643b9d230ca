// Starting the goroutines of run(), which have an identity of their own.
#pragma once

#include <cstdint>

#include <weft/detail/spawn.h>

namespace weft::rt {

struct main_start {
  void (*body)(void*);
  const void* created_pc;
  std::uint64_t goid;  // 0: the next one
};

void start_main(detail::spawn_slot slot, const main_start& how);
// The calling M, which has a P, runs it next; nobody else can see it. Runs on: g0.
void preselect_main(detail::spawn_slot slot, const main_start& how);

}  // namespace weft::rt
