// A stack for signal handlers: what a handler needs must not depend on how much of a goroutine's stack
// is left. The kernel alone pushes some 11 KiB on processors with large vector registers.
#pragma once

#include <cstddef>

namespace weft::rt {

/// Memory for one thread's handlers; kept by its M, so that threads which come and go do not leak it.
class signal_stack {
 public:
  /// Makes it the calling thread's, unless that has one already (the program's, a sanitizer's).
  /// Without memory the thread goes without.
  void adopt() noexcept;
  /// Before the thread leaves its M. Does nothing if the thread has been given another one meanwhile.
  void abandon() noexcept;

 private:
  void* memory_ = nullptr;
};

}  // namespace weft::rt
