// Poll descriptors: one record per descriptor that the poller watches.
//
// Records are never freed, only used again: news of a descriptor that is closed may still be under way,
// and the timer of a deadline may still fire. What such a latecomer finds is explained in poll_core.h.
//
// The poller knows a record by its name: its index, and which use of it is meant.
#pragma once

#include <cstdint>

#include "base/annotations.h"
#include "base/lock.h"
#include "gmp/ready_list.h"
#include "gmp/waiter.h"
#include "poll/poll_core.h"
#include "poll/poller.h"
#include "timer/timer_event.h"

namespace weft::rt {

struct poll_desc;

struct deadline_timer : timer_event {
  poll_desc* desc = nullptr;
  direction what = direction::read;
};

struct alignas(64) poll_desc : poll_core<waiter> {
  // -- constant while in use
  std::uint32_t index = 0;
  int fd = -1;

  // -- guarded by lock, as are the limits in poll_core
  ranked_lock lock{lock_rank::poll_desc};
  std::int64_t deadline[2] WEFT_GUARDED_BY(lock) = {kNever, kNever};
  deadline_timer timers[2] WEFT_GUARDED_BY(lock);

  poll_desc* next_free = nullptr;  // guarded by the table's lock

  // Once, when it is made: a timer of an earlier use may look at any time.
  void name_timers() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    for (auto d : {direction::read, direction::write}) {
      timers[static_cast<int>(d)].desc = this;
      timers[static_cast<int>(d)].what = d;
    }
  }
  std::uint64_t name() const { return static_cast<std::uint64_t>(use()) << 32 | index; }
};

// A record for fd, which the poller watches from now on. 0, or an errno if it cannot; EPERM: there is
// nothing to wait for, as with regular files.
int open_poll_desc(int fd, poll_desc** to);
// Requires: no one waits, closing. Before the descriptor itself is closed.
void close_poll_desc(poll_desc* pd);

// There is a poller when this returns.
void ensure_poller();

// Looks for news, also of the rings (poll/ring.h), waiting until `deadline` at most: see poller.h. Returns whom to wake.
ready_list collect_ready(std::int64_t deadline);

// True once there was a record.
bool poller_started() noexcept;

}  // namespace weft::rt
