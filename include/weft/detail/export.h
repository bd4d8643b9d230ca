// What leaves the library, and what its headers need of the compiler.
#pragma once

#define WEFT_EXPORT __attribute__((visibility("default")))

// A release in a header, with the label of the protocol it belongs to. In builds with WEFT_TSAN_MUTANTS
// it can be taken away (src/base/tsan_mutant.h).
#ifdef WEFT_TSAN_MUTANTS
namespace weft::detail {
WEFT_EXPORT int release_unless_mutant(const char* label) noexcept;
}
#define WEFT_HEADER_RELEASE(LABEL) ::weft::detail::release_unless_mutant(#LABEL)
#else
#define WEFT_HEADER_RELEASE(LABEL) __ATOMIC_RELEASE
#endif
