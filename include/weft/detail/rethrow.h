// Exceptions that go from one goroutine to another.
#pragma once

#include <exception>

#include <weft/detail/export.h>

namespace weft::detail {

// std::rethrow_exception for what another goroutine may have stored, or be handling as well.
[[noreturn]] WEFT_EXPORT void rethrow_carried(const std::exception_ptr& e);

}  // namespace weft::detail
