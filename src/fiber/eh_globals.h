// The C++ runtime's exception state, kept per goroutine instead of per thread.
//
// Problem. The Itanium ABI keeps two words per thread: the chain of exceptions being handled, and
// the number thrown and not yet caught (what std::uncaught_exceptions() returns). A goroutine that
// parks inside a catch block, or in a destructor during unwinding, would leave them to its successor:
// `throw;` rethrows somebody else's exception, and the chains of two goroutines become entangled.
//
// Protocol. E1: the thread's block holds the state of the goroutine that runs on it; the copy in a
// running goroutine is zero. Leaving moves the block's contents to the goroutine and zeroes the
// block; entering moves them back. Both test for "not zero" first, which practically never is: a
// switch then costs two loads and a branch, and writes nothing.
//
// The block's address is found once per M, by thread_eh_state(): __cxa_get_globals() is a function
// call plus a TLS look-up, and its address never changes during a thread's life. Its layout is part
// of the ABI (section 2.2.2) and the same in libstdc++ and libc++abi; 32-bit ARM alone differs.
#pragma once

#include <cstdint>

namespace weft::rt {

/// Mirrors abi::__cxa_eh_globals.
struct eh_state {
  void* caught = nullptr;  ///< innermost exception being handled
  unsigned uncaught = 0;   ///< thrown, not yet caught

  /// One test instead of two: every switch asks.
  bool any() const noexcept { return (reinterpret_cast<std::uintptr_t>(caught) | uncaught) != 0; }
};

/// The calling thread's block. Must be called on the thread, not before it can run user code.
/// Ensures: the block exists from here on, so that using it allocates nothing.
eh_state* thread_eh_state() noexcept;

/// Before a goroutine leaves the thread that owns `block`. True: there was something to keep. keeps E1
inline bool eh_leave(eh_state* block, eh_state& goroutine) noexcept {
  if (!block->any()) [[likely]] {
    return false;
  }
  goroutine = *block;
  *block = {};
  return true;
}

/// After a goroutine came to the thread that owns `block`. Requires: the block is zero. keeps E1
inline void eh_enter(eh_state* block, eh_state& goroutine) noexcept {
  if (goroutine.any()) [[unlikely]] {
    *block = goroutine;
    goroutine = {};
  }
}

}  // namespace weft::rt
