// Why a goroutine is parked, in Go's words: these texts appear in dumps and deadlock reports.
// Go: runtime/runtime2.go waitReason
#pragma once

#include <cstdint>

namespace weft::rt {

enum class wait_reason : std::uint8_t {
  none,
  semacquire,
  mutex_lock,
  shared_mutex_lock_shared,
  shared_mutex_lock,
  wait_group_wait,
  cond_wait,
  thread_join,
  nested_run,
  stopping_the_world,
};

constexpr const char* to_string(wait_reason r) {
  switch (r) {
    case wait_reason::none: return "";
    case wait_reason::semacquire: return "semacquire";
    case wait_reason::mutex_lock: return "sync.Mutex.Lock";
    case wait_reason::shared_mutex_lock_shared: return "sync.RWMutex.RLock";
    case wait_reason::shared_mutex_lock: return "sync.RWMutex.Lock";
    case wait_reason::cond_wait: return "sync.Cond.Wait";
    case wait_reason::wait_group_wait: return "sync.WaitGroup.Wait";
    case wait_reason::thread_join: return "thread join";
    case wait_reason::nested_run: return "run";
    case wait_reason::stopping_the_world: return "stopping the world";
  }
  return "unknown";
}

}  // namespace weft::rt
