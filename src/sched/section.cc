// See section.h.
#include "sched/section.h"

namespace weft::rt {

#if WEFT_TSAN
WEFT_NO_TSAN M* enter_runtime() noexcept {
  M* mp = enter_border();
  if (mp != nullptr) {
    mp->tools.become();
    tsan_acquire(&mp->p);  // from whoever has had its P meanwhile: borrow.cc
    tsan_ignore_begin();
  }
  return mp;
}

namespace {

WEFT_NO_TSAN void end_section(M* mp, const char* label) noexcept {
  tsan_release(&mp->p);  // to whoever robs it
  tsan_ignore_end();
  if (mp->curg != nullptr && !is_tsan_mutant(label)) {
    mp->curg->tools.become();
  }
}

}  // namespace

WEFT_NO_TSAN void leave_runtime(M* mp, const char* label) noexcept {
  if (mp != nullptr) {
    end_section(mp, label);
    leave_border(mp);
  }
}

WEFT_NO_TSAN void leave_without_p(M* mp) noexcept {
  end_section(mp, "");
  static_cast<void>(mp->border.leave());
}
#endif

WEFT_NO_TSAN bool on_goroutine() noexcept {
  const M* mp = current_m();
  return mp != nullptr && mp->curg != nullptr;
}

}  // namespace weft::rt
