// weft::condition_variable and condition_variable_any over their core.
#include <weft/condition_variable.h>
#include <weft/go.h>

#include "fiber/sanitizer.h"
#include "sched/at_exit.h"
#include "sync/cond_core.h"
#include "sync/context_node.h"
#include "sync/lock_env.h"
#include "sync/lockcheck.h"

namespace weft::detail {

namespace {

using core = rt::cond_core<rt::sleeper>;
using rt::mutex_words;
using rt::sleeper;
using rt::wait_reason;
static_assert(sizeof(core) == sizeof(cond) && alignof(core) == alignof(cond));

core& core_of(cond* self) { return *reinterpret_cast<core*>(self); }

// By one who is about to wait, with a limit or without.
void unlock(mutex_words& m) {
  if (m.contended() || !m.unlock_fast()) {
    rt::unlock_contended(m, /*parks=*/true);
  }
}

// After the wait: the mutex again.
void lock_again(mutex& m, mutex_words& words, sleeper& n) {
  if (!words.take_adopted(n)) {
    rt::lock_env env(wait_reason::mutex_lock, {}, &m);
    n.w.on = &m;
    words.lock_adopted(env, n);
  }
  words.note_owner(n.who);
}

// Those who have been notified go where their mutex is; its owner will wake them, one by one.
void pass_on(rt::wait_list<sleeper>& list, std::uint32_t count) {
  sleeper* first = list.front();
  if (first == nullptr) {
    return;
  }
  if (first->mutex != nullptr) {
    if (sleeper* n = first->mutex->adopt(list, count)) {
      rt::rouse(n);
    }
    return;
  }
  while (sleeper* n = list.pop_front()) {
    rt::rouse(n);
  }
}

// Sleeps until notified. False: the limit came first, and n is on no list any more.
bool sleep_until_notified(core& c, sleeper& n, const rt::wait_limit& limit) {
  if (rt::sleep_until(n, wait_reason::cond_wait, limit)) {
    return true;
  }
  c.leave(&n);
  return false;
}

}  // namespace

// As mutex.cc, unlock_contended(): nobody is frozen between taking them out and telling them.
void cond::notify_one() noexcept {
  const rt::inside here;
  if (sleeper* n = core_of(this).take_one()) {
    rt::wait_list<sleeper> one;
    one.push_back(n);
    pass_on(one, 1);
  }
}

void cond::notify_all() noexcept {
  const rt::inside here;
  core::taken all = core_of(this).take_all();
  pass_on(all.list, all.count);
}

void cond::notify_surely() noexcept {
  const rt::inside here;
  core::taken all = core_of(this).take_all_surely();
  pass_on(all.list, all.count);
}

void cond::wait(mutex& m) {
  mutex_words& words = rt::words_of(m);
  sleeper n;
  n.w.on = this;
  n.mutex = &words;
  const rt::lockcheck_pause pause(&m, __builtin_return_address(0));
  core_of(this).push(&n, /*limited=*/false);
  unlock(words);
  rt::sleep(n, wait_reason::cond_wait);
  lock_again(m, words, n);
}

bool cond::wait_until(mutex& m, limit until) {
  const rt::wait_limit l = rt::limit_of(until);
  if (l.none()) {
    wait(m);
    return true;
  }
  mutex_words& words = rt::words_of(m);
  core& c = core_of(this);
  sleeper n;
  n.w.on = this;
  n.mutex = &words;
  const rt::lockcheck_pause pause(&m, __builtin_return_address(0));
  c.push(&n, /*limited=*/true);
  unlock(words);
  if (!sleep_until_notified(c, n, l)) {
    rt::lock_contended(words);
    words.note_owner(n.who);
    return false;
  }
  lock_again(m, words, n);
  return true;
}

// Always with a claim, so that it may leave if the lock's unlock() throws. (Whoever has been notified by
// then keeps the notification, although he does not return normally: the object may be gone.)
bool cond::wait_any(const foreign_lock& l, limit until) {
  core& c = core_of(this);
  sleeper n;
  n.w.on = this;
  c.push(&n, /*limited=*/true);
  const auto off = [&c, &n] {
    if (n.claim.take()) {
      c.leave(&n);
      return true;
    }
    return false;
  };
  try {
    l.unlock(l.lock);
  } catch (...) {
    if (!off()) {
      rt::sleep(n, wait_reason::cond_wait);
    }
    throw;
  }
  // A stop that was requested before the push is seen here; one after it finds n.
  if (l.cancelled != nullptr && l.cancelled(l.token) && off()) {
    return true;
  }
  return sleep_until_notified(c, n, rt::limit_of(until));
}

void cond::quiet_begin() noexcept { rt::tsan_ignore_begin(); }
void cond::quiet_end() noexcept { rt::tsan_ignore_end(); }

void cond::drain() noexcept {
  while (!core_of(this).quiet()) {
    gosched();
  }
}

namespace {

struct notify_later : rt::exit_hook {
  condition_variable* cv;
  mutex* locked;
};

// The notification comes first: once the mutex is free, whoever waited may destroy both.
void notify_now(rt::exit_hook* h) {
  auto* later = static_cast<notify_later*>(h);
  mutex* locked = later->locked;
  later->cv->notify_all();
  locked->unlock();
  delete later;
}

}  // namespace

void notify_all_at_exit(condition_variable& cv, mutex* locked) {
  auto* later = new notify_later;
  later->run = notify_now;
  later->cv = &cv;
  later->locked = locked;
  rt::at_exit(*later);
}

}  // namespace weft::detail
