// What a cancellation reaches: a list of hooks, each called once. Contexts and the std::stop_token
// bridge are sources; a wait with a context adds a hook that lives on the waiter's stack.
#pragma once

#include <cstdint>

#include "base/annotations.h"
#include "base/atomic.h"
#include "base/lock.h"

namespace weft::rt {

struct cancel_hook {
  // Called once, by the thread that cancels, without any lock of the source. May wake() and add or
  // remove other hooks; must not block. The hook may be gone once it returns.
  void (*fire)(cancel_hook*) = nullptr;

  // -- the source's
  cancel_hook* next = nullptr;
  cancel_hook* prev = nullptr;
  enum class state : std::uint8_t { idle, listed, fired } at = state::idle;
};

class cancel_source {
 public:
  constexpr cancel_source() noexcept = default;
  cancel_source(const cancel_source&) = delete;
  cancel_source& operator=(const cancel_source&) = delete;

  // False: already cancelled; the hook was not added and will not be called.
  bool add(cancel_hook& hook);

  // True: it will not be called. False: it has been called, or was never added; returns only when
  // fire() has returned, unless the caller is fire() itself.
  bool remove(cancel_hook& hook);

  // Calls every hook. Once: true for the first caller only. The others do not wait for it.
  bool cancel();

  bool cancelled() const;
};

}  // namespace weft::rt
