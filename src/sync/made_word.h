// The first word of what goroutines wait for: where it was made, for reports; and whether lockcheck has met it.
//
// The constructor in the header writes it (weft/detail/made.h); null: before the program ran, or it does not know.
// It is the first one everywhere, so that whoever reports a wait need not know what is waited for.
//
// Whatever is made at the address of something that is gone has not been met, so that lockcheck (sync/lockcheck.h)
// notices, and takes nothing for another. Code has no addresses with the upper bits, in which that is kept.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class made_word {
 public:
  // What the call would have returned to that made it, or was the first to lock it. Null: unknown. Reports ask, of
  // whatever others do meanwhile.
  WEFT_NO_TSAN const void* made_by() const { return (word_ & kFirstLock) == 0 ? place() : nullptr; }
  WEFT_NO_TSAN const void* first_lock() const {
    return (word_ & kFirstLock) != 0 ? place() : nullptr;
  }

  // -- by lockcheck, under its lock
  bool met() const { return (word_ & kMet) != 0; }
  void meet(const void* site) {
    if (word_ == 0) word_ = reinterpret_cast<std::uintptr_t>(site) | kFirstLock;
    word_ |= kMet;
  }

 protected:
  constexpr made_word() = default;

 private:
  static constexpr std::uintptr_t kMet = std::uintptr_t{1} << 63;
  static constexpr std::uintptr_t kFirstLock = std::uintptr_t{1} << 62;

  WEFT_NO_TSAN const void* place() const {
    return reinterpret_cast<const void*>(word_ & ~(kMet | kFirstLock));
  }

  using any_word [[gnu::may_alias]] = std::uintptr_t;  // to its constructor it is a pointer
  any_word word_ = 0;
};

}  // namespace weft::rt
