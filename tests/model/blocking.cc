// See blocking.h.
#include "model/blocking.h"

#include <vector>

namespace weft::model {
namespace {

struct sleeper {
  int thread;
  int location;
  bool woken;
};

std::vector<sleeper> queue;  // in the kernel, in the order of arrival
std::uint64_t queue_execution = 0;

std::vector<sleeper>& sleepers() {
  engine& e = engine::get();
  if (queue_execution != e.execution()) {
    queue_execution = e.execution();
    queue.clear();
  }
  return queue;
}

bool was_woken(const void* which) {
  const int thread = *static_cast<const int*>(which);
  for (const sleeper& s : queue) {
    if (s.thread == thread) return s.woken;
  }
  return false;
}

// Inside the bucket lock both sides see what the other did before.
void pass_bucket(engine& e, int location) {
  view& bucket = e.bucket(location);
  e.me().cur.sees.join(bucket);
  bucket = e.me().cur.sees;
}

}  // namespace

futex_outcome kernel_wait(atomic<std::uint32_t>& word, std::uint32_t expected, bool timed) {
  engine& e = engine::get();
  e.point();
  const int location = word.location();
  pass_bucket(e, location);
  if (word.load_here() != expected) {
    if (e.tracing()) e.trace("futex_wait @" + std::to_string(location) + " returns: changed");
    return futex_outcome::would_block;
  }
  if (e.tracing()) e.trace("futex_wait @" + std::to_string(location) + " sleeps");
  sleepers().push_back({e.current(), location, false});
  const int self = e.current();
  const wake_reason reason = e.block(was_woken, &self, "futex_wait", timed, true);
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (queue[i].thread == self) {
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  if (e.tracing()) {
    e.trace(std::string("futex_wait returns: ") + (reason == wake_reason::ready     ? "woken"
                                                   : reason == wake_reason::timeout ? "timed out"
                                                                                    : "no reason"));
  }
  return reason == wake_reason::timeout ? futex_outcome::timed_out : futex_outcome::woken;
}

int kernel_wake(atomic<std::uint32_t>& word, int n) {
  engine& e = engine::get();
  e.point();
  const int location = word.location();
  pass_bucket(e, location);
  int woken = 0;
  for (; woken < n; ++woken) {
    std::vector<sleeper*> asleep;
    for (sleeper& s : sleepers()) {
      if (s.location == location && !s.woken) asleep.push_back(&s);
    }
    if (asleep.empty()) break;
    asleep[static_cast<std::size_t>(e.choose(static_cast<int>(asleep.size())))]->woken = true;
  }
  if (e.tracing()) {
    e.trace("futex_wake @" + std::to_string(location) + " wakes " + std::to_string(woken));
  }
  return woken;
}

// --- mutex -----------------------------------------------------------------------------------

void mutex::renew() {
  if (execution_ == engine::get().execution()) return;
  *this = mutex{};
  execution_ = engine::get().execution();
}

void mutex::take(engine& e) {
  held_ = true;
  holder_ = e.current();
  e.me().cur.join(carries_);
}

void mutex::lock() {
  engine& e = engine::get();
  renew();
  e.check(!held(), "a lock is taken twice by one thread");
  e.block(is_free, this, "lock");
  take(e);
  if (e.tracing()) e.trace("lock " + e.name_of(this));
}

bool mutex::try_lock() {
  engine& e = engine::get();
  renew();
  e.check(!e.in_thread() || e.bounds().try_locks, "a scenario with try_lock() must say so");
  e.point();
  if (held_) return false;
  take(e);
  if (e.tracing()) e.trace("try_lock " + e.name_of(this));
  return true;
}

void mutex::unlock() {
  engine& e = engine::get();
  renew();
  if (e.bounds().try_locks) e.point();
  e.check(held(), "unlock of a lock that is not held");
  e.tick();
  carries_ = e.me().cur;
  held_ = false;
  if (e.tracing()) e.trace("unlock " + e.name_of(this));
}

bool mutex::held() const {
  engine& e = engine::get();
  return execution_ == e.execution() && held_ && holder_ == e.current();
}

// --- note ------------------------------------------------------------------------------------

void note::renew() {
  if (execution_ == engine::get().execution()) return;
  *this = note{};
  execution_ = engine::get().execution();
}

void note::clear() {
  renew();
  engine::get().point();  // a wake-up that comes before it is lost: let it come
  woken_ = false;
}

void note::wake() {
  engine& e = engine::get();
  renew();
  e.point();
  e.check(!woken_, "a note is woken twice");
  e.tick();
  carries_ = e.me().cur;
  woken_ = true;
  if (e.tracing()) e.trace("wake " + e.name_of(this));
}

bool note::woken() {
  engine& e = engine::get();
  renew();
  e.point();
  if (woken_) e.me().cur.join(carries_);
  return woken_;
}

bool note::wait(bool timed) {
  engine& e = engine::get();
  renew();
  if (e.tracing()) e.trace("sleep on " + e.name_of(this));
  const wake_reason reason = e.block(is_woken, this, "sleep on a note", timed);
  if (reason == wake_reason::timeout) return false;
  e.me().cur.join(carries_);
  if (e.tracing()) e.trace("woken on " + e.name_of(this));
  return true;
}

}  // namespace weft::model
