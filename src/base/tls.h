// The thread-locals of the runtime: which M this thread is, whether its end is watched, and
// whether it has stopped the world.
//
// A goroutine may go on on another thread after any park, but compilers assume that a thread's
// address space of thread-locals does not change within a function, and keep the address in a
// register. So nobody may touch a thread_local directly: this accessor is never inlined, never
// assumed pure, and is asked again after every switch. Code that has just switched uses the M that
// the switch returned instead.
//
// Rejected: an inlined assembly read of the thread pointer. It would save a nanosecond and has to be
// written anew for each architecture and TLS model.
#pragma once

namespace weft::rt {

struct M;

// Null on threads that are not the runtime's. Runs on: any, signal handlers included.
M* current_m() noexcept;
void set_current_m(M* mp) noexcept;

// A plain thread has stopped the world, so that it must not wait for anybody.
bool thread_stops_world() noexcept;
void set_thread_stops_world(bool stops) noexcept;

// Calls f once, on this thread's end or when this thread calls exit(): glibc runs these before any
// atexit handler and any destructor of a static. Later calls on the same thread do nothing.
void on_thread_end(void (*f)(void*)) noexcept;

}  // namespace weft::rt
