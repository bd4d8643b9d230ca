// See debug/crash_stack.h.
#include "debug/crash_stack.h"

#include <cstddef>

#include "fiber/context.h"
#include "fiber/sanitizer.h"
#include "gmp/g.h"

namespace weft::rt {

namespace {

constexpr std::size_t kSize = 256 * 1024;  // pages that are never touched cost nothing
alignas(64) std::byte memory[kSize];

struct excursion {
  void (*job)(void*);
  void* arg;
  context home;
  context crash;
  fiber_tools home_tools;
  fiber_tools crash_tools;
};

// Not instrumented, as all that changes stacks.
WEFT_NO_TSAN void run_job(void* transfer) {
  auto* trip = static_cast<excursion*>(transfer);
  trip->crash_tools.arrive();
  trip->job(trip->arg);
  trip->crash_tools.leave(trip->home_tools);
  weft_switch(&trip->crash, &trip->home, nullptr);
  __builtin_trap();
}

}  // namespace

WEFT_NO_TSAN void on_crash_stack(const G* gp, void (*job)(void* arg), void* arg) noexcept {
  if (gp == nullptr) {
    job(arg);
    return;
  }
  excursion trip{job, arg, {}, {}, gp->tools, {}};
  trip.crash_tools.attach(memory, memory + kSize);
  make_context(trip.crash, memory + kSize, run_job);
  trip.home_tools.leave(trip.crash_tools);
  weft_switch(&trip.home, &trip.crash, &trip);
  trip.home_tools.arrive();
}

}  // namespace weft::rt
