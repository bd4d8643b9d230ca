// The one way to block (D8). Everything that waits in weft (a lock, a join, later a channel or a
// socket) is thin over these two, for goroutines and plain threads alike.
#pragma once

#include "gmp/wait_reason.h"
#include "gmp/waiter.h"

namespace weft::rt {

using commit_fn = bool (*)(waiter*, void*);

// Blocks the calling goroutine, or the calling plain thread, until wake(&w).
//
// `commit(&w, arg)` publishes the waiter: it runs once the goroutine is off its stack, on somebody
// else's. After it has published, the goroutine may already run elsewhere, so it touches neither *w
// nor anything on the goroutine's stack any more. If it returns false, nobody has seen w, nobody
// will wake it, and block() returns at once.
//
// `object` is the address of the atomic by which commit publishes; TSan is told that the waiter
// released it.
//
// Requires: no runtime lock held. Runs on: G, plain thread. Blocks: G or thread.  Go: gopark
void block(waiter& w, commit_fn commit, void* arg, void* object, wait_reason reason);

// Lets a blocked waiter go on. Exactly once per successful commit. *w may be gone on return.
// Runs on: G, plain thread, g0. Blocks: nothing.  Go: goready
void wake(waiter* w);

}  // namespace weft::rt
