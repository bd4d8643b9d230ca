// runtime::gc(): what Go's collector does on the side, for stacks and pools (D10).
#include <cerrno>

#include <weft/pool.h>
#include <weft/runtime.h>

#include "sched/sched_api.h"
#include "sched/world.h"

namespace weft::runtime {

void gc() {
  rt::ensure_started();
  detail::trim_pools();  // first: destructors of what is dropped may need stacks
  const int saved = errno;
  rt::return_idle_stacks();
  errno = saved;
}

}  // namespace weft::runtime
