// See eh_globals.h.
#include "fiber/eh_globals.h"

#include <cstddef>
#include <cxxabi.h>

namespace weft::rt {

#if defined(__arm__)
#error "the exception block of 32-bit ARM has a third word"
#endif
static_assert(offsetof(eh_state, caught) == 0 && offsetof(eh_state, uncaught) == sizeof(void*));

eh_state* thread_eh_state() noexcept {
  return reinterpret_cast<eh_state*>(abi::__cxa_get_globals());
}

}  // namespace weft::rt
