// The public face of the scheduler: weft::runtime.
#include <algorithm>
#include <limits>

#include <weft/runtime.h>

#include "sched/max_procs.h"
#include "sched/sched_api.h"
#include "sched/world.h"

namespace weft::runtime {

int gomaxprocs(int n) {
  rt::ensure_started();
  return n <= 0 ? rt::sched.proc_count() : rt::set_procs(n);
}

void set_default_gomaxprocs() {
  rt::ensure_started();
  rt::set_default_procs();
}

int num_cpu() {
  rt::ensure_started();
  return rt::sched.cpu_count();
}

int num_goroutine() {
  rt::ensure_started();
  const std::int64_t n = rt::live_goroutines();
  return static_cast<int>(std::clamp<std::int64_t>(n, 0, std::numeric_limits<int>::max()));
}

std::uint64_t goid() {
  rt::M* mp = rt::enter_runtime();
  const std::uint64_t id = mp == nullptr || mp->curg == nullptr ? 0 : mp->curg->goid;
  rt::leave_runtime(mp);
  return id;
}

// [CN-3]
int set_max_threads(int n) {
  rt::ensure_started();
  rt::M* mp = rt::enter_runtime();
  rt::sched.lock.lock();
  const int before = rt::sched.max_threads;
  rt::sched.max_threads = n;
  const bool exceeded = rt::ms_toward_limit_locked() > n;
  rt::sched.lock.unlock();
  rt::leave_runtime(mp);
  if (exceeded) {
    rt::exceed_thread_limit(n);
  }
  return before;
}

}  // namespace weft::runtime

namespace weft::rt {

bool trim_in_section(bool (stack_pool::*some)() noexcept) {
  M* mp = enter_runtime();
  const bool more = (the_stacks.*some)();
  leave_runtime(mp);
  return more;
}

void return_idle_stacks() {
  stop_world(/*for_gc=*/true);
  M* mp = enter_runtime();
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    P* pp = sched.p(i);
    the_stacks.give(pp->stacks, pp->stack_count);
    pp->stack_count = 0;
  }
  leave_runtime(mp);
  start_world();
  while (trim_in_section(&stack_pool::trim_some)) {
  }
}

}  // namespace weft::rt

namespace weft::detail {

void stop_the_world() { rt::stop_world(); }
void start_the_world() noexcept { rt::start_world(); }

}  // namespace weft::detail
