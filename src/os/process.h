// What the kernel knows about this process and its threads.
#pragma once

namespace weft::rt {

/// The kernel's id of the calling thread; asked each time, since a cached one is wrong after fork.
int gettid() noexcept;

/// The number of threads of this process that could run user code: the entries of /proc/self/task
/// without io_uring's workers (`iou-*`), TSan's background thread and qemu-user's own thread.
/// Returns -1 if /proc cannot be read: then nothing is known about other threads.
/// Neither allocates nor takes a lock. Runs on: any stack with 8 KiB left. Blocks: M, briefly.
int count_tasks() noexcept;

/// What the thread does, as the kernel's letter (R running or runnable, S or D asleep …); 0 if it is
/// gone, or if that cannot be read: no /proc, no descriptor left, not allowed. Neither allocates nor takes a lock.
char task_state(int tid) noexcept;
constexpr bool is_asleep(char state) noexcept { return state == 'S' || state == 'D'; }

/// Whether the thread, which is asleep, may be waiting for a lock of this process: whether its system call is one that waits for
/// somebody else to let something go, futex(2), flock(2), fcntl(2), semop(2). True if the kernel does not tell. Neither
/// allocates nor takes a lock.
bool task_waits_for_lock(int tid) noexcept;

/// Whether the thread keeps this signal back. Neither allocates nor takes a lock.
bool task_blocks(int tid, int signal) noexcept;

/// Nanoseconds since this process was started, to a hundredth of a second; 0 if that is unknown.
long long process_age() noexcept;

/// Nanoseconds of processor time that the thread has used; -1 if it is gone.
long long task_cpu_time(int tid) noexcept;
/// It is on a processor at this moment, another one than the caller's: cheap. False if it waits, for one or in the kernel.
bool task_runs(int tid) noexcept;

/// Before the first called_by_exit(): asks the loader, which is out of the question while a thread ends.
void find_exit() noexcept;

/// Whether the caller was called by exit(), as destructors of thread_locals are by the thread that exits;
/// when a thread merely ends they are called by the C library's start of threads. Looks a few frames up.
/// False if that cannot be found out.
bool called_by_exit() noexcept;

}  // namespace weft::rt
