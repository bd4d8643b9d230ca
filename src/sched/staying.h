// Goroutines that keep their thread for a while. See staying.cc.
#pragma once

#include "gmp/inside.h"

namespace weft::rt {

// The calling goroutine keeps its thread, and the thread runs nobody else, until unpin_from_thread(). Nests.
// False: there is none; then there is nothing to undo. Runs on: G, plain thread, g0.
bool pin_to_thread() noexcept;
void unpin_from_thread() noexcept;
// For TSan: the caller comes after all who were pinned to this thread before.
void follow_pinned() noexcept;

}  // namespace weft::rt
