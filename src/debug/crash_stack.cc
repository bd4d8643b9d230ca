// See debug/crash_stack.h.
#include "debug/crash_stack.h"

#include <cstddef>

#include "base/valgrind.h"
#include "fiber/context.h"
#include "fiber/sanitizer.h"
#include "gmp/g.h"
#include "gmp/m.h"

namespace weft::rt {

namespace {

constexpr std::size_t kSize = 256 * 1024;  // pages that are never touched cost nothing
alignas(64) std::byte memory[kSize];

struct excursion {
  void (*job)(void*);
  void* arg;
  context home;
  fiber_tools home_tools;
  fiber_tools crash_tools;
};

// Not instrumented, as all that changes stacks.
WEFT_NO_TSAN WEFT_NO_ASAN departure run_job(void* transfer) {
  auto* trip = static_cast<excursion*>(transfer);
  trip->crash_tools.arrive();
  trip->job(trip->arg);
  trip->crash_tools.leave(trip->home_tools);
  return {&trip->home, nullptr};
}

WEFT_NO_TSAN void go_there(const fiber_tools& home, void (*job)(void*), void* arg) {
  excursion trip{job, arg, {}, home, {}};
  trip.crash_tools.attach(memory, memory + kSize);
  tell_valgrind_of_stack(memory, memory + kSize);
  const context crash = new_context(memory + kSize);
  trip.home_tools.leave(trip.crash_tools);
  weft_switch(&trip.home, &crash, &trip, run_job);
  trip.home_tools.arrive();
}

}  // namespace

WEFT_NO_TSAN void on_crash_stack(const G* gp, void (*job)(void* arg), void* arg) noexcept {
  if (gp == nullptr) {
    job(arg);
  } else {
    go_there(gp->tools, job, arg);
  }
}

WEFT_NO_TSAN void on_crash_stack(const M* mp, void (*job)(void* arg), void* arg) noexcept {
  if (mp == nullptr) {
    job(arg);
  } else {
    go_there(mp->curg != nullptr ? mp->curg->tools : mp->tools, job, arg);
  }
}

}  // namespace weft::rt
