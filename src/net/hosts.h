// Addresses from a file like /etc/hosts.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include <weft/net.h>

namespace weft::net {

// Those that the file has for the name, in its order: of each line that begins with an address and has the name after it,
// in capitals or not. A line that cannot be understood says nothing.
std::vector<endpoint> hosts_in(FILE* file, std::string_view host, std::uint16_t port);

}  // namespace weft::net
