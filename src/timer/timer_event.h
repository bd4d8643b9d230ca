// One moment at which something is to happen. Intrusive: whoever waits for it owns the memory, which
// may be a frame of the parked goroutine itself, so that a sleep allocates nothing.
//
// Life of an event:
//
//   idle ──start──► pending in a set ──due──► firing ──fire() returned──► fired
//    ▲                   │cancel: true           │cancel: waits, false      │cancel: false
//    └───────────────────┴───────────────────────┴──────────────────────────┘
//
// Who may touch it. Idle: its owner. Pending: the set's lock guards all fields but `where`. Once
// fire() has been called the runtime never touches the event again, so fire() may let it go (wake
// the goroutine on whose stack it is); who needs to know that fire() has returned calls cancel.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

inline constexpr std::int64_t kNever = INT64_MAX;

class timer_set;

struct timer_event {
  using fire_fn = void (*)(timer_event*, std::int64_t now);

  std::int64_t when = 0;  // nanotime(); never fires early. Constant while pending.
  // Runs on the scheduler's stack, or in a section, of whatever M found the event due. Must not
  // block; may wake(), start and cancel timers (also this one), and spawn.
  fire_fn fire = nullptr;

  // -- the set's
  timer_event* next = nullptr;
  timer_event* ahead = nullptr;  // one of the next few: prefetched, never looked at, may be gone
  timer_event** link = nullptr;  // what points at this event in its list
  // 0: idle; a set: pending there; a set + 1: due, fires or fired; 2: being started again.
  atomic<std::uintptr_t> where{0};
};

}  // namespace weft::rt
