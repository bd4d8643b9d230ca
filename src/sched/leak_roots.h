// What goroutines hold at the end of the process, for leak checkers. See leak_roots.cc.
#pragma once

#include "fiber/sanitizer.h"

namespace weft::rt {

// Shows LeakSanitizer what live goroutines point to. Requires: the world is frozen. Runs on: the thread
// that exits.
#if WEFT_ASAN
void show_leak_roots() noexcept;
#else
inline void show_leak_roots() noexcept {}
#endif

}  // namespace weft::rt
