// What a contended lock needs of the world: when to spin, how to sleep, what time it is.
#pragma once

#include <cstdint>

#include <weft/mutex.h>

#include "gmp/wait_reason.h"
#include "sync/mutex_core.h"
#include "sync/sleeper.h"

namespace weft::rt {

using mutex_words = mutex_core<sleeper>;

// Whether a locker should look again before it sleeps. [MU-3]
bool can_spin(int round);
void spin();

// Adds the time of its life to what runtime::metrics() says about waits for mutexes; one in eight does.
class lock_wait {
 public:
  lock_wait();
  lock_wait(const lock_wait&) = delete;
  lock_wait& operator=(const lock_wait&) = delete;
  ~lock_wait() {
    if (began_ != 0) [[unlikely]] {
      add();
    }
  }

 private:
  void add() const;
  std::int64_t began_ = 0;
};

// The Env of mutex_core::lock_slow().
class lock_env {
 public:
  lock_env(wait_reason reason, const wait_limit& limit, const void* object)
      : limit_(limit), reason_(reason) {
    node_.w.on = object;
  }

  sleeper& node() {
    node_.reset();
    return node_;
  }
  static bool can_spin(int round) { return rt::can_spin(round); }
  static void spin() { rt::spin(); }
  bool sleep(sleeper& n) {
    const lock_wait measured;
    if (limit_.none()) [[likely]] {
      rt::sleep(n, reason_);
      return true;
    }
    return rt::sleep_until(n, reason_, limit_);
  }
  void settle(sleeper& n) { rt::settle(n, reason_); }
  bool lost();
  bool starved() const;

 private:
  sleeper node_;
  const wait_limit limit_;
  std::int64_t since_ = 0;  // woken in vain for the first time
  wait_reason reason_;
};

// The slow halves of lock and unlock. False: the limit came first.
bool lock_contended(mutex_words& m, const wait_limit& limit = {});
// Go's fatal error for an unlock too many. `parks`: the caller is about to, and may hand the mutex over if whoever is woken
// then runs at once.
void unlock_contended(mutex_words& m, bool parks = false);

inline mutex_words& words_of(mutex& m) { return reinterpret_cast<mutex_words&>(m); }

}  // namespace weft::rt
