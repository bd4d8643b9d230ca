// How deep a stack has been, by what the kernel knows of its pages; see stack_usage.cc and stack_sites.cc.
#pragma once

#include <cstdint>

namespace weft::rt {

// The lowest resident page of [lo, hi), not below lo; hi if there is none.
std::uintptr_t lowest_resident(std::uintptr_t lo, std::uintptr_t hi) noexcept;

// Prints the table of stacks at exit, if WEFTDEBUG=stackusage=1. Once, while booting.
void init_stack_sites() noexcept;

}  // namespace weft::rt
