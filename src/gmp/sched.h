// The global scheduler record: everything that belongs to no single P or M.
//
// Constant-initialised and never destroyed: goroutines may be started by static initialisers and
// may be frozen, but still there, while static destructors run.
//
// Go: runtime/runtime2.go type schedt
#pragma once

#include <csignal>
#include <cstdint>

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/counters.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/note.h"
#include "gmp/foreign_count.h"
#include "gmp/global_queue.h"
#include "gmp/idle_state.h"
#include "gmp/m.h"
#include "gmp/nap.h"
#include "gmp/p.h"
#include "gmp/p_table.h"
#include "gmp/stop_gate.h"

namespace weft::rt {

inline constexpr int kMaxProcs = 1 << 20;         // address space for the table, not a policy
inline constexpr int kDefaultMaxThreads = 10000;  // [CN-3]
inline constexpr std::uint32_t kFairnessTick =
    61;  // every 61st slice looks at the global queue first
inline constexpr std::uint32_t kLongestSlice = 64;  // switches; then the ring goes before runnext

struct sched_state {
  // -- read by everybody, written when the number of Ps changes (world stopped)
  alignas(64) p_table<P> ps;
  std::int32_t cpus = 1;    // constant after boot
  sigset_t initial_mask{};  // constant after boot: what Ms run user code with

  // -- the idle protocol's counters, on a line of their own
  idle_state idle;
  nap dozer;

  // -- guarded by lock
  alignas(64) ranked_lock lock{lock_rank::sched};
  global_queue runq;
  P* idle_ps WEFT_GUARDED_BY(lock) = nullptr;  // LIFO
  M* idle_ms WEFT_GUARDED_BY(lock) = nullptr;  // LIFO, doubly linked
  M* all_ms WEFT_GUARDED_BY(lock) = nullptr;
  M* free_ms WEFT_GUARDED_BY(lock) = nullptr;      // records of threads that were lent
  std::int32_t ps_made WEFT_GUARDED_BY(lock) = 0;  // Ps that were ever made; they stay
  std::int32_t idle_m_count WEFT_GUARDED_BY(lock) = 0;
  std::int32_t locked_m_idle WEFT_GUARDED_BY(lock) = 0;  // locked Ms that wait for their goroutine
  std::int32_t m_count WEFT_GUARDED_BY(lock) = 0;        // Ms that exist or are being created
  std::uint64_t m_next_id WEFT_GUARDED_BY(lock) = 0;
  std::int32_t max_threads WEFT_GUARDED_BY(lock) = kDefaultMaxThreads;

  // -- timers (sched/timer_watch.cc)
  M* timer_watcher WEFT_GUARDED_BY(lock) = nullptr;  // the idle M that sleeps until the next one
  M* timer_deputy WEFT_GUARDED_BY(lock) = nullptr;   // sleeps until after that, in a crowd
  std::int64_t deputy_until WEFT_GUARDED_BY(lock) = 0;
  bool crowd_waits WEFT_GUARDED_BY(lock) = false;  // the watcher shall look for work, too
  // Until when; 0: there is no watcher. Written under lock.
  alignas(64) shared_atomic<std::int64_t> watched_until{0};

  // -- stopping the world (sched/world.cc)
  stop_gate gate;                                 // all but waiting under the lock
  bool restarting WEFT_GUARDED_BY(lock) = false;  // Ps with work are on their way to their Ms
  bool world_held WEFT_GUARDED_BY(lock) = false;  // somebody stops, or has stopped, the world
  waiter* world_first WEFT_GUARDED_BY(lock) = nullptr;
  waiter* world_last WEFT_GUARDED_BY(lock) = nullptr;

  // -- goroutine records
  ranked_lock gfree_lock{lock_rank::gfree};
  G* free_gs WEFT_GUARDED_BY(gfree_lock) = nullptr;
  std::uint32_t free_g_count WEFT_GUARDED_BY(gfree_lock) = 0;
  alignas(64) shared_atomic<std::uint64_t> goid_next{2};  // 1 is the goroutine of the first run()
  shared_atomic<std::int64_t> foreign_goroutines{0};      // spawned by threads without a P
  atomic<std::uint32_t> main_started{0};
  atomic<std::uint32_t> runs_left{
      0};  // goroutines of run() that ended by goexit(): it waits for ever

  // -- plain threads asleep inside weft (sched/foreign.cc)
  alignas(64) foreign_count foreign;

  std::int32_t proc_count() const { return ps.count(); }
  P* p(std::int32_t i) const { return ps.at(i); }
};

extern constinit sched_state sched;

}  // namespace weft::rt
