// See signal_stack.h.
#include "os/signal_stack.h"

#include <errno.h>
#include <signal.h>

#include "base/atomic.h"  // WEFT_NO_TSAN
#include "os/memory.h"

namespace weft::rt {

namespace {

constexpr std::size_t kSize =
    256 * 1024;  // a crash report is made there; untouched pages cost nothing

bool has_one(stack_t* present) noexcept {
  return sigaltstack(nullptr, present) == 0 && (present->ss_flags & SS_DISABLE) == 0;
}

}  // namespace

void signal_stack::adopt() noexcept {
  const int saved = errno;
  stack_t present{};
  if (!has_one(&present)) {
    if (memory_ == nullptr) memory_ = reserve(kSize);
    if (memory_ != nullptr) {
      stack_t ours{};
      ours.ss_sp = memory_;
      ours.ss_size = kSize;
      sigaltstack(&ours, nullptr);
    }
  }
  errno = saved;
}

// Not instrumented: errno is the thread's, and goroutines that were here have written it.
WEFT_NO_TSAN void signal_stack::abandon() noexcept {
  const int saved = errno;
  stack_t present{};
  if (memory_ != nullptr && has_one(&present) && present.ss_sp == memory_) {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  errno = saved;
}

}  // namespace weft::rt
