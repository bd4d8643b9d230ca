// Work that only a thread can do: getaddrinfo(), waiting for a child without a pidfd, the delivery of
// signals. Such threads belong to the library, not to the program: they are born with all signals
// blocked, so that a handler of the program never runs on one of them, and detached. The one that delivers signals lets those in
// for which the handler is weft's (io/signal_mask.h).
#pragma once

#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "os/thread.h"
#include "sched/sched_api.h"

namespace weft::rt {

/// Runs f() on a thread of its own. An error: there is none to be had, and f has not run.
template <class F>
[[nodiscard]] std::error_code on_own_thread(F f) {
  std::unique_ptr<F> work(new (std::nothrow) F(std::move(f)));
  if (work == nullptr) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
  shed_short_slices();
  const int error = create_thread(
      [](void* arg) -> void* {
        (*std::unique_ptr<F>(static_cast<F*>(arg)))();
        return nullptr;
      },
      work.get());
  if (error == 0) {
    static_cast<void>(work.release());
  }
  return {error, std::system_category()};
}

}  // namespace weft::rt
