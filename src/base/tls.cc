// See tls.h.
#include "base/tls.h"

#include <cxxabi.h>

extern "C" void* __dso_handle;  // NOLINT: the C++ ABI's name for this library

namespace weft::detail {

constinit const std::uint64_t nobody = 0;

// Initial-exec, as below; named in <weft/detail/owner.h>.
[[gnu::tls_model("initial-exec"),
  gnu::used]] WEFT_EXPORT constinit thread_local const std::uint64_t* current_id = &nobody;

#if !defined(__x86_64__) && !defined(__aarch64__)
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) std::uint32_t this_owner() noexcept {
  return static_cast<std::uint32_t>(*current_id);
}
#endif

}  // namespace weft::detail

namespace weft::rt {

// Initial-exec: reading it never calls the loader, so it is safe in signal handlers. Named for current_m().
[[gnu::tls_model("initial-exec"), gnu::visibility("hidden"),
  gnu::used]] constinit thread_local M* tls_m asm("weft_current_m") = nullptr;

namespace {
[[gnu::tls_model("initial-exec")]] constinit thread_local bool tls_watched = false;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool tls_stops_world = false;
}  // namespace

#if !defined(__x86_64__) && !defined(__aarch64__)
// Not instrumented: every goroutine reads the word of whichever thread it is on, and only that
// thread writes it.
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) M* current_m() noexcept {
  M* mp = tls_m;
  asm volatile("" : "+r"(mp));  // not pure: the result differs from call to call
  return mp;
}
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
[[gnu::noinline]] void set_current_id(const std::uint64_t* id) noexcept { detail::current_id = id; }
#endif

[[gnu::noinline]] void set_current_m(M* mp) noexcept {
  tls_m = mp;
  if (mp == nullptr) {
    set_current_id(&detail::nobody);
  }
}

[[gnu::noinline]] bool thread_stops_world() noexcept { return tls_stops_world; }
[[gnu::noinline]] void set_thread_stops_world(bool stops) noexcept { tls_stops_world = stops; }

[[gnu::noinline]] void on_thread_end(void (*f)(void*)) noexcept {
  if (!tls_watched) {
    tls_watched = true;
    __cxxabiv1::__cxa_thread_atexit(f, nullptr, &__dso_handle);
  }
}

}  // namespace weft::rt
