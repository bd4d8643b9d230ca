// Crossing the border (border.h) from code that may run on a goroutine, on g0 or on a plain thread.
//
// Problem. A goroutine can be frozen, and its P taken, wherever it is in its own code. It must not hold a
// word then that somebody spins for in the runtime, a queue bit or a lock: that somebody cannot be
// frozen, and would spin until the P on which it spins is given to the holder. So whoever takes such
// a word is inside from before until after.
//
// IN1: nobody inside waits for what somebody outside holds. The other way round is harmless: who waits
//      outside loses its P. So no memory is allocated inside, and nothing is thrown.
//
// What to do when the border says that the P is gone, or wanted, is the scheduler's affair (sched/preempt.cc,
// which defines come_back() and give_way()); everything that crosses the border needs only this.
#pragma once

#include "base/lock_rank.h"
#include "base/tls.h"
#include "gmp/m.h"

namespace weft::rt {

// Somebody has taken the P: returns with one again, on this thread.
void come_back(M* mp) noexcept;
// … or wants it: returns when it is this goroutine's turn again, on this thread (D2).
void give_way(M* mp) noexcept;

// Lets others run, and comes back on the same thread: for calls that may not change it (D2), and that
// wait for somebody who may need this processor. Runs on: G, plain thread, g0. Blocks: M.
#ifdef WEFT_MODEL
inline void yield_staying() { cpu_pause(); }
#else
void yield_staying();  // sched/staying.cc
#endif

// Most models have nobody who would take a P.
#ifdef WEFT_MODEL
extern bool live_borders;
#else
inline constexpr bool live_borders = true;
#endif

// Nobody takes the P until leave_border(). Null on plain threads. Nests.
[[gnu::always_inline]] inline M* enter_border() noexcept {
  M* mp = current_m();
  if (live_borders && mp != nullptr && !mp->border.enter()) [[unlikely]] {
    come_back(mp);
  }
  return mp;
}
[[gnu::always_inline]] inline void leave_border(M* mp) noexcept {
  if (live_borders && mp != nullptr && !mp->border.leave()) [[unlikely]] {
    give_way(mp);
  }
}

// A scope in which the goroutine keeps its P. It may park in it, and come back on another M; its depth it
// keeps.
class inside {
 public:
  [[gnu::always_inline]] inside() noexcept {
    M* mp = live_borders ? current_m() : nullptr;
    if (mp != nullptr) {
      depth_ = mp->border.depth();
      if (!mp->border.enter_from(depth_)) [[unlikely]] {
        come_back(mp);
      }
    }
  }
  [[gnu::always_inline]] ~inside() {
    M* mp = live_borders ? current_m() : nullptr;
    if (mp != nullptr && !mp->border.leave_to(depth_)) [[unlikely]] {
      give_way(mp);
    }
  }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

 private:
  std::uint32_t depth_ = 0;
};

// The user's code, or a long wait, within such a scope. Requires: no queue bit is held, nor a lock but
// a channel's, whose waiters yield.
class outside {
 public:
  outside() noexcept {
    M* mp = live_borders ? current_m() : nullptr;
    depth_ = mp == nullptr ? 0 : mp->border.depth();
    if (depth_ != 0) {
      mp->border.set_depth(1);
      leave_border(mp);
    }
  }
  ~outside() {
    if (depth_ != 0) {
      enter_border()->border.set_depth(depth_);
    }
  }
  outside(const outside&) = delete;
  outside& operator=(const outside&) = delete;

 private:
  std::uint32_t depth_;
};

// Where a queue bit or a lock is taken. Checked builds only.
inline void check_inside() {
#ifdef WEFT_LOCK_RANK
  note_word_taken();
#endif
}

}  // namespace weft::rt
