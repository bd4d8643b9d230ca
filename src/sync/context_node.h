// What a context is (context.cc), for those who wait with one.
#pragma once

#include <weft/context.h>

#include "gmp/cancel_source.h"
#include "sched/timed.h"

namespace weft::rt {

// Null: it is never cancelled.
cancel_source* source_of(detail::context_node* node) noexcept;

inline wait_limit limit_of(const detail::limit& l) noexcept {
  return {l.deadline, l.ctx == nullptr ? nullptr : source_of(context_access::node(*l.ctx))};
}

}  // namespace weft::rt
