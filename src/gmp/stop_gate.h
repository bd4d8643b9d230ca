// The gate at which Ps stop when the world does (sched/world.cc tells the whole story).
//
//   stopper, under sched.lock                   whoever has a busy P, under sched.lock
//   1. marks its own P and the idle ones        finds the gate closed: marks the P stopped, arrive()
//      stopped, asks the others (attention)     and does not run it any more
//   2. close(how many are still busy)
//   then, without the lock: wait()
//   … the world is stopped …
//   3. open(), and hands Ps out again
//
// W1: arrive() is called exactly once for every P that was busy when the gate closed. Such a P has one
//     owner: the M that runs it, the M that it is being handed to, or the thread that hands it off; and
//     none of them lets go of it, by making it idle, say, while the gate is closed.
//     Otherwise the stopper sleeps for ever, or goes on while a goroutine runs.
//
// Under sched.lock throughout, but for waiting; the lock orders everything. `attention` of a P only
// tells its owner to go and look.
#pragma once

#include <cstdint>
#include <limits>

#include "base/atomic.h"
#include "base/note.h"

namespace weft::rt {

class stop_gate {
 public:
  // The world is stopping or has stopped: no P may begin to run, or become idle.
  bool closed() const { return closed_; }

  // `busy` Ps have not stopped yet. True: wait for them.
  [[nodiscard]] bool close(std::int32_t busy) {
    closed_ = true;
    busy_ = busy;
    stopped_.clear();
    return busy > 0;
  }
  // From a crash: nobody waits, nobody opens it again.
  void close_for_good() {
    closed_ = true;
    busy_ = std::numeric_limits<std::int32_t>::max();
  }
  // A busy P has stopped. keeps W1
  void arrive() {
    if (--busy_ == (WEFT_MUTANT("gate-shuts-early") ? 1 : 0)) {
      stopped_.wake();
    }
  }
  void open() { closed_ = false; }

  // Without the lock: until all have arrived. One waiter. Blocks: M.
  void wait() { stopped_.sleep(); }
  // At most ns nanoseconds; true if all have arrived.
  bool wait_for(std::int64_t ns) { return stopped_.sleep_for(ns); }

 private:
  bool closed_ = false;
  std::int32_t busy_ = 0;
  note stopped_;
};

}  // namespace weft::rt
