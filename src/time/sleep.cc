// this_thread::sleep_for and sleep_until.
#include <weft/thread.h>

#include "sched/timers.h"

namespace weft::detail {

void sleep_until(std::int64_t deadline) {
  if (deadline > rt::nanotime()) {
    rt::sleep_until(deadline);
  }
}

}  // namespace weft::detail
