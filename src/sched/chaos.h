// The chaos build (WEFT_CHAOS): legal but unlikely decisions, taken often, so that nothing comes to
// depend on luck. Constant false elsewhere.
#pragma once

#include "gmp/m.h"

namespace weft::rt {

#ifdef WEFT_CHAOS
inline bool chaos_coin(M* mp) { return (mp->random.next32() & 1) != 0; }
#else
constexpr bool chaos_coin(M*) { return false; }
#endif

}  // namespace weft::rt
