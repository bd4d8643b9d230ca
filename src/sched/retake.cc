// Which Ps are taken from whom: sysmon's judgement.
//
// A P is looked at again and again while somebody waits and no P is idle. If it has switched since the
// last look, all is well. If not, the goroutine there is in the runtime (left alone), or in its own code:
//
//   it said that it may block           after 20 us its P is taken           runtime::blocking()
//   its thread's processor time stands  its P is taken; the goroutine does   D3
//   still, and the kernel calls it        not notice
//   asleep: it blocks
//   it stands still for 5 ms, and what    likewise
//   the kernel calls it is not known
//   otherwise it computes               after its slice it is asked to       D2, preempt.cc
//                                         yield: a flag, then a signal
//
// Where somebody has just lost its P because it blocked, the next one is expected to block, too: for some looks they are 60 us
// apart instead of 200. If it had said so, those who say so, too, give their Ps away themselves (blocking.cc).
//
// No single look is evidence: a thread that the kernel has merely descheduled uses no time, either, but
// is called running. Two looks 200 us apart suffice while work waits, so that many who block one after
// the other cost 0.2 ms each. Only one thing shows at once: a clock that goes on between two readings is that of a thread
// on another processor, which computes. It costs a microsecond, and the kernel's files twenty; so those are preferred of
// whom it is true.
//
// What the kernel calls it is said in /proc, which may be out of reach: no descriptor is left, or the program has locked itself up.
// To treat it as one that computes, as would be safe, would send it a signal, and some calls end by that (restart.cc). Whose
// clock stands still for longer than a slice of the kernel's is hardly one that is only descheduled; should it be, it goes on
// without a P, for a moment (robbed.cc). Rejected: a descriptor in reserve, to be closed for the look. A program that closes
// descriptors which are not its own, and gets the number for one of its files, would lose that.
//
// While all Ps switch by themselves, or are idle, the pause grows to 0.9 ms: it is that long, at most, until somebody
// is looked at for the first time. While all compute, and only those wait who were frozen
// before, there is nothing to find out but whether one begins to block: 2 ms.
//
// Whoever has lost its P in a call may come back at any time, and compute without one. Where that would be one too many, the
// pause is 1 ms, and longer when none of them has stirred for long (robbed.cc).
//
// Where Ps switch often and by themselves, and have done so for long, as those of a server do, the pause is 2 ms, and whoever
// makes work visible or takes an idle P does not wake sysmon: a look takes 20 us of somebody's processor, and such a process
// has something new to look at with every request.
//
// A slice is 1 ms if somebody waits who has just become runnable, 10 ms if only those wait who were
// frozen before. When nobody waits nobody is disturbed.
//
// Who blocks loses its P even if nobody waits, in the end: otherwise sysmon would have to look after it for as long as
// the call takes, in a process that is idle.
//
// What becomes of the P, and of the goroutine, is in robbed.cc.
//
// Go: runtime/proc.go retake [SM-3], preemptone
#include <algorithm>

#include "base/fatal.h"
#include "os/clock.h"
#include "os/process.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"
#include "sched/spawner.h"
#include "sched/sysmon.h"
#include "sched/thread_exit.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kBlockedLook = 200'000;  // ns between two looks at a clock that stands still
constexpr std::int64_t kExpectantLook = 60'000;    // … where somebody has just been seen to block
constexpr std::int64_t kUnseenLook = 5'000'000;    // … and nobody says whether it sleeps
constexpr std::int64_t kAnnouncedLook = 20'000;    // [SM-4]
constexpr std::int64_t kSlice = 1'000'000;         // while somebody waits
constexpr std::int64_t kFrozenSlice = 10'000'000;  // … who has had his slices
constexpr std::int64_t kNotice = 200'000;          // from the flag to the signal
constexpr std::int64_t kHealthyLook = 900'000;     // while somebody waits, but everybody switches
constexpr std::int64_t kLivelyLook = 2'000'000;    // while everybody switches often
constexpr std::int64_t kLivelySlice = 200'000;     // that is, so often
constexpr std::int64_t kCalmLook = 2'000'000;      // while all compute, and nobody is in a hurry
constexpr std::int32_t kAtOnce = 16;

constexpr int kConvincing = 16;  // looks in a row that find everybody lively
constexpr int kExpectant = 16;  // looks after somebody blocked, in which another one is expected to

// sysmon's own
constinit std::int64_t healthy_pause = kBlockedLook;
constinit std::int64_t last_look = 0;
constinit int lively_looks = 0;
constinit int expects = 0;  // one who blocks, for so many looks

// What waits for a P.
struct demand {
  std::uint32_t fresh = 0;     // runnable, on any M
  std::uint32_t returned = 0;  // on their own Ms, after a call
  bool frozen = false;         // … or for whichever reason
  bool timer = false;          // due
  bool stop = false;           // the world
  bool urgent() const { return fresh != 0 || returned != 0 || timer || stop; }
  bool any() const { return urgent() || frozen; }
};

demand demand_locked(std::int64_t now) WEFT_REQUIRES(sched.lock) {
  demand d;
  d.frozen = sched.runq.has_frozen();
  d.stop = sched.gate.closed();
  d.timer = timer_for_sysmon() <= now;
  d.fresh = sched.runq.free();
  d.returned = sched.runq.returned();
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    const auto& queue = sched.p(i)->runq;
    d.fresh += queue.empty() ? 0 : std::max<std::uint32_t>(queue.size(), 1);
  }
  return d;
}

// In exit(): nobody is to run any more, and who does is stopped by other means (freeze.cc).
bool frozen_for_good() WEFT_REQUIRES(sched.lock) {
  return sched.gate.closed() && process_is_exiting();
}

// A P whose goroutine has not given it up since the last look.
struct stale {
  P* pp;
  M* mp;
  int tid;
  std::uint32_t tick;
  bool runs = false;  // it was on another processor than sysmon's a moment ago
};

bool older(const stale& a, const stale& b) { return a.pp->watch.since < b.pp->watch.since; }

// Notes what has changed; collects those who have had their slice for longest, oldest first. *same counts those that have not switched.
std::int32_t stale_ps_locked(stale* out, std::int64_t now, std::int32_t* same)
    WEFT_REQUIRES(sched.lock) {
  std::int32_t n = 0;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    P* pp = sched.p(i);
    // order: PM1 acquire: sees the M set up; pairs with acquire_p()
    M* mp = pp->m.load(WEFT_ORDER(PM1, acquire));
    if (!is_running(pp) || mp == nullptr) {
      pp->watch.cpu = -1;
      continue;
    }
    const std::uint32_t tick = slice_of(pp);
    p_watch& w = pp->watch;
    if (tick != w.tick || w.since == 0) {
      w = {.tick = tick, .since = slice_began(pp, last_look, now), .switches = w.switches};
    } else {
      ++*same;
    }
    const stale it{pp, mp, mp->tid, tick};
    if (n < kAtOnce) {
      out[n++] = it;
    } else if (stale* youngest = std::max_element(out, out + n, older); older(it, *youngest)) {
      *youngest = it;
    }
  }
  std::sort(out, out + n, older);
  return n;
}

// True: whoever had a P has soon given it up, for many looks now. `same`: one has not.
bool all_lively_locked(std::int64_t now, bool same) WEFT_REQUIRES(sched.lock) {
  std::int64_t switches = 0;
  for (std::int32_t i = 0; i < sched.proc_count(); ++i) {
    P* pp = sched.p(i);
    // order: SW0 relaxed, two readings of a counter
    const std::uint32_t count = pp->switches.load(WEFT_ORDER(SW0, relaxed));
    switches += count - pp->watch.switches;
    pp->watch.switches = count;
  }
  const std::int64_t elapsed = now - last_look;
  last_look = now;
  if (same || expects != 0 || switches * kLivelySlice < elapsed) {
    lively_looks = 0;
  } else if (lively_looks < kConvincing) {
    ++lively_looks;
  }
  return lively_looks == kConvincing;
}

}  // namespace

namespace {

enum class verdict { unknown, blocks, computes };

verdict of_one_that_stands_still(const stale& s, std::int64_t now) {
  const char state = task_state(s.tid);
  if (state != '\0') {
    return is_asleep(state) ? verdict::blocks : verdict::computes;
  }
  return now - s.pp->watch.still_since >= kUnseenLook ? verdict::blocks : verdict::unknown;
}

// In a hurry: one look may do.
verdict judge(const stale& s, std::int64_t now, bool hurry) {
  p_watch& w = s.pp->watch;
  // order: relaxed, a hint; rob() makes sure
  const std::uint32_t call = s.mp->calls.load(WEFT_ORDER(IC0, relaxed));
  if (call % 2 != 0 && (call == w.call || WEFT_MUTANT("another-call")) &&
      !WEFT_MUTANT("announced-in-vain")) {
    return now - w.call_when >= kAnnouncedLook ? verdict::blocks : verdict::unknown;
  }
  w.call = call;
  w.call_when = now;
  if (s.runs) {
    return verdict::computes;
  }
  const auto at_once = [&] {
    return hurry && task_runs(s.tid) ? verdict::computes : verdict::unknown;
  };
  if (w.cpu >= 0 && now - w.cpu_when < (expects != 0 ? kExpectantLook : kBlockedLook)) {
    return at_once();
  }
  const long long cpu = task_cpu_time(s.tid);
  const bool known = w.cpu >= 0 && cpu >= 0;
  const bool still = known && cpu == w.cpu;
  w.cpu = cpu;
  w.cpu_when = now;
  if (still) {
    return of_one_that_stands_still(s, now);
  }
  w.still_since = now;
  return known ? verdict::computes : at_once();
}

// Where the signal goes, if it is still at it; or 0.
int thread_of(const stale& s) {
  const scoped_lock held(sched.lock);
  // order: PM1 acquire: sees its tid; pairs with acquire_p()
  const bool same = s.pp->m.load(WEFT_ORDER(PM1, acquire)) == s.mp && is_running(s.pp) &&
                    slice_of(s.pp) == s.tick;
  return same ? thread_to_signal(s.mp) : 0;
}

// True: it will give its P up, as far as one can tell. Who does not obey a signal (a no_preempt scope, asyncpreemptoff) is
// not relied on again in the same slice.
bool ask(const stale& s, std::int64_t slice, std::int64_t now) {
  p_watch& w = s.pp->watch;
  if (now - w.since < slice - kNotice) {
    return false;
  }
  // order: SB0 relaxed, compared only
  const bool deaf = s.pp->deaf_slice.load(WEFT_ORDER(SB0, relaxed)) == s.tick;
  // In a call that may block the flag suffices: it is looked at when the call is over.
  const bool by_signal = !s.mp->in_call() && (deaf || (w.asked && now - w.since >= slice));
  w.asked = true;
  if (by_signal && !s.runs && !task_runs(s.tid) && is_in_a_call(s.tid)) {
    return false;  // it has used its time and then begun to wait: the next look will tell
  }
  const int tid = by_signal ? thread_of(s) : 0;
  const bool first = !w.signalled;
  w.signalled |= tid != 0;
  ask_to_yield(s.mp, tid);
  return tid != 0 && first;
}

// Of those who have had their slice, one who is on a processor now comes first. Not the one whose processor sysmon is using:
// whoever takes its place would be started on another one, where somebody computes. But nobody is spared for long.
void prefer_running(stale* found, std::int32_t n, std::int64_t now) {
  constexpr std::int32_t kTries = 4;
  for (std::int32_t i = 0; i < n && i < kTries; ++i) {
    const p_watch& w = found[i].pp->watch;
    const std::int64_t had = now - w.since;
    if (had < kSlice - kNotice || (i == 0 && had >= kFrozenSlice)) {
      return;  // all others have had less; or it is this one's turn
    }
    if (!w.signalled && found[i].mp->border.outside() && task_runs(found[i].tid)) {
      found[i].runs = true;
      std::rotate(found, found + i, found + i + 1);
      return;
    }
  }
}

// Nobody waits. Their Ps become idle, so that sysmon can sleep.
void rob_the_blocked(const stale* found, std::int32_t n, std::int64_t now) {
  for (std::int32_t i = 0; i < n; ++i) {
    const stale& s = found[i];
    if (s.mp->border.outside() && judge(s, now, /*hurry=*/false) == verdict::blocks) {
      static_cast<void>(rob(s.pp, s.mp, s.tick, 0, false));
    }
  }
}

// All compute, and only the frozen wait: until somebody's slice is over. `most` is for those who were robbed.
std::int64_t calm_pause(const stale* found, std::int32_t n, std::int64_t now, std::int64_t next,
                        std::int64_t most) {
  std::int64_t until = next;
  for (std::int32_t i = 0; i < n; ++i) {
    until = std::min(until, found[i].pp->watch.since + kFrozenSlice - kNotice);
  }
  // Long enough that sysmon can be woken from it, or short.
  return until - now < kCalmLook ? kBlockedLook : std::min(kCalmLook, most);
}

// Somebody is in a hurry: until one of those who compute can be asked, or sent a signal.
std::int64_t urgent_pause(const stale* found, std::int32_t n, std::int64_t now) {
  std::int64_t pause = healthy_pause;
  for (std::int32_t i = 0; i < n; ++i) {
    const p_watch& w = found[i].pp->watch;
    if (!w.signalled) {
      pause = std::min(pause, w.asked ? kNotice : w.since + kSlice - kNotice - now);
    }
  }
  return std::max(pause, kBlockedLook);
}

}  // namespace

std::int64_t slice_began(const P* pp, std::int64_t last_look, std::int64_t now) noexcept {
  const std::uint32_t first =
      pp->first_slice.load(WEFT_ORDER(SB0, relaxed));  // order: SB0 relaxed, see below
  const std::int64_t since =
      pp->held_since.load(WEFT_ORDER(SB0, relaxed));  // order: SB0 relaxed, see below
  const bool known = since != 0 && since < now && slice_of(pp) - first == 1;
  // The two words may belong to different holders; at the last look this slice had not begun.
  return known ? std::max(since, last_look) : now;
}

bool somebody_waits(std::int64_t now) noexcept {
  const scoped_lock held(sched.lock);
  return !frozen_for_good() && !crashing() && demand_locked(now).urgent() && sched.idle.idle() == 0;
}

next_look retake(std::int64_t now) noexcept {
  stale found[kAtOnce];
  sched.lock.lock();
  if (frozen_for_good() || crashing()) {
    sched.lock.unlock();
    return {kNever};
  }
  std::int32_t same = 0;
  const std::int32_t n = stale_ps_locked(found, now, &same);
  const demand d = demand_locked(now);
  const bool idle_ps = sched.idle.idle() > 0 && !d.stop;
  const bool robbed = sched.robbed_ms != nullptr;
  const bool lively = all_lively_locked(now, same > 0) && !robbed && !d.stop;
  const std::int64_t next = timer_for_sysmon();
  if (sched.idle_ms == nullptr && !idle_ps && same > 0 &&
      (d.timer || (d.fresh != 0 && sched.frozen_ms < most_frozen()))) {
    request_spare_ms_locked(1);  // somebody will be frozen for them, and they need an M
  }
  sched.lock.unlock();
  const std::int64_t robbed_pause = robbed ? freeze_robbed(now) : kNever;
  expects -= expects > 0 ? 1 : 0;
  healthy_pause =
      same == 0 && expects == 0 ? std::min(2 * healthy_pause, kHealthyLook) : kBlockedLook;
  if (!d.any() || idle_ps) {
    rob_the_blocked(found, n, now);
    if (lively) {
      return {kLivelyLook, /*firm=*/true};
    }
    const std::int64_t timer_pause = next == kNever ? kNever : next - now;
    return {std::max(std::min(timer_pause, robbed_pause), kBlockedLook)};
  }
  // Those who have been waiting least are served first, by those who have computed longest.
  std::uint32_t urgent = d.fresh + d.returned + (d.timer ? 1 : 0);
  if (urgent > 0) {
    prefer_running(found, n, now);
  }
  bool announced = false;
  bool calm = !d.urgent();
  for (std::int32_t i = 0; i < n && (urgent > 0 || d.frozen || d.stop); ++i) {
    const std::int64_t slice = d.stop ? 0 : urgent > 0 ? kSlice : kFrozenSlice;
    bool served = false;
    announced |= found[i].mp->in_call();
    if (!found[i].mp->border.outside()) {
      calm = false;
      continue;
    }
    const verdict v = judge(found[i], now, /*hurry=*/true);
    calm &= v == verdict::computes;
    switch (v) {
      case verdict::unknown: break;
      case verdict::blocks: {
        const bool says_so = found[i].mp->in_call();
        served = rob(found[i].pp, found[i].mp, found[i].tick, static_cast<std::int32_t>(d.fresh),
                     d.frozen && task_waits_for_lock(found[i].tid));
        expects = served ? kExpectant : expects;
        if (served && says_so) {
          sched.calls_last.store(true, WEFT_ORDER(IC0, relaxed));  // order: IC0 relaxed, a hint
        }
        break;
      }
      case verdict::computes: served = ask(found[i], slice, now); break;
    }
    urgent -= served && urgent > 0 ? 1 : 0;
  }
  if (calm) {
    return {calm_pause(found, n, now, next, robbed_pause)};
  }
  if (announced && same != 0) {
    return {kAnnouncedLook};
  }
  if (expects != 0) {
    return {kExpectantLook};
  }
  if (lively) {
    return {kLivelyLook, /*firm=*/true};
  }
  return {urgent > 0 ? urgent_pause(found, n, now) : healthy_pause};
}

}  // namespace weft::rt
