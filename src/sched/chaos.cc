// See chaos.h.
#include "sched/chaos.h"

#include <cstdlib>
#include <sched.h>

#include "os/clock.h"

namespace weft::rt {

#ifdef WEFT_CHAOS
std::uint64_t scheduling_seed() noexcept {
  const char* text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : static_cast<std::uint64_t>(nanotime());
}

void chaos_pause(M* mp) noexcept {
  if (chaos_seldom(mp)) {
    sched_yield();
  }
}
#else
std::uint64_t scheduling_seed() noexcept { return static_cast<std::uint64_t>(nanotime()); }
#endif

}  // namespace weft::rt
