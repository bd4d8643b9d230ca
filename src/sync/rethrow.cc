// Exceptions that go from one goroutine to another, and what TSan makes of their end.
//
// Problem. Whoever drops the last reference frees the exception: the future that kept it, or one of
// those who handle it. libstdc++ counts references in code that is not instrumented. So TSan sees
// several goroutines read an object and one of them free it, and no edge in between.
//
// The handlers end in the compiler's code, where nothing can be said to TSan. So in TSan builds the last
// kKept exceptions are kept here: then no handler is the last, and those that make room for others are
// dropped while TSan looks away. A race between handlers that write to the exception is still found.
//
// Rejected: a suppression (hides the users' races on exceptions, too, and every program would need it);
// keeping them for good (a test that throws for an hour).
#include <cstddef>
#include <cstdint>

#include <weft/detail/rethrow.h>

#include "base/atomic.h"
#include "fiber/sanitizer.h"

namespace weft::rt {

namespace {

#if WEFT_TSAN
constexpr std::size_t kKept = 4096;
constinit atomic<std::exception_ptr*> kept[kKept];
constinit atomic<std::size_t> next_kept{0};

void keep(const std::exception_ptr& e) {
  tsan_ignore_begin();
  // order: KE0 relaxed, only hands out places
  const std::size_t place = next_kept.fetch_add(1, WEFT_ORDER(KE0, relaxed)) % kKept;
  // order: KE1 acq_rel, with itself: the box goes over with what is in it
  delete kept[place].exchange(new std::exception_ptr(e), WEFT_ORDER(KE1, acq_rel));
  tsan_ignore_end();
}
#else
void keep(const std::exception_ptr&) {}
#endif

}  // namespace

}  // namespace weft::rt

namespace weft::detail {

void rethrow_carried(const std::exception_ptr& e) {
  rt::keep(e);
  std::rethrow_exception(e);
}

}  // namespace weft::detail
