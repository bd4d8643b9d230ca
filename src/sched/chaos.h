// The chaos build (WEFT_CHAOS): legal but unlikely decisions, taken often, so that nothing comes to
// depend on luck. Nothing at all elsewhere.
//
// Decisions are drawn from the M's own generator, which begins with WEFT_TEST_SEED if that is set: an M takes
// the same ones in the same order again. What threads do to each other remains the kernel's affair.
//
// Not a scheduling point where there is none otherwise: the caller may hold a std::mutex, or the lock of
// a channel that its own commit is to drop. There only the thread gives way, as it may at any time.
#pragma once

#include <cstdint>

#include "gmp/m.h"

namespace weft::rt {

// Where every M's generator begins, together with its id.
std::uint64_t scheduling_seed() noexcept;

#ifdef WEFT_CHAOS
inline constexpr bool chaos_build = true;
inline bool chaos_coin(M* mp) { return (mp->random.next32() & 1) != 0; }
inline bool chaos_seldom(M* mp) { return mp->random.next32() % 8 == 0; }
// Perhaps the thread gives way: a window that is open for nanoseconds stays open.
void chaos_pause(M* mp) noexcept;
// For how long an idle M sleeps before it wakes for no reason; 0: until it is woken.
inline std::int64_t chaos_nap(M* mp) {
  constexpr std::int64_t kShortest = 50'000;  // ns
  return chaos_coin(mp) ? kShortest << (mp->random.next32() % 10) : 0;
}
#else
inline constexpr bool chaos_build = false;
constexpr bool chaos_coin(M*) { return false; }
constexpr bool chaos_seldom(M*) { return false; }
constexpr void chaos_pause(M*) {}
constexpr std::int64_t chaos_nap(M*) { return 0; }
#endif

}  // namespace weft::rt
