// The thread-locals of the runtime: which M this thread is, whose id locks are marked with here, whether its
// end is watched, and whether it has stopped the world.
//
// A goroutine may go on on another thread after any park, but compilers assume that a thread's
// address space of thread-locals does not change within a function, and keep the address in a
// register. So nobody may touch a thread_local directly: the accessors are never assumed pure, and are asked
// again after every switch. Code that has just switched uses the M that the switch returned instead.
//
// Which M this is, is asked at every entry of the runtime and at every exit. So it is read in assembly, where
// the thread pointer is read anew each time and nothing else is disturbed: called as a function it would cost
// a buffered channel a fifth of its speed, for the registers that a call may change.
#pragma once

#include <cstdint>

#include <weft/detail/owner.h>

namespace weft::rt {

struct M;

// Null on threads that are not the runtime's. Runs on: any, signal handlers included.
#if defined(__x86_64__) && !defined(WEFT_MODEL)
[[gnu::always_inline]] inline M* current_m() noexcept {
  M* mp;
  asm volatile(
      "movq weft_current_m@gottpoff(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(mp));
  return mp;
}
#elif defined(__aarch64__) && !defined(WEFT_MODEL)
[[gnu::always_inline]] inline M* current_m() noexcept {
  M* mp;
  void* thread;
  asm volatile(
      "adrp %0, :gottprel:weft_current_m\n\t"
      "ldr %0, [%0, #:gottprel_lo12:weft_current_m]\n\t"
      "mrs %1, tpidr_el0\n\t"
      "ldr %0, [%0, %1]"
      : "=&r"(mp), "=&r"(thread));
  return mp;
}
#else
M* current_m() noexcept;
#endif
void set_current_m(M* mp) noexcept;  // null: also, nobody runs here (below)

// What detail::this_owner() reads: the id of the goroutine that runs here from now on. At every switch, so
// likewise in assembly; and without a word about memory, since only assembly reads it.
#if defined(__x86_64__) && !defined(WEFT_MODEL)
[[gnu::always_inline]] inline void set_current_id(const std::uint64_t* id) noexcept {
  void* at;
  asm volatile(
      "movq _ZN4weft6detail10current_idE@gottpoff(%%rip), %0\n\t"
      "movq %1, %%fs:(%0)"
      : "=&r"(at)
      : "r"(id));
}
#elif defined(__aarch64__) && !defined(WEFT_MODEL)
[[gnu::always_inline]] inline void set_current_id(const std::uint64_t* id) noexcept {
  void* at;
  void* thread;
  asm volatile(
      "adrp %0, :gottprel:_ZN4weft6detail10current_idE\n\t"
      "ldr %0, [%0, #:gottprel_lo12:_ZN4weft6detail10current_idE]\n\t"
      "mrs %1, tpidr_el0\n\t"
      "str %2, [%0, %1]"
      : "=&r"(at), "=&r"(thread)
      : "r"(id));
}
#else
void set_current_id(const std::uint64_t* id) noexcept;
#endif

// A plain thread has stopped the world, so that it must not wait for anybody.
bool thread_stops_world() noexcept;
void set_thread_stops_world(bool stops) noexcept;

// Calls f once, on this thread's end or when this thread calls exit(): glibc runs these before any
// atexit handler and any destructor of a static. Later calls on the same thread do nothing.
void on_thread_end(void (*f)(void*)) noexcept;

}  // namespace weft::rt
