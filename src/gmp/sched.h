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
#include "gmp/sched_lock.h"
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
  // rarely written: at boot. An atomic, as locks ask for it which a plain thread may have met before.
  atomic<std::int32_t> cpus{1};
  sigset_t initial_mask{};              // constant after boot: what Ms run user code with
  bool blocked_runtime_signal = false;  // … which the process began without

  // -- the idle protocol's counters, on a line of their own
  idle_state idle;
  nap dozer;

  // -- guarded by lock
  alignas(64) sched_lock lock{lock_rank::sched};
  global_queue runq;
  P* idle_ps WEFT_GUARDED_BY(lock) = nullptr;  // LIFO
  M* idle_ms WEFT_GUARDED_BY(lock) = nullptr;  // LIFO, doubly linked
  M* all_ms WEFT_GUARDED_BY(lock) = nullptr;
  M* free_ms WEFT_GUARDED_BY(lock) = nullptr;      // records of threads that have left
  std::int32_t ps_made WEFT_GUARDED_BY(lock) = 0;  // Ps that were ever made; they stay
  std::int32_t idle_m_count WEFT_GUARDED_BY(lock) = 0;
  std::uint32_t idle_period WEFT_GUARDED_BY(lock) = 0;   // counts up while the runtime is in use
  std::int32_t locked_m_idle WEFT_GUARDED_BY(lock) = 0;  // locked Ms that wait for their goroutine
  std::int32_t m_count WEFT_GUARDED_BY(lock) = 0;        // Ms that exist or are being created
  std::int32_t leaving_ms WEFT_GUARDED_BY(lock) = 0;  // … of which so many are about to be none
  std::uint64_t m_next_id WEFT_GUARDED_BY(lock) = 0;
  std::int32_t max_threads WEFT_GUARDED_BY(lock) = kDefaultMaxThreads;

  // -- goroutines whose P was taken (sched/preempt.cc, sched/retake.cc)
  std::int32_t frozen_ms WEFT_GUARDED_BY(lock) = 0;  // wait for a P on their own threads
  M* robbed_ms WEFT_GUARDED_BY(lock) = nullptr;      // in the user's code without a P
  M* next_robbed WEFT_GUARDED_BY(lock) = nullptr;  // … whom sysmon looks at next; null: the first
  std::int32_t robbed_count WEFT_GUARDED_BY(lock) = 0;
  bool robbed_anew WEFT_GUARDED_BY(lock) = false;  // … one of them since sysmon last looked
  shared_atomic<bool> calls_last{
      false};  // those that are announced take long, mostly (sched/blocking.cc)
  P* unmanned_ps WEFT_GUARDED_BY(lock) = nullptr;         // have work, and wait for a new M
  std::int32_t spares_to_make WEFT_GUARDED_BY(lock) = 0;  // by the spawner
  std::int32_t spares_coming WEFT_GUARDED_BY(lock) = 0;  // asked for, and not among the idle Ms yet
  // Sysmon and the spawner are there, or coming; raised under lock. rarely written: once
  atomic<bool> begun{false};
  std::int32_t system_threads WEFT_GUARDED_BY(lock) = 0;  // they, as far as they are there
  // Ms that create threads; raised under lock. rarely written: for each thread that one creates
  atomic<std::int32_t> creators{0};

  // -- timers (sched/timer_watch.cc)
  M* timer_watcher WEFT_GUARDED_BY(lock) = nullptr;  // the idle M that sleeps until the next one
  M* timer_deputy WEFT_GUARDED_BY(lock) = nullptr;   // sleeps until after that, in a crowd
  std::int64_t deputy_until WEFT_GUARDED_BY(lock) = 0;
  bool crowd_waits WEFT_GUARDED_BY(lock) = false;  // the watcher shall look for work, too
  // Until when; 0: there is no watcher. Written under lock.
  alignas(64) shared_atomic<std::int64_t> watched_until{0};

  // -- waiting for I/O (sched/netpoll.cc)
  M* poller WEFT_GUARDED_BY(lock) = nullptr;              // the idle M that waits for news
  alignas(64) shared_atomic<std::int32_t> io_waiters{0};  // who waits for a descriptor
  shared_atomic<std::uint32_t> poll_asleep{0};   // poller != nullptr, for those without the lock
  shared_atomic<std::uint32_t> poll_looking{0};  // somebody looks for news, and comes back at once
  shared_atomic<std::uint32_t> poll_looks{0};    // so often somebody has looked

  // -- stopping the world (sched/world.cc)
  stop_gate gate;                                 // all but waiting under the lock
  bool restarting WEFT_GUARDED_BY(lock) = false;  // Ps with work are on their way to their Ms
  bool world_held WEFT_GUARDED_BY(lock) = false;  // somebody stops, or has stopped, the world
  waiter* world_first WEFT_GUARDED_BY(lock) = nullptr;
  waiter* world_last WEFT_GUARDED_BY(lock) = nullptr;

  // -- statistics (debug/metrics.cc)
  struct {
    time_histogram stopping_gc, stopping_other, total_gc, total_other;
  } pauses;
  std::int64_t stop_began = 0;                        // of who has stopped the world
  bool stop_is_gc = false;                            // likewise
  std::uint64_t freezes WEFT_GUARDED_BY(lock) = 0;    // by a signal, in the user's code
  std::uint64_t robberies WEFT_GUARDED_BY(lock) = 0;  // Ps taken from goroutines that blocked
  std::int64_t started_at = 0;                        // constant after boot
  shared_atomic<std::int64_t> foreign_mutex_wait{0};  // ns: of threads without a P

  // -- goroutine records
  ranked_lock gfree_lock{lock_rank::gfree};
  G* free_gs WEFT_GUARDED_BY(gfree_lock) = nullptr;
  std::uint32_t free_g_count WEFT_GUARDED_BY(gfree_lock) = 0;
  alignas(64) shared_atomic<std::uint64_t> goid_next{2};  // 1 is the goroutine of the first run()
  shared_atomic<std::int64_t> foreign_goroutines{0};      // spawned by threads without a P
  // Goroutines of the runtime's own, which are not counted elsewhere. rarely written: for each round of the scavenger
  atomic<std::int32_t> helpers{0};
  atomic<std::uint32_t> main_started{0};  // rarely written: for each run()
  // Goroutines of run() that ended by goexit(): it waits for ever. rarely written: for each of them
  atomic<std::uint32_t> runs_left{0};

  // -- plain threads asleep inside weft (sched/foreign.cc)
  alignas(64) foreign_count foreign;

  std::int32_t cpu_count() const {
    return cpus.load(WEFT_ORDER(BT0, relaxed));  // order: relaxed, a number
  }
  std::int32_t proc_count() const { return ps.count(); }
  P* p(std::int32_t i) const { return ps.at(i); }
};

extern constinit sched_state sched;

}  // namespace weft::rt
