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
//     So it is for every M that has lent its P (sched/borrow.cc) when the gate closed, as it computes without one.
//     Otherwise the stopper sleeps for ever, or goes on while a goroutine runs.
//
// At exit the world is frozen for good, perhaps while somebody stops it, or has stopped it:
//
//   the exiting thread, under sched.lock: close(), or if the gate is closed already its own P arrives
//   as any other; freeze(); then, without the lock: wait_frozen()
//
// W2: the gate is closed once. Who comes later counts nobody anew and clears no note: another may be
//     asleep there. So the stopper and the exiting thread have a note each, and a stopper that is a
//     goroutine is awaited by the exiting thread until it wants to start the world again.
//     Otherwise one of the two sleeps for ever, or is woken twice, or goroutines run on in exit().
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
  // Ps that have not stopped yet.
  std::int32_t busy() const { return busy_; }

  void close(std::int32_t busy) {
    closed_ = true;
    busy_ = busy;
    stopped_.clear();
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
    tell_freezer();
  }
  void open() {
    closed_ = false;
    goroutine_stops_ = false;
  }

  // The stopper is a goroutine, so it goes on although its P has stopped.
  void stopper_runs() { goroutine_stops_ = !WEFT_MUTANT("freeze-forgets-stopper"); }
  // It has come back, or it is the one that exits.
  void stopper_rests() {
    const bool was = goroutine_stops_;
    goroutine_stops_ = false;
    if (was) {
      tell_freezer();
    }
  }

  // Nobody will open the gate again. True: wait_frozen(). Once a process.
  [[nodiscard]] bool freeze() {
    freezing_ = true;
    return !all_rest();
  }

  // Without the lock: until all have arrived. One waiter. Blocks: M.
  void wait() { stopped_.sleep(); }
  // Until then, and the stopper has come back, for at most ns nanoseconds; true if so. One waiter.
  bool wait_frozen(std::int64_t ns) { return frozen_.sleep_for(ns); }

 private:
  bool all_rest() const { return busy_ == 0 && !goroutine_stops_; }
  void tell_freezer() {
    if (freezing_ && all_rest()) {
      frozen_.wake();
    }
  }

  bool closed_ = false;
  bool goroutine_stops_ = false;
  bool freezing_ = false;
  std::int32_t busy_ = 0;
  note stopped_;
  note frozen_;
};

}  // namespace weft::rt
