// Starting goroutines, yielding, ending early.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include <weft/detail/spawn.h>

namespace weft {

/// Attributes of a new goroutine. The name appears in dumps; a stack size of 0 is the default
/// (256 KiB reserved, committed page by page), and less than 32 KiB is taken for 32 KiB.
struct attrs {
  std::string_view name = {};
  std::size_t stack_size = 0;
};

/// Runs f(args...) concurrently as a goroutine. Callable and arguments are decayed and moved or
/// copied into it, as std::thread does; move-only ones are welcome. The result is discarded; an
/// exception that leaves it ends the process with a panic report. May be called from plain threads
/// and from static initialisers too.
///
/// An empty function (null pointer, empty std::function) is a fatal error.
template <class F, class... Args>
requires(!std::is_same_v<std::decay_t<F>, attrs>)
    [[gnu::always_inline]] inline void go(F&& f, Args&&... args) {
  detail::spawn(nullptr, std::forward<F>(f), std::forward<Args>(args)...);
}

template <class F, class... Args>
[[gnu::always_inline]] inline void go(attrs a, F&& f, Args&&... args) {
  const detail::spawn_options options{a.name, a.stack_size, false};
  detail::spawn(&options, std::forward<F>(f), std::forward<Args>(args)...);
}

/// Lets everybody else who is runnable on this P have a turn first. On a plain thread: sched_yield.
WEFT_EXPORT void gosched();

/// Ends the calling goroutine: unwinds its stack, running destructors. A catch (...) on the way may
/// run its handler, but the goroutine ends nevertheless. In the goroutine of run() the program goes
/// on with the others, and if none is left that is a fatal error. Not for plain threads.
[[noreturn]] WEFT_EXPORT void goexit();

}  // namespace weft
