// Stands in for sched/timed.cc and sched/timers.cc until they are merged: limits are ignored.
#include "sched/timed.h"
#include "sched/timers.h"

namespace weft::rt {

__attribute__((weak)) wait_end block_until(waiter& w, commit_fn commit, void* arg, void* object,
                                           wait_reason reason, const wait_limit&) {
  block(w, commit, arg, object, reason);
  return wait_end::woken;
}

__attribute__((weak)) void sleep_until(std::int64_t) {}

}  // namespace weft::rt
