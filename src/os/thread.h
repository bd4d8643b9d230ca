// Creating OS threads, the way the scheduler needs them. Go: runtime/os_linux.go newosproc,
// runtime/cgo gcc_libinit.c _cgo_try_pthread_create.
#pragma once

namespace weft::rt {

/// Attempts before EAGAIN is believed; attempt i is followed by a sleep of i milliseconds.
inline constexpr int kThreadCreateAttempts = 20;

/// Starts a detached thread that runs fn(arg) with all signals blocked; an M unblocks them itself
/// once its signal stack stands (otherwise a handler could run before the M exists), sysmon where it sleeps.
/// Returns 0, or the errno of the last attempt: EAGAIN is retried kThreadCreateAttempts times. What
/// to print then is the caller's affair.
/// Runs on: any thread without a P (pthread_create takes libc locks). Blocks: M, up to 210 ms.
[[nodiscard]] int create_thread(void* (*fn)(void*), void* arg) noexcept;

/// The calling thread runs for a short time only, again and again; or no longer. The kernel (Linux >= 6.12) serves such
/// threads first: others may have to wait until the slice of one that computes is over, which is some milliseconds. A
/// kernel that knows nothing of it does nothing, and one that forbids it changes nothing. The threads that it creates are
/// like it, unless that is not `inherited`: for good.
void ask_for_short_slices(bool shortly, bool inherited = true) noexcept;

}  // namespace weft::rt
