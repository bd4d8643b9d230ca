// See clock.h. CLOCK_MONOTONIC is answered by the vDSO; it does not count suspension, as in Go.
#include "os/clock.h"

#include <time.h>

#include "base/at_start.h"

namespace weft::rt {

WEFT_SET_AT_START constinit coarse_clock the_coarse_clock;

std::int64_t nanotime() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace weft::rt
