// An exception that nobody catches ends the process with Go's report:
//
//   panic: std::out_of_range: vector::_M_range_check: …
//
//   goroutine 7 [running]:
//   app::worker(...)
//           /usr/bin/app:0x1c52 +0x52
//   created by main(...) in goroutine 1
//           /usr/bin/app:0x1a0f +0x3f
//
// on standard error, and exit status 2. The stack is that of the throw, since the exception is met
// in its search phase (fiber/unwind.h). What weft throws itself, and strings and numbers, are
// printed as Go would; of other exceptions the type comes first, as C++ texts seldom stand alone.
//
// what() is user code: it is called before anything is frozen or printed, and may even park.
//
// Go: runtime/panic.go fatalpanic, printpanicval [EXT-3, EXT-4]
#pragma once

namespace weft::rt {

// Reports the current exception of the running goroutine as a panic.
// Requires: runs on a goroutine. Blocks: the thread, if another one is crashing.
[[noreturn]] void report_panic() noexcept;

}  // namespace weft::rt
