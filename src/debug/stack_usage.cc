// runtime::stack_usage(): how large stacks should be. What was ever touched is resident: the kernel knows.
#include "debug/stack_usage.h"

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/runtime.h>

#include "gmp/g.h"
#include "sched/sched_api.h"

namespace weft::rt {

std::uintptr_t lowest_resident(std::uintptr_t lo, std::uintptr_t hi) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  constexpr std::size_t kAtOnce = 64;
  unsigned char resident[kAtOnce];
  for (std::uintptr_t at = lo & ~(page - 1); at < hi; at += kAtOnce * page) {
    const std::size_t left = (hi - at + page - 1) / page;
    const std::size_t pages = left < kAtOnce ? left : kAtOnce;
    if (mincore(reinterpret_cast<void*>(at), pages * page, resident) != 0) return hi;
    for (std::size_t i = 0; i < pages; ++i) {
      if ((resident[i] & 1) != 0) return at + i * page < lo ? lo : at + i * page;
    }
  }
  return hi;
}

}  // namespace weft::rt

namespace weft::runtime {

stack_use stack_usage() {
  const rt::G* gp = rt::current_goroutine();
  if (gp == nullptr) return {};
  const auto lo = reinterpret_cast<std::uintptr_t>(gp->stk.lo);
  const auto hi = reinterpret_cast<std::uintptr_t>(gp->stk.hi);
  const auto sp = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const std::uintptr_t lowest = rt::lowest_resident(lo, hi);
  stack_use use;
  use.size = hi - lo;
  use.now = hi - sp;
  use.most = hi - lowest;
  return use;
}

}  // namespace weft::runtime
