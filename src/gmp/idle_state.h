// Who is awake: the counters behind "never lose a wake-up, never wake too many".
//
// The problem. Work is queued on a P without a lock. Threads with nothing to do must sleep, or they
// burn processors; a thread that sleeps while work waits is a lost wake-up. Three designs fail:
//   * one central queue with a lock: exact, and every goroutine operation then fights for it;
//   * wake a thread for every new goroutine: thousands of futile futex calls (9 us each here);
//   * wake nobody and let sleepers poll: latency, and an idle process that is not idle.
//
// The protocol (Go's, with needspinning readable without the lock). An M is *spinning* while it has
// a P, no work, and looks for some. A submitter wakes somebody only if nobody spins and some P is
// idle. Whoever stops spinning, or lets a P go idle, looks once more.
//
//   submitter                              M that runs out of work
//   1. make the work visible               1. (sched.lock) needspinning set? spin on instead
//   2. full fence                 ID1      2. P onto the idle list: npidle+1
//   3. nmspinning != 0: done               3. if spinning: nmspinning-1
//   4. npidle == 0: set needspinning,      4. full fence                            ID1
//      full fence (ID2), look again        5. was spinning, or needspinning set (ID2):
//   5. CAS nmspinning 0→1: wake one           look at every queue again; work: take a P back
//
// I1: if runnable work and an idle P exist, then an M is spinning, or a waker holds the token that
//     claim_wake() gave it, or a releaser of a P has not finished step 5; or, after a crowd of timers,
//     a sleeper is due within 0.6 ms and will look (T2 in sched/timer_watch.cc). Otherwise work waits
//     for an unrelated event.
// Swapping 3 and 5 on the right, or leaving out either fence, loses wake-ups: tests/model/idle.
//
// What needspinning is for: the submitter finds no idle P, while an M that is *not* spinning (so
// would not look again) is about to put one on the list. The flag makes that M look. It is written
// once and then only read, so that a busy machine writes no shared line per spawn. Go takes
// sched.lock there.
//
// Go: runtime/proc.go "Worker thread parking/unparking", wakep, findRunnable
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/counters.h"

namespace weft::rt {

class idle_state {
 public:
  // Submit side, after the work is visible. True: the caller holds a spinning token and must try to
  // start an M with it, or give it back with drop_token(). Keeps I1.
  [[nodiscard]] bool claim_wake() {
    fence(WEFT_ORDER(ID1, seq_cst));  // order: ID1 Dekker with the fence in must_look_again()
    if (spinning_.load(WEFT_ORDER(ID0, relaxed)) !=
        0) {  // order: relaxed, the fence above orders it
      return false;
    }
    if (idle_.load(WEFT_ORDER(ID0, relaxed)) == 0 &&
        !leave_request()) {  // order: relaxed, as above
      return false;
    }
    std::int32_t none = 0;
    // order: relaxed; the token is a count, the P that goes with it is handed over under sched.lock
    return spinning_.compare_exchange_strong(none, 1, WEFT_ORDER(ID0, relaxed),
                                             WEFT_ORDER(ID0, relaxed));
  }

  // The claimed wake-up found no P to start.
  void drop_token() { add_spinning(-1); }

  // The calling M starts to look for work. No fence: whatever was submitted by those who still read
  // the request that it takes away is found at the latest by the look, or by the wake-up, with which
  // every spinning ends, and those are fenced.
  void become_spinning() {
    add_spinning(1);
    needspinning_.store(0, WEFT_ORDER(ID0, relaxed));  // order: relaxed, see above
  }

  // The calling M has found work. It must look at every queue next, its own included, and call wake_p()
  // if anything is there: submitters relied on it.
  void found_work() {
    add_spinning(-1);
    fence(WEFT_ORDER(ID3, seq_cst));  // order: ID3 Dekker with the fence ID1 in claim_wake()
  }

  // After the P went onto the idle list (idle count already raised, under sched.lock). True: look at
  // every queue once more before sleeping.
  [[nodiscard]] bool must_look_again(bool was_spinning) {
    if (was_spinning) {
      add_spinning(-1);
    }
    fence(WEFT_ORDER(ID1, seq_cst));  // order: ID1 Dekker with the fence in claim_wake()
    // order: ID2 relaxed; the fence above and the one in leave_request() make the Dekker pair
    return was_spinning || (needspinning_.load(WEFT_ORDER(ID0, relaxed)) != 0 &&
                            !WEFT_MUTANT("look-ignores-request"));
  }

  // Under sched.lock. A searcher found work but no idle P: the next M that runs dry must look.
  void request_spinner() {
    needspinning_.store(1, WEFT_ORDER(ID0, relaxed));  // order: relaxed, guarded by sched.lock
  }
  // Under sched.lock, by an M that is about to let its P go idle.
  [[nodiscard]] bool spinner_requested() const {
    return needspinning_.load(WEFT_ORDER(ID0, relaxed)) != 0;  // order: relaxed, sched.lock
  }

  // Under sched.lock: the length of the idle list.
  void add_idle(std::int32_t n) {
    idle_.fetch_add(n, WEFT_ORDER(ID0, relaxed));  // order: relaxed, fenced by claim/look above
  }

  std::int32_t idle() const {
    return idle_.load(WEFT_ORDER(ID0, relaxed));  // order: relaxed, a hint or under sched.lock
  }
  std::int32_t spinning() const {
    return spinning_.load(WEFT_ORDER(ID0, relaxed));  // order: relaxed, a hint
  }

 private:
  // No P is idle: ask the next M that runs dry to look. True: one became idle meanwhile.
  bool leave_request() {
    if (needspinning_.load(WEFT_ORDER(ID0, relaxed)) != 0) {  // order: relaxed, after ID1's fence
      return false;
    }
    if (WEFT_MUTANT("no-request")) return false;
    needspinning_.store(1, WEFT_ORDER(ID0, relaxed));  // order: relaxed, the fence below orders it
    fence(WEFT_ORDER(ID2, seq_cst));  // order: ID2 Dekker with must_look_again(): it sees the
                                      // request, or we see its P
    return idle_.load(WEFT_ORDER(ID0, relaxed)) != 0;  // order: relaxed, the fence above orders it
  }

  void add_spinning(std::int32_t n) {
    spinning_.fetch_add(n, WEFT_ORDER(ID0, relaxed));  // order: relaxed, callers fence
  }

  // All three are read by every submitter and written only when Ms fall asleep or wake up.
  alignas(64) shared_atomic<std::int32_t> spinning_{0};
  shared_atomic<std::int32_t> idle_{0};
  shared_atomic<std::uint32_t> needspinning_{0};
};

}  // namespace weft::rt
