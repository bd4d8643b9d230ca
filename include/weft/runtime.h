// Looking at the runtime and steering it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/detail/export.h>

namespace weft::detail {
WEFT_EXPORT void stop_the_world();
WEFT_EXPORT void start_the_world() noexcept;

// Around a call that may block.
class WEFT_EXPORT blocking_call {
 public:
  explicit blocking_call(bool surely) noexcept;
  ~blocking_call();
  blocking_call(const blocking_call&) = delete;
  blocking_call& operator=(const blocking_call&) = delete;

 private:
  bool outermost_ = false;
};
}  // namespace weft::detail

namespace weft::runtime {

/// Sets how many goroutines may run at the same time and returns the previous number; n <= 0 only
/// asks. Default: WEFTMAXPROCS, or as many processors as this process may use: those of its affinity
/// mask, but no more than the limits of its cgroups allow. The latter is looked at again about once a
/// second, until somebody sets a number here, by WEFTMAXPROCS or by run_options.
WEFT_EXPORT int gomaxprocs(int n = 0);

/// Back to the default, WEFTMAXPROCS aside, as it is now; it is followed again from here on. A program that had a number
/// from the start, by WEFTMAXPROCS or by run_options, looks for its cgroups now, and opens files for that: if it gives up
/// the right to do so (seccomp, chroot), it should ask once before.
WEFT_EXPORT void set_default_gomaxprocs();

/// Processors available to this process when the runtime started.
WEFT_EXPORT int num_cpu();

/// Goroutines that exist now. Approximate while others start and end some.
WEFT_EXPORT int num_goroutine();

/// The id of the calling goroutine: unique, never reused; 1 is that of the first run(). 0 on plain
/// threads.
WEFT_EXPORT std::uint64_t goid();

/// The calling goroutine stays on the thread on which it is now, and nobody else runs there, until
/// unlock_os_thread() has been called as often as this. Goroutines that it starts are not locked. For
/// what belongs to a thread: namespaces, credentials, signal masks, OpenGL contexts, thread_locals of C
/// libraries. Threads of the runtime never inherit any of that from it. A goroutine that ends while it is
/// locked takes its thread with it, destructors of thread_locals included; but run() with
/// lock_main_thread gives the thread back, as ever. On a plain thread both do nothing.
/// Throws panic_error("LockOSThread nesting overflow") at the 2^32nd nested call.
WEFT_EXPORT void lock_os_thread();

/// Undoes one lock_os_thread(); does nothing if there is none to undo. Before the last one put the thread
/// back into the state in which it was, for others will run there; or end the goroutine locked.
WEFT_EXPORT void unlock_os_thread();

/// How many threads that run goroutines there may be (default 10000), without the few that the runtime has
/// beside them; exceeding it is a fatal error. Returns the previous limit.
WEFT_EXPORT int set_max_threads(int n);

/// The stack of the calling goroutine as text, in Go's format; with `all` those of all goroutines, for which
/// the world is stopped. Of more than a hundred, those in one state and at one place are counted together.
WEFT_EXPORT std::string stack(bool all = false);

/// How much of a stack is used, in bytes.
struct stack_use {
  std::size_t size = 0;  ///< what the goroutine may use; 0 on plain threads
  std::size_t now = 0;   ///< in use now
  std::size_t most =
      0;  ///< the most that was ever in use, to a page; by earlier goroutines on this stack, too
};

/// Of the calling goroutine.
WEFT_EXPORT stack_use stack_usage();

/// The deepest stack of all goroutines that were created at one place, to a page.
struct stack_site {
  std::string created_by;        ///< function and line
  std::uint64_t goroutines = 0;  ///< that it is about
  std::size_t size = 0;          ///< what they might use
  std::size_t most = 0;          ///< the most that one of them has used
};

/// With WEFTDEBUG=stackusage=1, the deepest first: for attrs::stack_size. Without it empty.
WEFT_EXPORT std::vector<stack_site> stack_usage_by_site();

/// A number about the runtime, under Go's name (Go: runtime/metrics).
struct metric {
  enum class kind : std::uint8_t { count, value, histogram };
  std::string_view name;         ///< "/sched/latencies:seconds"
  std::string_view description;  ///< in a few words
  kind what = kind::count;
  std::uint64_t count = 0;      ///< kind::count
  double value = 0;             ///< kind::value
  std::vector<double> buckets;  ///< kind::histogram: bounds; the first and the last are infinite
  std::vector<std::uint64_t> counts;  ///< … and how many are between each two of them
};

/// All metrics, sorted by name: docs/debugging.md lists them. Stops nobody; what is read while others run is
/// approximate, and may not add up.
WEFT_EXPORT std::vector<metric> metrics();

/// Calls f, which may block this thread, and returns what it returns. Others get the P within some 20 us if
/// they need it. Never necessary: a call that blocks unannounced loses its P as well, only later. Costs a few
/// nanoseconds. On a plain thread it just calls f.
template <class F>
decltype(auto) blocking(F&& f) {
  const detail::blocking_call here(false);
  return std::forward<F>(f)();
}

/// The same for calls that are known to block for long: others get the P at once.
template <class F>
decltype(auto) blocking_for_long(F&& f) {
  const detail::blocking_call here(true);
  return std::forward<F>(f)();
}

/// Gives back now what is kept for later, as far as nobody uses it: the memory of idle stacks, and what
/// lay in a weft::pool since the last gc() but one. Stops the world for a moment. While the program works
/// the runtime does so itself every two minutes; more when memory is short (docs/guide/memory.md).
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

namespace weft {

/// In its scope the goroutine is not stopped for others' sake, however long it computes. For sections that
/// must not be torn apart in time; nests. Blocking in it is allowed, but may cost its P as anywhere: when the call is over
/// it may be made to wait for another one, wherever it is in the scope by then.
class WEFT_EXPORT no_preempt {
 public:
  no_preempt() noexcept;
  ~no_preempt();
  no_preempt(const no_preempt&) = delete;
  no_preempt& operator=(const no_preempt&) = delete;
};

}  // namespace weft
