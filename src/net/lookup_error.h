// What getaddrinfo() says, as an error.
#pragma once

#include <system_error>

namespace weft::net {

// code: EAI_…, as it was returned; errno is looked at for EAI_SYSTEM. That there is nobody of that name is said only if that
// is what was found out: a caller may remember it.
std::error_code lookup_error(int code) noexcept;

}  // namespace weft::net
