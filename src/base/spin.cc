// Spin loops in exit(); see cpu_pause() in base/atomic.h.
#include <cerrno>
#include <time.h>

#include "base/atomic.h"

namespace weft::rt {

constinit atomic<bool> spinners_nap{false};

namespace {
constinit atomic<std::uint32_t> pauses{0};
}  // namespace

void nap_now_and_then() noexcept {
  constexpr std::uint32_t kPauses = 4096;  // far more than an undisturbed holder makes others wait
  constexpr timespec kNap = {0, 10'000'000};  // five looks of the guardian's
  // order: relaxed, any thread's count will do
  if (pauses.fetch_add(1, WEFT_ORDER(SP0, relaxed)) % kPauses == kPauses - 1) {
    const int saved_errno = errno;
    nanosleep(&kNap, nullptr);
    errno = saved_errno;
  }
}

}  // namespace weft::rt
