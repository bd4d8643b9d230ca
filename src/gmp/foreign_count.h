// How many plain threads sleep inside weft, counted so that the deadlock check is never wrong.
//
// Problem. A plain thread that waits for goroutines cannot wake anybody; every other one may. So there
// is a deadlock if all Ms sleep and the tasks of the process are just these Ms and the threads that
// are counted here. But tasks are listed by the kernel, which takes a while, and meanwhile threads
// are woken, created, end.
//
//   a thread that blocks              its waker                    the check, while all Ms sleep
//   1. publishes its waiter           1. takes the waiter          1. reads the word
//   2. falls_asleep(): blocked + 1    2. is_woken(): blocked - 1   2. tasks == Ms + blocked?
//   3. sleeps                         3. wakes it                  3. tasks again, and the word again:
//                                                                     has anything moved?
//
// The waker takes the thread off *before* it wakes it. So a thread that is on its way out, or not yet
// surely asleep, counts as one that may act; the count may even be negative for a moment.
//
// D1: a report is never wrong. A thread that may act when the word is first read is a task and is not
// counted. If the check overlooks it, it has ended meanwhile; whoever it woke before it ended has
// changed the word, and whoever it created is found by the second listing.
// Otherwise a thread that was just being woken, or had just created another one, is overlooked.
//
// One word holds the count (low half) and the number of changes. Either change makes it larger as a
// number, so that equal words mean that nothing has happened (for 2^32 changes).
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/counters.h"

namespace weft::rt {

class foreign_count {
 public:
  void falls_asleep() {
    // order: FB1 release: who counts this thread as blocked finds the threads that it created;
    // pairs with nobody_can_act()
    word_.fetch_add(kChange + 1, WEFT_ORDER(FB1, release));
  }
  void is_woken() {
    // order: relaxed; the woken thread's end, or the waker's, makes it visible to the check
    word_.fetch_add(kChange - 1, WEFT_ORDER(FB0, relaxed));
  }
  // By one that was never counted, because its sleep had a limit, or because it is sysmon in a handler (sched/foreign.cc), when
  // somebody has called is_woken() for it. Until it does, the count is too low by one: while a thread may act, so that nothing is reported.
  void was_not_asleep() {
    word_.fetch_add(kChange + 1, WEFT_ORDER(FB0, relaxed));  // order: relaxed, as is_woken()
  }

  std::int32_t blocked() const {
    return blocked(word_.load(WEFT_ORDER(FB0, relaxed)));  // order: relaxed, a hint
  }

  // Whether the tasks of the process are `ms` sleeping Ms and threads that are blocked here.
  // count_tasks() lists the tasks; negative: unknown.
  template <class CountTasks>
  bool nobody_can_act(std::int32_t ms, CountTasks count_tasks) const {
    // order: FB1 acquire; pairs with falls_asleep()
    const std::uint64_t before = word_.load(WEFT_ORDER(FB1, acquire));
    const int tasks = count_tasks();
    if (tasks < 0 || tasks != ms + blocked(before)) {
      return false;
    }
    if (!WEFT_MUTANT("tasks-listed-once") && count_tasks() != tasks) {
      return false;
    }
    // order: relaxed; a task that is gone from the listing has published its changes by its end
    const std::uint64_t after = word_.load(WEFT_ORDER(FB0, relaxed));
    return WEFT_MUTANT("word-read-once")         ? true
           : WEFT_MUTANT("changes-not-compared") ? blocked(after) == blocked(before)
                                                 : after == before;
  }

 private:
  static constexpr std::uint64_t kChange = std::uint64_t{1} << 32;

  static constexpr std::int32_t blocked(std::uint64_t word) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
  }

  shared_atomic<std::uint64_t> word_{0};
};

}  // namespace weft::rt
