// Stacks of a goroutine's creators: debug/ancestors.cc.
#pragma once

#include <cstdint>

#include "base/print.h"
#include "debug/traceback.h"

namespace weft::rt {

// Once, while booting.
void init_ancestors() noexcept;

// As many generations as WEFTDEBUG=tracebackancestors says, as far as they are known.
void print_ancestors(printer& out, std::uint64_t goid, traceback_level::detail show) noexcept;

}  // namespace weft::rt
