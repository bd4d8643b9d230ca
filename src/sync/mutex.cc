// weft::mutex over its core.
#include <cerrno>
#include <system_error>

#include <weft/mutex.h>

#include "base/fatal.h"
#include "os/clock.h"
#include "sched/sched_api.h"
#include "sync/context_node.h"
#include "sync/lock_env.h"
#include "sync/lockcheck.h"

namespace weft::rt {

namespace {

constexpr int kSpinRounds = 4;
constexpr int kPauses = 30;
constexpr std::uint32_t kOneIn = 8;
constexpr std::int64_t kStarvation = 1'000'000;  // ns

// When the caller parks, does whoever it has woken run at once? As pick_local() sees it: not on a plain thread, nor where
// a thread has one goroutine only, nor while the world stops, nor where it is somebody else's turn: in exit() it would never
// run, and beside one who computes nobody had the mutex meanwhile. (Whoever is stopped before it parks, or wakes a
// goroutine that is locked to a thread, is an exception, as is a starving waiter.) Not seen by TSan: the M's.
WEFT_NO_TSAN bool successor_runs() {
  const M* mp = current_m();
  return mp != nullptr && mp->curg != nullptr && mp->locked_g == nullptr && mp->p != nullptr &&
         // order: AT1 relaxed, a hint: who stops the world is asked under sched.lock
         mp->p->attention.load(WEFT_ORDER(AT1, relaxed)) == 0 && runnext_is_next(mp->p);
}

}  // namespace

bool can_spin(int round) {
  if (round >= kSpinRounds || sched.cpu_count() <= 1) {
    return false;
  }
  M* mp = enter_runtime();
  // A plain thread has no queue that would wait for it meanwhile.
  const bool worth =
      mp == nullptr || mp->p == nullptr ||
      (sched.proc_count() > sched.idle.idle() + sched.idle.spinning() + 1 && mp->p->runq.empty());
  leave_runtime(mp);
  return worth;
}

void spin() {
  for (int i = 0; i < kPauses; ++i) {
    cpu_pause();
  }
}

// By the slices of the P; plain threads are few, and sleep for long.
lock_wait::lock_wait() {
  M* mp = enter_runtime();
  const bool measured = mp == nullptr || mp->p == nullptr || is_sampled<kOneIn>(mp->p);
  leave_runtime(mp);
  if (measured) {
    began_ = nanotime();
  }
}

void lock_wait::add() const {
  const std::int64_t ns = nanotime() - began_;
  M* mp = enter_runtime();
  if (mp != nullptr && mp->p != nullptr) {
    atomic<std::int64_t>& sum = mp->p->mutex_wait;
    // order: MW0 relaxed, a statistic with one writer
    sum.store(sum.load(WEFT_ORDER(MW0, relaxed)) + ns * kOneIn, WEFT_ORDER(MW0, relaxed));
  } else {
    sched.foreign_mutex_wait.fetch_add(ns, WEFT_ORDER(MW0, relaxed));  // order: MW0 a statistic
  }
  leave_runtime(mp);
}

bool lock_env::lost() {
  const std::int64_t now = nanotime();
  if (since_ == 0) {
    since_ = now;
  }
  return now - since_ > kStarvation;
}

bool lock_env::starved() const { return since_ != 0 && nanotime() - since_ > kStarvation; }

bool lock_contended(mutex_words& m, const wait_limit& limit) {
  if (m.try_lock()) {
    return true;  // before anything is set up for a sleep
  }
  lock_env env(wait_reason::mutex_lock, limit, &m);
  return m.lock_slow(env);
}

void unlock_contended(mutex_words& m, bool parks) {
  const inside here;  // nobody is frozen who has chosen the next owner, and has not told him
  sleeper* n = nullptr;
  switch (m.unlock(&n, parks && successor_runs())) {
    case mutex_words::unlocked::done: return;
    case mutex_words::unlocked::rouse: rouse(n); return;
    case mutex_words::unlocked::misuse: fatal("sync: unlock of unlocked mutex", user_fault);
  }
}

}  // namespace weft::rt

namespace weft {

static_assert(sizeof(rt::mutex_words) == sizeof(mutex));
static_assert(alignof(rt::mutex_words) == alignof(mutex));

void mutex::lock_slow() {
  if (detail::lock_checks) [[unlikely]] {
    const void* const site = rt::lock_site(__builtin_return_address(0));
    rt::lockcheck_wants(this, site);
    rt::lock_contended(rt::words_of(*this));
    rt::lockcheck_got(this, site);
    return;
  }
  rt::lock_contended(rt::words_of(*this));
}
void mutex::unlock_slow() {
  if (detail::lock_checks) [[unlikely]] {
    rt::lockcheck_releases(this);
  }
  rt::unlock_contended(rt::words_of(*this));
}
bool mutex::try_lock_slow() {
  const bool locked = rt::words_of(*this).try_lock();
  if (locked && detail::lock_checks) [[unlikely]] {
    rt::lockcheck_got(this, rt::lock_site(__builtin_return_address(0)));
  }
  return locked;
}

namespace detail {

constinit bool lock_checks = false;

bool lock_until(mutex& m, limit l) {
  const void* site = nullptr;
  if (lock_checks) [[unlikely]] {
    site = rt::lock_site(__builtin_return_address(0));
    if (rt::limit_of(l).none()) rt::lockcheck_wants(&m, site);
  }
  const bool locked =
      rt::words_of(m).lock_fast() || rt::lock_contended(rt::words_of(m), rt::limit_of(l));
  if (locked) {
    rt::words_of(m).note_owner(this_owner());
    if (lock_checks) [[unlikely]] {
      rt::lockcheck_got(&m, site);
    }
  }
  return locked;
}

void throw_too_recursive() {
  throw std::system_error(EAGAIN, std::generic_category(), "weft::recursive_mutex");
}

void not_the_owner(bool locked) {
  rt::fatal(locked ? "sync: unlock of recursive mutex by another than its owner"
                   : "sync: unlock of unlocked mutex",
            rt::user_fault);
}

}  // namespace detail

}  // namespace weft
