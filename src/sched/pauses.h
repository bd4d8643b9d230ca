// How long the world is stopped, for runtime::metrics(). All by whoever holds the world.
#pragma once

#include "os/clock.h"
#include "sched/sched_api.h"

namespace weft::rt {

#ifdef WEFT_MODEL
class pause_clock {
 public:
  void stopped(bool) {}
};
inline void pause_ends() {}
#else
// From the wish to stop the world on.
class pause_clock {
 public:
  pause_clock() : began_(nanotime()) {}
  // Not instrumented: between stop_world() and start_world() it is this goroutine's alone, whatever its M.
  WEFT_NO_TSAN void stopped(bool for_gc) {
    sched.stop_began = began_;
    sched.stop_is_gc = for_gc;
    auto& times = for_gc ? sched.pauses.stopping_gc : sched.pauses.stopping_other;
    times.record_shared(nanotime() - began_);
  }

 private:
  std::int64_t began_;
};

inline void pause_ends() {
  auto& times = sched.stop_is_gc ? sched.pauses.total_gc : sched.pauses.total_other;
  times.record_shared(nanotime() - sched.stop_began);
}
#endif

}  // namespace weft::rt
