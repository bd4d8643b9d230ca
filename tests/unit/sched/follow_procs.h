// Following the default number of Ps, in tests: what changes is pretended, and the tests look in sysmon's place.
#pragma once

#include <weft/runtime.h>

#include "gmp/sched.h"
#include "os/test_hooks.h"
#include "sched/max_procs.h"
#include "support/patience.h"

namespace weft::rt {

inline void sysmon_looks() { follow_default_procs(); }

inline void pretend(int processors) { os::test_hooks.pretend_cpus.set(processors); }

// Whoever has begun to stop the world is through.
inline void settle() {
  runtime::stop_the_world([] {});
}

// A helper may be on its way, and ends soon.
[[nodiscard]] inline bool becomes(int procs) {
  return test::eventually([procs] { return runtime::gomaxprocs() == procs; });
}
inline int helpers() {
  return sched.helpers.load(std::memory_order_relaxed);  // order: a statistic
}
[[nodiscard]] inline bool no_helper() {
  return test::eventually([] { return helpers() == 0 && runtime::num_goroutine() == 0; });
}

}  // namespace weft::rt
