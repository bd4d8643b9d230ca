// Goroutines whose P was taken while they blocked: who gets the P, and what if they compute again.
//
// Such a goroutine keeps its thread, and does not notice; it asks for a P when it next enters the runtime (preempt.cc,
// come_back()). If it uses the processor again before, it is frozen, so that no more than gomaxprocs compute. Its clock tells;
// with many of them sysmon reads only some of the clocks at each look, and all of them once in a millisecond.
//
// So sysmon looks every millisecond where somebody computes and there is no idle P for each of those who may come back. But a
// look costs a thread switch each way, beside somebody who computes, and a call may last for hours. So if none of them has
// used its processor for long, nor lost its P, the pause is a 32nd of that time: whoever comes back computes for three per cent
// of the time too long that it was away, or for a millisecond. Longest is sysmon's longest pause, 10 ms, which it also is where
// a P was idle at the last look, or nobody computed. Nobody wakes sysmon when that changes: it would happen with every request
// of a server beside one who blocks.
//
// Go: runtime/proc.go handoffp [SC-4]
#include <algorithm>
#include <utility>

#include "os/clock.h"
#include "os/process.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/sysmon.h"

namespace weft::rt {

namespace {

constexpr long long kComputes = 100'000;          // ns used since the last look
constexpr std::int64_t kRobbedRound = 1'000'000;  // ns in which all are looked at
constexpr std::int64_t kCalmPart = 32;            // of the time for which none of them has stirred
constexpr std::int32_t kAskedAtOnce = 16;

// sysmon's own
constinit std::int64_t last_robbed_look = 0;
constinit std::int64_t last_stir = 0;  // one of them was seen to have used its processor, or is new

struct asked_m {
  M* mp;
  int tid;
};

// The frozen one that the P goes to, if any. One of those who were stopped may hold the lock that this one waits for.
G* take_frozen_locked(bool for_lock) WEFT_REQUIRES(sched.lock) {
  const std::int64_t now = nanotime();
  if (sched.gate.closed() || !(for_lock || sched.idle_ms == nullptr ||
                               sched.runq.frozen_are_next(fresh_work_locked(), now))) {
    return nullptr;
  }
  return sched.runq.pop_frozen(now, for_lock);
}

}  // namespace

bool is_running(const P* pp) {
  // order: relaxed, looked at again under sched.lock
  return pp->status.load(WEFT_ORDER(PS0, relaxed)) == p_status::running;
}

bool rob(P* pp, M* mp, std::uint32_t tick, std::int32_t fresh, bool for_lock) {
  sched.lock.lock();
  // order: relaxed, compared only
  if (pp->m.load(WEFT_ORDER(PM1, relaxed)) != mp || !is_running(pp) || slice_of(pp) != tick ||
      (thread_is_created_locked() && !WEFT_MUTANT("robbed-beside-creation")) || !mp->border.rob()) {
    sched.lock.unlock();
    return false;  // … or another time. keeps PE2
  }
  tsan_acquire(&mp->p);  // from leave_runtime(): the border's release is the goroutine's
  mp->curg->transition<g_status::running, g_status::syscall>();
  release_p(mp, p_status::idle);
  list_robbed_locked(mp);
  ++sched.robberies;
  // Whoever comes next may block just so. Threads take long to come, more so on a busy machine.
  request_spare_ms_locked(spares_for(static_cast<std::uint32_t>(fresh)));
  if (G* gp = take_frozen_locked(for_lock)) {
    hand_p_unlock(gp->m, pp);
    return true;
  }
  prepare_for_fresh_locked(pp);
  sched.lock.unlock();
  hand_off_p(pp);
  return true;
}

bool is_in_a_call(int tid) { return is_asleep(task_state(tid)); }

void list_robbed_locked(M* mp) {
  mp->cpu_seen = task_cpu_time(mp->tid);
  mp->robbed_next = sched.robbed_ms;
  sched.robbed_ms = mp;
  sched.robbed_anew = true;
  ++sched.robbed_count;
}

void lends_no_more_locked(M* mp) {
  if (mp->lends) {
    mp->lends = false;
    if (sched.gate.closed() && !WEFT_MUTANT("lender-does-not-arrive")) {
      sched.gate.arrive();
    }
  }
}

bool forget_robbed_locked(M* mp) {
  for (M** link = &sched.robbed_ms; *link != nullptr; link = &(*link)->robbed_next) {
    if (*link == mp) {
      *link = mp->robbed_next;
      sched.next_robbed = sched.next_robbed == mp ? mp->robbed_next : sched.next_robbed;
      mp->robbed_next = nullptr;
      --sched.robbed_count;
      lends_no_more_locked(mp);
      return true;
    }
  }
  return false;
}

namespace {

// The world stops. Those who are known to compute are waited for; but not if one has come to block meanwhile.
std::int32_t computing_lenders_locked(asked_m* out) WEFT_REQUIRES(sched.lock) {
  std::int32_t n = 0;
  for (M* mp = sched.robbed_ms; mp != nullptr && n < kAskedAtOnce; mp = mp->robbed_next) {
    if (!mp->lends || !mp->border.outside()) {
      continue;
    }
    if (is_in_a_call(mp->tid)) {
      lends_no_more_locked(mp);
    } else {
      out[n++] = {mp, thread_to_signal(mp)};
    }
  }
  return n;
}

// Where nobody computes, or each of them would find a P, there is no hurry.
std::int64_t next_robbed_look_locked(std::int64_t now) WEFT_REQUIRES(sched.lock) {
  const std::int32_t idle = sched.idle.idle();
  return idle == sched.proc_count() || sched.robbed_count <= idle
             ? kNever
             : std::clamp((now - last_stir) / kCalmPart, kRobbedRound, kLongestLook);
}

}  // namespace

// keeps gomaxprocs a bound
std::int64_t freeze_robbed(std::int64_t now) {
  asked_m computing[kAskedAtOnce];
  sched.lock.lock();
  std::int32_t n = sched.gate.closed() ? computing_lenders_locked(computing) : 0;
  bool stir = std::exchange(sched.robbed_anew, false);
  // Each of them once in a round: in between one may have used too little for it to be seen.
  const std::int64_t passed = now - last_robbed_look;
  std::int64_t left = sched.robbed_count * std::min(passed, kRobbedRound) / kRobbedRound;
  if (passed >= kRobbedRound) {
    last_robbed_look = now;
  } else if (left > 0) {
    last_robbed_look += left * kRobbedRound / sched.robbed_count;
  }
  for (; left > 0 && n < kAskedAtOnce; --left) {
    M* mp = sched.next_robbed != nullptr ? sched.next_robbed : sched.robbed_ms;
    if (mp == nullptr) {
      break;
    }
    sched.next_robbed = mp->robbed_next;
    const long long cpu = task_cpu_time(mp->tid);
    if (cpu - mp->cpu_seen >= kComputes && mp->border.outside() && !is_in_a_call(mp->tid)) {
      computing[n++] = {mp, thread_to_signal(mp)};
    }
    stir |= cpu != mp->cpu_seen;
    mp->cpu_seen = cpu;
  }
  last_stir = stir ? now : last_stir;
  const std::int64_t pause = next_robbed_look_locked(now);
  sched.lock.unlock();
  for (std::int32_t i = 0; i < n; ++i) {
    ask_to_yield(computing[i].mp, computing[i].tid);
  }
  return pause;
}

}  // namespace weft::rt
