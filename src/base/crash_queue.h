// Who may print a crash report, and who ends the process.
//
//   crasher                                    the next one in the queue
//   1. joins the queue: crashers_ + 1     CR3
//   2. reporter_: nobody -> itself        CR2  2. tries again and again        CR2
//   3. reports
//   4. others: crashers_ - 1, reporter_ =
//      nobody, waits to be killed         CR2  3. reports … the last one ends the process
//      none: ends the process
//
// CQ1: one thread reports at a time, and sees what the one before has left (depth, half a line).
// CQ2: whoever leaves the queue last ends the process. One that joins too late to be counted loses its
//      report only. It stays counted for good: a thread in exit() that saw nobody any more could end
//      the process with its own status first.
// Waiting is the caller's: a reporter may die half-way, and then there is nobody to wake the others.
#pragma once

#include "base/atomic.h"

namespace weft::rt {

class crash_queue {
 public:
  // This thread reports, and has come here again: reporting has failed.
  bool reports(int self) const {
    // order: CR2 only this thread ever stores its own id, so that any order shows it
    return reporter_.load(WEFT_ORDER(CR2, relaxed)) == self;
  }
  // How often the reporter has begun, this time included.
  int begin_again() {
    depth_.set(depth_.get() + 1);
    return depth_.get();
  }

  void join() { crashers_.fetch_add(1, WEFT_ORDER(CR3, relaxed)); }  // order: CR3 a count; CQ2
  bool try_begin(int self) {
    int none = 0;
    // order: CR2 takes over what the previous reporter has left; pairs with end()
    if (!reporter_.compare_exchange_strong(none, self, WEFT_ORDER(CR2, acquire),
                                           WEFT_ORDER(CR2, relaxed))) {
      return false;
    }
    depth_.set(1);
    return true;
  }
  // False: the caller ends the process. True: somebody else does, if nothing is in his way.
  bool end() {
    // order: CR3 a count; CQ2
    int count = crashers_.load(WEFT_ORDER(CR3, relaxed));
    while (count > 1 && !crashers_.compare_exchange_weak(count, count - 1, WEFT_ORDER(CR3, relaxed),
                                                         WEFT_ORDER(CR3, relaxed))) {
    }
    const bool others = count > 1;
    if (!others || depth_.get() != 1) {  // a report that failed hands nothing over
      return false;
    }
    if (!WEFT_MUTANT("crash-not-handed-over")) {
      reporter_.store(0, WEFT_ORDER(CR2, release));  // order: CR2 hands over to a queued crasher
    }
    return true;
  }
  bool any() const {
    return crashers_.load(WEFT_ORDER(CR3, relaxed)) != 0;  // order: CR3 advisory
  }

 private:
  atomic<int> reporter_{0};  // its thread id, 0 if none
  atomic<int> crashers_{0};  // threads between join() and end()
  cell<int> depth_{0};       // reports that the reporter has begun; handed over with reporter_
};

}  // namespace weft::rt
