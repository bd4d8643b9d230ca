// runtime::gc(): what Go's collector does on the side, for stacks and pools (D10).
#include <weft/pool.h>
#include <weft/runtime.h>

#include "sched/scavenger.h"
#include "sched/sched_api.h"

namespace weft::rt {

void drop_caches(bool all) {
  detail::trim_pools();
  if (all) {
    detail::trim_pools();  // the other generation
  }
}

}  // namespace weft::rt

namespace weft::runtime {

void gc() {
  rt::ensure_started();
  rt::scavenge_now();
}

}  // namespace weft::runtime
