// P: the right to run goroutines, and everything that should be local while running them: the run
// queue, free Gs, warm stacks, counters. There are gomaxprocs of them.
//
// An M that holds a P is its only writer, save for what says otherwise. Ps are never freed.
//
// Go: runtime/runtime2.go type p
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "fiber/stack.h"
#include "gmp/g.h"
#include "gmp/run_queue.h"
#include "gmp/time_histogram.h"
#include "timer/timer_set.h"

namespace weft::rt {

struct M;

enum class p_status : std::uint32_t { idle = 0, running = 1, stopped = 3, dead = 4 };

#if defined(WEFT_CHAOS) || defined(WEFT_MODEL)
inline constexpr std::uint32_t kRunQueueSize = 4;
#else
inline constexpr std::uint32_t kRunQueueSize = 256;
#endif

// What sysmon remembers of a P from one look to the next.
struct p_watch {
  std::uint32_t tick = 0;
  std::int64_t since = 0;  // it has had this slice at least since then
  long long cpu = -1;      // processor time of its thread; -1: not asked yet
  std::int64_t cpu_when = 0;
  std::int64_t still_since = 0;  // it has used none since then, at least
  std::uint32_t call = 0;        // the call that may block in which it was, and since when
  std::int64_t call_when = 0;
  std::uint32_t switches = 0;  // of the P, when it was last looked at
  bool asked = false;
  bool signalled = false;
};

struct alignas(128) P {
  static constexpr std::uint32_t kStackCache = WEFT_TSAN ? 256 : 32;
  static constexpr std::uint32_t kFreeHigh = 64;  // [L-6]
  static constexpr std::uint32_t kFreeLow = 31;
  static constexpr std::uint32_t kFreeRefill = 32;

  P() noexcept = default;
  // Of the arena. What is large, and mostly stays as it is, lies at the end, and is not touched.
  explicit P(on_zeros zeros) noexcept : timers(zeros) {}

  run_queue<G, kRunQueueSize> runq;

  // -- owner only
  alignas(64) std::uint32_t free_count = 0;
  G* free_gs = nullptr;
  std::uint64_t goid_next = 0;
  std::uint64_t goid_end = 0;
  std::uint64_t goid_block = 16;  // doubles at each refill
  std::uint32_t stack_count = 0;
  bool lone = false;          // no other P exists: nobody steals
  bool wakes_nobody = false;  // because of that, or in a crowd of timers (sched/timers.cc)
  bool has_turn = false;  // it was handed out with work as the world started: W3 in sched/world.cc
  atomic<M*> m{nullptr};  // sysmon looks at it at any time
  std::int32_t id = 0;
  std::uint32_t lone_yields = 0;  // to nobody
  // When to read the clock for timers: dearer than a switch, so not at each one (sched/timers.cc).
  std::uint32_t timer_countdown = 1;  // switches until the next look, if there are timers
  std::uint32_t timer_interval = 1;
  std::int64_t timers_seen = 0;  // the time of the last look

  // -- written by the owner, read by anybody
  alignas(64) atomic<std::int64_t> goroutines{
      0};                              // spawned minus ended here; the sum over Ps counts
  atomic<std::uint32_t> switches{0};   // every switch: tells a thief that the owner is alive
  atomic<std::uint32_t> schedtick{0};  // time slices: a runnext hand-over inherits its slice
  atomic<p_status> status{p_status::stopped};
  atomic<int> thread{0};                  // tid of the M that holds it, 0: none
  atomic<std::int64_t> mutex_wait{0};     // ns, an estimate
  atomic<std::int64_t> held_since{0};     // when its M has taken it
  atomic<std::uint32_t> first_slice{0};   // … and with it began this one
  atomic<std::uint32_t> deaf_slice{~0u};  // of one for whom a flag was not enough last time

  // -- written by others, read by the owner at every scheduling point
  alignas(64) atomic<std::uint32_t> attention{0};  // the world is stopping

  // -- guarded by sched.lock
  P* idle_next = nullptr;
  std::uint32_t switches_seen = 0;  // when the scavenger last looked (sched/scavenger.cc)

  // -- sysmon only
  p_watch watch;

  stack stacks[kStackCache];  // owner only: warm, LIFO
  time_histogram latencies;   // written by the owner: how long goroutines were runnable

  // -- has its own lock
  alignas(64) timer_set timers;
};

}  // namespace weft::rt
