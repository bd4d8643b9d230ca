// Where the objects that goroutines wait for are made, for reports (WEFTDEBUG=lockcheck=1).
#pragma once

#include <type_traits>

#include <weft/detail/export.h>

namespace weft::detail {

extern WEFT_EXPORT bool
    lock_checks;  // WEFTDEBUG=lockcheck=1; constant once the runtime has started

WEFT_EXPORT void note_made(const void* object) noexcept;

// For constructors. Whatever is initialised before the program runs is static, and has a name instead.
[[gnu::always_inline]] constexpr void made(const void* object) noexcept {
  if (!std::is_constant_evaluated() && lock_checks) [[unlikely]] {
    note_made(object);
  }
}

}  // namespace weft::detail
