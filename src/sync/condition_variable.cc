// weft::condition_variable and condition_variable_any over their core.
#include <weft/condition_variable.h>
#include <weft/go.h>

#include "fiber/sanitizer.h"
#include "sync/cond_core.h"
#include "sync/lock_env.h"

namespace weft::detail {

namespace {

using core = rt::cond_core<rt::sleeper>;
using rt::mutex_words;
using rt::sleeper;
static_assert(sizeof(core) == sizeof(cond) && alignof(core) == alignof(cond));
static_assert(sizeof(mutex_words) == sizeof(mutex));

core& core_of(cond* self) { return *reinterpret_cast<core*>(self); }
mutex_words& core_of(mutex& m) { return *reinterpret_cast<mutex_words*>(&m); }

void unlock(mutex_words& m) {
  if (!m.unlock_fast()) {
    rt::unlock_contended(m);
  }
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

}  // namespace

void cond::notify_one() noexcept {
  if (sleeper* n = core_of(this).take_one()) {
    rt::wait_list<sleeper> one;
    one.push_back(n);
    pass_on(one, 1);
  }
}

void cond::notify_all() noexcept {
  core::taken all = core_of(this).take_all();
  pass_on(all.list, all.count);
}

void cond::wait(mutex& m) {
  mutex_words& words = core_of(m);
  sleeper n;
  n.mutex = &words;
  core_of(this).push(&n, /*timed=*/false);
  unlock(words);
  rt::sleep(n, rt::wait_reason::cond_wait);
  rt::lock_env env(rt::wait_reason::mutex_lock);
  words.lock_adopted(env, n);
}

void cond::drain() noexcept {
  while (!core_of(this).quiet()) {
    gosched();
  }
}

}  // namespace weft::detail
