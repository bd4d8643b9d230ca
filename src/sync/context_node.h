// What a context is (context.cc), for those who wait with one.
#pragma once

#include <weft/context.h>

#include "gmp/cancel_source.h"

namespace weft::rt {

// Null: it is never cancelled.
cancel_source* source_of(detail::context_node* node) noexcept;

}  // namespace weft::rt
