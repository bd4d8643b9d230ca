// Connecting to one of several addresses, for who has them already: dial.cc, datagram.cc, and tests, since no name of loopback has several
// of one family.
#pragma once

#include <cstddef>
#include <memory>
#include <system_error>
#include <vector>

#include <weft/context.h>
#include <weft/net.h>

#include "net/socket.h"

namespace weft::net {

// How much of the time that is left until a deadline an address has that is the first of n.
clock::duration share_of(clock::duration left, std::size_t n);

// Null: ec says why.
std::unique_ptr<socket_object> dial_any(const std::vector<endpoint>& addresses, const context& ctx,
                                        std::error_code& ec);

// The same of UDP, where an address is refused at once if at all. The first error counts, or the context's.
std::unique_ptr<socket_object> dial_any_udp(const std::vector<endpoint>& addresses,
                                            const context& ctx, std::error_code& ec);

}  // namespace weft::net
