// Entering the world of goroutines.
#pragma once

#include <type_traits>
#include <utility>

#include <weft/detail/export.h>

namespace weft {

/// max_procs > 0 acts as runtime::gomaxprocs(n) on entry, and so beats WEFTMAXPROCS. With
/// lock_main_thread the goroutine runs on the calling thread itself and nowhere else, for GUI loops
/// and other main-thread-only APIs.
struct run_options {
  int max_procs = 0;
  bool lock_main_thread = false;
};

namespace detail {
WEFT_EXPORT void run_goroutine(void (*fn)(void*), void* arg, const run_options&);
}  // namespace detail

/// Runs f as a goroutine and blocks the caller until it returns; returns its int, or 0. An exception
/// from f ends the process with a panic report. Other goroutines go on until the process exits; at
/// exit the world is stopped before static destructors run.
///
/// May be called again later, from several threads at once, and inside a goroutine, which then parks.
template <class F>
int run(F&& f, run_options options = {}) {
  struct call {
    std::remove_reference_t<F>& f;
    int status = 0;
    static void invoke(void* self) {
      auto* c = static_cast<call*>(self);
      if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
        std::forward<F>(c->f)();
      } else {
        c->status = static_cast<int>(std::forward<F>(c->f)());
      }
    }
  } c{f};
  detail::run_goroutine(&call::invoke, &c, options);
  return c.status;
}

}  // namespace weft
