// Whom a poller has found ready: a list that its caller wakes. Nouns wake nobody.
#pragma once

#include <cstdint>

#include "gmp/waiter.h"

namespace weft::rt {

// Who is to be woken, oldest first, linked by waiter::next.
struct ready_list {
  waiter* first = nullptr;
  waiter* last = nullptr;
  std::int32_t count = 0;

  void add(waiter* w) {
    w->next = nullptr;
    (last != nullptr ? last->next : first) = w;
    last = w;
    ++count;
  }
  waiter* pop() {
    waiter* w = first;
    if (w != nullptr) {
      first = w->next;
      last = first != nullptr ? last : nullptr;
      --count;
    }
    return w;
  }
};

}  // namespace weft::rt
