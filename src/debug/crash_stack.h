// Reports are printed on a stack of their own: a goroutine's may be small, or nearly full, and that
// may be the very reason for the report; and the stack of a signal handler is small in any case.
//
// There is one such stack in the process, because there is one reporter at a time (base/fatal.h). A
// job returns to where it was started from, so that the reporter waits for others on its own stack.
// From a signal handler: with all signals blocked, since its stack looks free to the kernel meanwhile.
#pragma once

namespace weft::rt {

struct G;
struct M;

// Calls job(arg) on the crash stack if gp, the goroutine that runs here, is not null; otherwise
// right here, on a thread's stack, which is large.
// Requires: the caller is the reporter, and not yet on the crash stack.
void on_crash_stack(const G* gp, void (*job)(void* arg), void* arg) noexcept;

// The same for a handler that has interrupted this M, be it on a goroutine or on g0; null: a plain thread.
void on_crash_stack(const M* mp, void (*job)(void* arg), void* arg) noexcept;

}  // namespace weft::rt
