// The end of threads that used weft, and of the process. See thread_exit.cc.
#pragma once

#include "gmp/waiter.h"

namespace weft::rt {

// Have this thread's end noticed.
void watch_thread_exit();

// The net for exit() on threads that weft never saw; once, at boot.
void watch_process_exit();

// exit() has begun: goroutines are frozen and nothing is scheduled any more.
bool process_is_exiting();
// The calling thread is the one that called exit().
bool this_thread_exits();

// The thread in exit() waits, perhaps in the destructor of a static. Goroutines are stopped for good;
// a plain thread may still wake it. If nobody can, that is a fatal error. Blocks: M.
void sleep_in_exit(waiter& w);

}  // namespace weft::rt
