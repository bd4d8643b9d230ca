// The border between a goroutine's own code and the runtime, as others see it (D2, D3).
//
// Problem. Nobody tells us when a goroutine calls something that blocks, or computes for long. So the P
// must be taken from an M that is somewhere in the user's code, without its help and without a signal
// (which would end its system call). But never while it is in the runtime: there it uses the P.
//
//   the M that owns the border                 whoever takes the P (sysmon), under sched.lock
//   enters the runtime                         1. robbed = 1
//   1. inside = 1                              2. heavy fence                               BD1
//   2. light fence                    BD1      3. inside == 0: the P is ours               BD2
//   3. robbed != 0: look under sched.lock         else robbed = 0, and nothing has happened
//   leaves it
//   4. inside = 0                     BD2      later, mostly when the M asks for it, but also on
//   5. asked != 0: give the P up               its behalf (sched/borrow.cc): the P is the M's,
//                                              robbed = 0                                   BD3
//
// BD-a: if rob() succeeds, the M touches nothing of its P any more: it sees `robbed` when it next enters.
//       Otherwise two Ms use one P.
// BD-b: what the M did with its P before it left is visible to whoever robs it.
// BD-c: a request is honoured at the latest when the M leaves the runtime. The handler that finds
//       the M inside leaves its request in `asked`; it runs on the M's own thread, so that no fence is
//       needed between 4 and 5.
//
// BD-d: what others did with the P is visible to the M that has it again: when it enters and finds `robbed` clear.
//
// Entering is a plain store and a plain load: the fence is paid for by sysmon (base/asymmetric_fence.h).
//
// Sections nest: `inside` is a depth. A goroutine keeps its depth across a switch (sched/switch.h).
//
// Rejected: a status word that is exchanged at every entry, as Go does for system calls (20 cycles
// each way, and here every call of the runtime is one).
#pragma once

#include <cstdint>

#include "base/asymmetric_fence.h"
#include "base/atomic.h"

namespace weft::rt {

class border {
 public:
  // -- by the owner

  // False: the P may be gone. Look under sched.lock.
  [[nodiscard, gnu::always_inline]] bool enter() { return enter_from(depth()); }
  // The same; the caller has read the depth.
  [[nodiscard, gnu::always_inline]] bool enter_from(std::uint32_t depth) {
    inside_.store(depth + 1, WEFT_ORDER(BD0, relaxed));  // order: relaxed, the fence orders it
    if (depth != 0) [[unlikely]] {
      return true;
    }
    light_fence(WEFT_ORDER(BD1, seq_cst));  // order: BD1 Dekker with rob()
    // order: BD3 acquire: sees what others did with its P; pairs with give_back()
    return robbed_.load(WEFT_ORDER(BD3, acquire)) == 0;
  }

  // False: somebody else is to have the P.
  [[nodiscard, gnu::always_inline]] bool leave() { return leave_to(depth() - 1); }
  // The same, to a depth that the caller remembers. The word was written a moment ago, and reading it would wait
  // for that.
  [[nodiscard, gnu::always_inline]] bool leave_to(std::uint32_t depth) {
    // order: BD2 release: what was done with the P precedes its being taken; pairs with rob()
    inside_.store(depth, WEFT_ORDER(BD2, release));
    signal_fence();
    if (depth != 0) [[unlikely]] {
      return true;
    }
    return WEFT_MUTANT("leave-ignores-request") ||
           asked_.load(WEFT_ORDER(BD0, relaxed)) == 0;  // order: relaxed, own thread's
  }

  std::uint32_t depth() const {
    return inside_.load(WEFT_ORDER(BD0, relaxed));  // order: relaxed, the owner's own word
  }
  void set_depth(std::uint32_t depth) {
    inside_.store(depth, WEFT_ORDER(BD0, relaxed));  // order: relaxed, it stays inside
  }

  // A new time slice: whoever asked has got what it wanted.
  void begin_slice() {
    if (asked_.load(WEFT_ORDER(BD0, relaxed)) != 0) [[unlikely]] {  // order: relaxed, a request
      asked_.store(0, WEFT_ORDER(BD0, relaxed));  // order: relaxed, at worst one is made again
    }
  }

  // -- under sched.lock

  // True: the owner is in the user's code and has no P from now on.
  [[nodiscard]] bool rob() {
    robbed_.store(1, WEFT_ORDER(BD0, relaxed));  // order: relaxed, the fence orders it
    if (!WEFT_MUTANT("rob-without-fence")) {
      heavy_fence(WEFT_ORDER(BD1, seq_cst));  // order: BD1 Dekker with enter()
    }
    // order: BD2 acquire: sees what the owner did with its P; pairs with leave()
    if (inside_.load(WEFT_ORDER(BD2, acquire)) == 0 || WEFT_MUTANT("rob-inside")) {
      return true;
    }
    robbed_.store(0, WEFT_ORDER(BD0, relaxed));  // order: relaxed, under sched.lock
    return false;
  }
  // By the owner itself, who is inside.
  void be_robbed() {
    robbed_.store(1, WEFT_ORDER(BD0, relaxed));  // order: relaxed, under sched.lock
  }
  void give_back() {
    // order: BD3 release: what was done with the P precedes the owner's next use; pairs with enter()
    robbed_.store(0, WEFT_ORDER(BD3, release));
  }
  bool robbed() const {
    return robbed_.load(WEFT_ORDER(BD0, relaxed)) != 0;  // order: relaxed, under sched.lock, or own
  }

  // -- by anybody

  void ask() {
    asked_.store(1, WEFT_ORDER(BD0, relaxed));  // order: relaxed, a request; a signal follows
  }
  // A hint.
  bool outside() const {
    return inside_.load(WEFT_ORDER(BD0, relaxed)) == 0;  // order: relaxed, a hint
  }

 private:
  static void signal_fence() {
#ifndef WEFT_MODEL
    std::atomic_signal_fence(
        std::
            memory_order_seq_cst);  // order: BD-c compiler only: pairs with the handler, which is on this thread
#endif
  }

  atomic<std::uint32_t> inside_{1};  // an M is born in the runtime
  atomic<std::uint32_t> robbed_{0};
  atomic<std::uint32_t> asked_{0};
};

}  // namespace weft::rt
