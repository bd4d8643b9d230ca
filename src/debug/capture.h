// The registers of a thread that runs elsewhere: for stacks of goroutines that are not parked.
//
// Asleep in the kernel, be it in a system call of the program or frozen in a handler of weft's: the kernel
// says in /proc/self/task/TID/syscall where, without the thread noticing. (A signal would turn its call
// into EINTR, and not every call can be resumed: sched/restart.h.) But the kernel tells the stack pointer alone,
// and without optimisation functions find their frames by another register. So if that is not enough for a
// walk to the end, and in any case if the thread runs, it gets a signal, whose handler copies its registers
// and waits until the walk is over. The signal is SIGQUIT with a cookie, and so this works only as long as that
// is weft's (debug/quit.h), which is looked up each time; otherwise the stack is not available, or a part of it. (A
// program that takes SIGQUIT at the very moment of a walk may see one: nobody can look and send in one step.)
//
// Frozen by preemption: the handler in which it sleeps has left a note of what it has interrupted.
//
// There is one slot (debug/capture_slot.h). Who finds it taken gets no registers; an asker that waits in
// vain for a second takes the request back.
#pragma once

#include <cstdint>
#include <signal.h>
#include <ucontext.h>

#include "debug/frame.h"

namespace weft::rt {

// Registers at a signal.
frame interrupted_frame(const ucontext_t& at) noexcept;

// The innermost frame of another thread of this process while this exists.
// Runs on: any, signal handlers included. Blocks: the thread, for up to a second.
class captured_thread {
 public:
  explicit captured_thread(int tid) noexcept;
  // A thread that preemption has frozen; `interrupted`: M::interrupted, or null.
  captured_thread(int tid, const void* interrupted) noexcept;
  captured_thread(const captured_thread&) = delete;
  captured_thread& operator=(const captured_thread&) = delete;
  ~captured_thread();

  explicit operator bool() const { return known_; }
  const frame& innermost() const { return innermost_; }

 private:
  bool ask_kernel(int tid) noexcept;
  bool ask_thread(int tid, std::int64_t patience) noexcept;

  frame innermost_;
  bool known_ = false;
  bool holds_slot_ = false;
};

// Whether the signal is such a request; answers it. Runs on: signal.
bool answer_capture(const siginfo_t* info, const ucontext_t& at) noexcept;

// The handler of SIGQUIT by which threads answer, from now on.
using capture_handler = void(int, siginfo_t*, void*);
void capture_by(capture_handler* handler) noexcept;

}  // namespace weft::rt
