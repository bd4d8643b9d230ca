// Why a goroutine is parked, in Go's words: these texts appear in dumps and deadlock reports.
// Go: runtime/runtime2.go waitReason
#pragma once

#include <cstdint>

namespace weft::rt {

enum class wait_reason : std::uint8_t {
  none,
  chan_receive,
  chan_receive_nil,
  chan_send,
  chan_send_nil,
  select,
  select_no_cases,
  semacquire,
  mutex_lock,
  shared_mutex_lock_shared,
  shared_mutex_lock,
  sleep,
  wait_group_wait,
  cond_wait,
  latch_wait,
  barrier_wait,
  future_wait,
  thread_join,
  nested_run,
  stopping_the_world,
  io_wait,
};

constexpr const char* to_string(wait_reason r) {
  switch (r) {
    case wait_reason::none: return "";
    case wait_reason::chan_receive: return "chan receive";
    case wait_reason::chan_receive_nil: return "chan receive (nil chan)";
    case wait_reason::chan_send: return "chan send";
    case wait_reason::chan_send_nil: return "chan send (nil chan)";
    case wait_reason::select: return "select";
    case wait_reason::select_no_cases: return "select (no cases)";
    case wait_reason::semacquire: return "semacquire";
    case wait_reason::mutex_lock: return "sync.Mutex.Lock";
    case wait_reason::shared_mutex_lock_shared: return "sync.RWMutex.RLock";
    case wait_reason::shared_mutex_lock: return "sync.RWMutex.Lock";
    case wait_reason::latch_wait: return "latch wait";
    case wait_reason::barrier_wait: return "barrier wait";
    case wait_reason::future_wait: return "future wait";
    case wait_reason::cond_wait: return "sync.Cond.Wait";
    case wait_reason::sleep: return "sleep";
    case wait_reason::wait_group_wait: return "sync.WaitGroup.Wait";
    case wait_reason::thread_join: return "thread join";
    case wait_reason::nested_run: return "run";
    case wait_reason::stopping_the_world: return "stopping the world";
    case wait_reason::io_wait: return "IO wait";
  }
  return "unknown";
}

}  // namespace weft::rt
