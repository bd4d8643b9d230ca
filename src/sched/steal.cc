// Taking work from other Ps.
//
// A thief takes the older half of a ring. The slot `runnext` is another matter: its owner is about to
// block and to run it next, in the same time slice and with warm caches, so that taking it at once
// would tear ping-pong partners apart. It is taken only if the owner has not switched for 3 us: then
// the owner computes, and the goroutine had better run here. [RQ-9]
//
// In the last pass it also runs the timers of others that are due: their Ms may be busy for long.
//
// A thief that finds nothing looks again for a while before it lets its P go: falling asleep and
// being woken again costs two thread switches and 9 us of the waker's time. It does so only while
// there is a processor to spare for it.
//
// Go: runtime/proc.go stealWork, runqsteal, runqgrab
#include <sched.h>

#include "base/counters.h"
#include "gmp/steal_order.h"
#include "os/clock.h"
#include "sched/sched_api.h"

namespace weft::rt {

namespace {

constexpr std::int64_t kNextBackoff = 3'000;         // ns
constexpr std::int64_t kSpinTime = 20'000;           // ns
constexpr std::uint8_t kFutile = 4, kTryAgain = 16;  // spins

// As many busy Ps as processors: whoever spins takes time from somebody who works.
bool processors_are_busy() { return sched.proc_count() - sched.idle.idle() > sched.cpu_count(); }

// About a microsecond.
void pause_for_a_while() {
  for (int i = 0; i < 24; ++i) {
    cpu_pause();
  }
}

// Waits until the owner of `victim` has had time to run its next goroutine. True: it still stands.
bool next_stands(P* victim, G* gp) {
  // order: SW0 relaxed, two readings of the owner's counter
  const std::uint32_t before = victim->switches.load(WEFT_ORDER(SW0, relaxed));
  const std::int64_t until = nanotime() + kNextBackoff;
  do {
    if (processors_are_busy()) {
      sched_yield();
    } else {
      pause_for_a_while();
    }
  } while (nanotime() < until);
  // Once, at the end: every look takes the owner's cache line away from it.
  // order: SW0 relaxed, as above
  return victim->runq.peek_next() == gp &&
         victim->switches.load(WEFT_ORDER(SW0, relaxed)) == before;
}

G* steal_from(M* mp, P* victim, bool next_too) {
  if (G* gp = victim->runq.steal_into(mp->p->runq)) {
    return gp;
  }
  G* gp = next_too ? victim->runq.peek_next() : nullptr;
  if (gp == nullptr || !next_stands(victim, gp)) {
    return nullptr;
  }
  return victim->runq.steal_next(gp);
}

bool interrupted(const M* mp) {
  // order: AT1 relaxed; the request is acted upon under sched.lock
  return mp->p->attention.load(WEFT_ORDER(AT1, relaxed)) != 0 || !sched.runq.empty();
}

}  // namespace

G* steal_work(M* mp) {
  constexpr int kPasses = 4;
  std::int64_t now = 0;
  const auto n = static_cast<std::uint32_t>(sched.proc_count());
  for (int pass = 0; pass < kPasses; ++pass) {
    const bool last = pass == kPasses - 1;
    for (steal_order::walk w(mp->random.next32(), n); !w.done(); w.next()) {
      if (interrupted(mp)) {
        return nullptr;
      }
      P* victim = sched.p(static_cast<std::int32_t>(w.position()));
      if (last && run_timers(mp, victim, &now)) {  // also one's own, whose time may have come
        bool inherit = false;
        if (G* gp = take_local(mp->p, &inherit)) {
          return gp;
        }
      }
      if (victim == mp->p) {
        continue;
      }
      if (G* gp = steal_from(mp, victim, last)) {
        count_shared_write();
        return gp;
      }
    }
  }
  return nullptr;
}

namespace {

// How often the other Ps have switched, modulo 2^32.
std::uint32_t switches_of_others(const M* mp) {
  std::uint32_t sum = 0;
  const std::int32_t n = sched.proc_count();
  for (std::int32_t i = 0; i < n; ++i) {
    const P* pp = sched.p(i);
    // order: SW0 relaxed, two readings of the owners' counters
    sum += pp != mp->p ? pp->switches.load(WEFT_ORDER(SW0, relaxed)) : 0;
  }
  return sum;
}

// How long a nap may be: until the next timer, at most.
std::int64_t nap_time() {
  const std::int64_t next = earliest_timer();
  if (next == kNever) {
    return nap::kLongest;
  }
  const std::int64_t left = next - nanotime();
  return left < nap::kLongest ? left : nap::kLongest;
}

// Nothing to steal, but the others switch all the time: they hand over to each other. Stays near, but
// asleep (gmp/nap.h). *dozed: it was worth it.
G* doze(M* mp, std::uint32_t switched, bool* dozed) {
  constexpr std::int32_t kHandOvers = 16;  // in one nap
  const auto they_switch = [mp, &switched] {
    const std::uint32_t before = switched;
    switched = switches_of_others(mp);
    return static_cast<std::int32_t>(switched - before) >= kHandOvers;
  };
  if (!they_switch() || interrupted(mp) || !sched.dozer.begin()) {
    return nullptr;
  }
  *dozed = true;
  G* gp = steal_work(mp);
  while (gp == nullptr && !interrupted(mp)) {
    const std::int64_t time = nap_time();
    if (time <= 0) {
      break;
    }
    sched.dozer.sleep(time);
    gp = steal_work(mp);
    if (!they_switch()) {
      break;
    }
  }
  sched.dozer.end();  // and whoever stops spinning looks everywhere
  return gp;
}

}  // namespace

G* spin_for_work(M* mp) {
  if (G* gp = steal_work(mp)) {
    return gp;
  }
  // Where it never pays, as with work that comes at its own times, it is tried only now and then.
  if (mp->futile_spins >= kFutile && ++mp->futile_spins % kTryAgain != 0) {
    return nullptr;
  }
  const std::int64_t until = nanotime() + kSpinTime;
  const std::uint32_t switched = switches_of_others(mp);
  while (!interrupted(mp) && !processors_are_busy() && nanotime() < until) {
    pause_for_a_while();
    if (G* gp = steal_work(mp)) {
      mp->futile_spins = 0;
      return gp;
    }
  }
  bool dozed = false;
  G* gp = doze(mp, switched, &dozed);
  if (gp != nullptr || dozed) {
    mp->futile_spins = 0;
  } else if (mp->futile_spins < kFutile) {
    ++mp->futile_spins;
  }
  return gp;
}

}  // namespace weft::rt
