// Taking "host:port" apart.
#pragma once

#include <cstdint>
#include <string_view>

#include <weft/net.h>

namespace weft::net {

struct host_port {
  std::string_view host;
  std::string_view port;
  bool bracketed = false;
};

// What is wrong with the text; null: nothing.
const char* split(std::string_view text, host_port* to);

// False: not a number.
bool numeric(std::string_view host, std::uint16_t port, endpoint* to);
bool numeric_port(std::string_view text, std::uint16_t* port);

// An address that the kernel reports. A socket for both families sees IPv4 as IPv6: shown as what it is.
endpoint seen_from(const void* address, std::size_t size) noexcept;
// … and has to be given it in that form.
endpoint reachable_from(bool socket_is_v6, const endpoint& to) noexcept;

}  // namespace weft::net
