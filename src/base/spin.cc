// Spin loops in exit(); see cpu_pause() in base/atomic.h.
#include <cerrno>
#include <time.h>

#include "base/atomic.h"

namespace weft::rt {

constinit atomic<bool> spinners_nap{false};

namespace {

constinit atomic<std::uint32_t> pauses{0};
constinit atomic<std::int64_t> last_nap{0};

std::int64_t now() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

// By the number of pauses, far more than an undisturbed holder makes others wait; and by the time, since on a busy machine a
// pause that yields to other processes takes milliseconds.
void nap_now_and_then() noexcept {
  constexpr std::uint32_t kPauses = 4096;
  constexpr std::int64_t kAwake = 5'000'000;
  constexpr timespec kNap = {0, 10'000'000};  // five looks of the guardian's
  // order: relaxed, any thread's count and time will do
  const std::uint32_t n = pauses.fetch_add(1, WEFT_ORDER(SP0, relaxed));
  const std::int64_t since = last_nap.load(WEFT_ORDER(SP0, relaxed));
  if (since != 0 && n % kPauses != kPauses - 1 && now() - since < kAwake) {
    return;
  }
  if (since != 0) {
    const int saved_errno = errno;
    nanosleep(&kNap, nullptr);
    errno = saved_errno;
  }
  last_nap.store(now(), WEFT_ORDER(SP0, relaxed));  // order: relaxed, as above
}

}  // namespace weft::rt
