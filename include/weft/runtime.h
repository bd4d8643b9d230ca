// Looking at the runtime and steering it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <weft/detail/export.h>

namespace weft::detail {
WEFT_EXPORT void stop_the_world();
WEFT_EXPORT void start_the_world() noexcept;
}  // namespace weft::detail

namespace weft::runtime {

/// Sets how many goroutines may run at the same time and returns the previous number; n <= 0 only
/// asks. Default: WEFTMAXPROCS, or as many processors as this process may use: those of its affinity
/// mask, but no more than the limits of its cgroups allow. The latter is looked at again about once a
/// second, until somebody sets a number here, by WEFTMAXPROCS or by run_options.
WEFT_EXPORT int gomaxprocs(int n = 0);

/// Back to the default, WEFTMAXPROCS aside, as it is now; it is followed again from here on.
WEFT_EXPORT void set_default_gomaxprocs();

/// Processors available to this process when the runtime started.
WEFT_EXPORT int num_cpu();

/// Goroutines that exist now. Approximate while others start and end some.
WEFT_EXPORT int num_goroutine();

/// The id of the calling goroutine: unique, never reused; 1 is that of the first run(). 0 on plain
/// threads.
WEFT_EXPORT std::uint64_t goid();

/// How many threads the runtime may have (default 10000); exceeding it is a fatal error. Returns the
/// previous limit.
WEFT_EXPORT int set_max_threads(int n);

/// Gives back now what is kept for later, as far as nobody uses it: the memory of idle stacks, and what
/// lay in a weft::pool since the last gc() but one. Stops the world for a moment. Nothing calls it by
/// itself: there is no collector.
WEFT_EXPORT void gc();

/// Calls f while no other goroutine runs, and returns what it returns. Somebody may have been stopped
/// inside malloc: f must neither allocate nor take locks that goroutines use. It must not come to a
/// scheduling point (block, yield, change the number of Ps, stop the world again): that is a fatal error.
template <class F>
decltype(auto) stop_the_world(F&& f) {
  detail::stop_the_world();
  struct restart {
    ~restart() { detail::start_the_world(); }
  } const r;
  return std::forward<F>(f)();
}

}  // namespace weft::runtime
