// The poller as the scheduler sees it, and what those who wait for descriptors need of the scheduler.
#pragma once

#include <cstdint>

#include "gmp/ready_list.h"
#include "gmp/sched.h"

namespace weft::rt {

// -- by those who wait (io/poll_wait.cc)

// In the commit of a wait, before the waiter is published; io_wait_over() if that fails.
void io_wait_begins();
void io_wait_over();
// After a plain thread has published its waiter: an M must look for news on its behalf.
void somebody_must_poll();
// A waiter that a deadline, a close or a cancellation has taken out.
void wake_io_waiter(waiter* w);

// -- by the scheduler

// Somebody waits for a descriptor: it may be woken from outside at any time.
inline bool io_is_awaited() {
  return sched.io_waiters.load(WEFT_ORDER(IO0, relaxed)) > 0;  // order: IO0 relaxed, see PO1
}
// A G that has become runnable, the others are on mp's P. Null: no news. Runs on: g0. Blocks: nothing.
G* poll_for_work(M* mp);
// True: mp waits for news until it is woken, by collect_ready() and not on its note.
[[nodiscard]] bool begin_polling(M* mp) WEFT_REQUIRES(sched.lock);
void end_polling(M* mp) WEFT_REQUIRES(sched.lock);
// Wakes mp, whose note `park` was not set. Ends its sleep in the poller, too, if `polls`.
void wake_sleeping_m(M* mp, bool polls);
// mp has a P: its ring gets those who are ready.
void queue_ready(M* mp, ready_list& list);
// There is no P to be had: the global queue gets them.
void queue_ready_globally(ready_list& list) WEFT_REQUIRES(sched.lock);
// A P is about to go idle without its M, and nobody else would poll.
bool nobody_would_poll() WEFT_REQUIRES(sched.lock);

// For sysmon, at each of its rounds: if Ps are so busy that nobody has looked for 10 ms, it does.
// Waits for no lock but sched.lock, allocates nothing, starts no thread itself.
void netpoll_backstop(std::int64_t now);

}  // namespace weft::rt
