// Where an object was made: looked for, if its constructor cannot say so by itself (weft/detail/made.h), and read.
#include <cerrno>
#include <cstdint>

#include <weft/detail/made.h>

#include "base/readable.h"
#include "debug/loaded_file.h"
#include "debug/traceback.h"
#include "debug/waits.h"
#include "sync/made_word.h"

namespace weft::detail {

// Files are looked into, and errno is kept; not instrumented, since that is the thread's, and TSan sees goroutines.
WEFT_NO_TSAN const void* find_maker() noexcept {
  const int saved_errno = errno;
  const void* const found = rt::user_call_site(__builtin_return_address(0));
  errno = saved_errno;
  return found;
}

}  // namespace weft::detail

namespace weft::rt {

namespace {

// Null if it is not in any program: what was there is gone, and the word may be anything.
const void* if_code(const void* place) {
  loaded_file file;
  return find_loaded_file(reinterpret_cast<std::uintptr_t>(place) - 1, file) ? place : nullptr;
}

}  // namespace

object_origin origin_of(const void* object) noexcept {
  if (!readable(reinterpret_cast<std::uintptr_t>(object), sizeof(made_word))) return {};
  const auto& word = *static_cast<const made_word*>(object);
  return {if_code(word.made_by()), if_code(word.first_lock())};
}

}  // namespace weft::rt
