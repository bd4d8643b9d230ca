// Stopping goroutines that do not come to a scheduling point, when the process exits. See freeze.cc.
#pragma once

#include <cstdint>

namespace weft::rt {

// Stops every M that still runs a goroutine, other than the caller, where it is. The caller is the
// thread in exit(). Returns when they have stopped, or after a bounded time.
void freeze_stragglers();

// It has listed somebody, and is about to stop them.
bool freezing_for_exit();

// In the handler of the signal by which that is done. True: it was for this, and is over.
bool freeze_for_exit();

// For sysmon, every now and then, and for the spawner: does not return if it is needed as the guardian.
void guard_exit_if_asked();

// Goroutines are in the user's code though they hold no P.
bool somebody_is_outside();

}  // namespace weft::rt
