// weft::mutex over its core.
#include <cerrno>
#include <system_error>

#include <weft/mutex.h>

#include "base/fatal.h"
#include "os/clock.h"
#include "sched/sched_api.h"
#include "sync/context_node.h"
#include "sync/lock_env.h"

namespace weft::rt {

namespace {

constexpr int kSpinRounds = 4;
constexpr int kPauses = 30;
constexpr std::int64_t kStarvation = 1'000'000;  // ns

}  // namespace

bool can_spin(int round) {
  if (round >= kSpinRounds || sched.cpus <= 1) {
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
  lock_env env(wait_reason::mutex_lock, limit);
  return m.lock_slow(env);
}

void unlock_contended(mutex_words& m) {
  sleeper* n = nullptr;
  switch (m.unlock(&n)) {
    case mutex_words::unlocked::done: return;
    case mutex_words::unlocked::rouse: rouse(n); return;
    case mutex_words::unlocked::misuse: fatal("sync: unlock of unlocked mutex", user_fault);
  }
}

}  // namespace weft::rt

namespace weft {

static_assert(sizeof(rt::mutex_words) == sizeof(mutex));
static_assert(alignof(rt::mutex_words) == alignof(mutex));

void mutex::lock_slow() { rt::lock_contended(rt::words_of(*this)); }
void mutex::unlock_slow() { rt::unlock_contended(rt::words_of(*this)); }
bool mutex::try_lock_slow() { return rt::words_of(*this).try_lock(); }

namespace detail {

bool lock_until(mutex& m, limit l) {
  return rt::words_of(m).lock_fast() || rt::lock_contended(rt::words_of(m), rt::limit_of(l));
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
