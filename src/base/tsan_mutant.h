// Edges of the memory model, taken away on purpose.
//
// Problem. A program that ThreadSanitizer finds silent shows that an edge is there only if it would
// not be silent without. So the build with WEFT_TSAN_MUTANTS can lose each one: the variable
// WEFT_TSAN_MUTANT names labels (those of WEFT_ORDER, and of tsan_release), separated by commas, "MX*" for all
// that begin so; their orders become relaxed, their releases nothing. To TSan only: on x86 the program
// runs as before.
#pragma once

namespace weft::rt {

#ifdef WEFT_TSAN_MUTANTS
extern const char* tsan_mutants;  // null: none
bool is_listed_mutant(const char* label) noexcept;
inline bool is_tsan_mutant(const char* label) noexcept {
  return tsan_mutants != nullptr && is_listed_mutant(label);
}
#else
constexpr bool is_tsan_mutant(const char*) noexcept { return false; }
#endif

}  // namespace weft::rt
