// See tsan_mutant.h. Empty in all builds but one.
#include "base/tsan_mutant.h"

#ifdef WEFT_TSAN_MUTANTS
#include <cstdlib>
#include <cstring>

#include <weft/detail/export.h>

namespace weft::rt {

constinit const char* tsan_mutants = nullptr;

namespace {

// Before most others' initialisers, which may use weft; not seen by TSan, for those that come even earlier.
[[gnu::constructor(101)]] __attribute__((disable_sanitizer_instrumentation)) void read_mutants() {
  tsan_mutants = std::getenv("WEFT_TSAN_MUTANT");
}

}  // namespace

__attribute__((disable_sanitizer_instrumentation)) bool is_listed_mutant(
    const char* label) noexcept {
  for (const char* at = tsan_mutants; *at != 0;) {
    const std::size_t length = std::strcspn(at, ",");
    const bool prefix = length > 0 && at[length - 1] == '*';
    if (std::strncmp(at, label, prefix ? length - 1 : length) == 0 &&
        (prefix || label[length] == 0)) {
      return true;
    }
    at += length + (at[length] == ',' ? 1 : 0);
  }
  return false;
}

}  // namespace weft::rt

namespace weft::detail {

int release_unless_mutant(const char* label) noexcept {
  return rt::is_tsan_mutant(label) ? __ATOMIC_RELAXED : __ATOMIC_RELEASE;  // order: as asked for
}

}  // namespace weft::detail
#endif
