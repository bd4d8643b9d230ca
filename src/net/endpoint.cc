// Addresses as text and as the system's structures.
#include <arpa/inet.h>
#include <cstddef>
#include <cstring>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <weft/net.h>

#include "net/address.h"

namespace weft::net {

namespace {

std::error_code invalid() { return std::make_error_code(std::errc::invalid_argument); }

bool parse_port(std::string_view text, std::uint16_t* port) {
  unsigned value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || value > 65535) {
      return false;
    }
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  *port = static_cast<std::uint16_t>(value);
  return !text.empty() && value <= 65535;
}

template <class A>
endpoint make(const A& address) {
  return endpoint::from(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// "fe80::1%eth0": the scope is an interface's name or number.
bool parse_v6(std::string_view host, std::uint16_t port, endpoint* to) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const auto percent = host.find('%');
  if (percent != host.npos) {
    const std::string scope(host.substr(percent + 1));
    std::uint16_t number = 0;
    v6.sin6_scope_id = if_nametoindex(scope.c_str());
    if (v6.sin6_scope_id == 0 && parse_port(scope, &number)) {
      v6.sin6_scope_id = number;
    }
    if (v6.sin6_scope_id == 0) {
      return false;
    }
  }
  const std::string text(host.substr(0, percent));
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) != 1) {
    return false;
  }
  *to = make(v6);
  return true;
}

bool parse_v4(std::string_view host, std::uint16_t port, endpoint* to) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  const std::string text(host);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) != 1) {
    return false;
  }
  *to = make(v4);
  return true;
}

// What is wrong with it; null: nothing.
const char* parse_text(std::string_view text, endpoint* to) {
  host_port parts;
  if (const char* wrong = split(text, &parts)) {
    return wrong;
  }
  std::uint16_t port = 0;
  if (!parse_port(parts.port, &port)) {
    return "invalid port";
  }
  if (parts.host.empty()) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    *to = make(any);
    return nullptr;
  }
  return numeric(parts.host, port, to) ? nullptr : "not a numeric address (names need a resolver)";
}

const sockaddr_in* v4_of(const endpoint& e) {
  return reinterpret_cast<const sockaddr_in*>(e.data());
}
const sockaddr_in6* v6_of(const endpoint& e) {
  return reinterpret_cast<const sockaddr_in6*>(e.data());
}

}  // namespace

const char* split(std::string_view text, host_port* to) {
  const auto colon = text.rfind(':');
  if (colon == text.npos) {
    return "missing port in address";
  }
  to->port = text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  to->bracketed = !host.empty() && host.front() == '[';
  if (to->bracketed) {
    if (host.back() != ']' || host.size() < 2) {
      return text.find(']') == text.npos ? "missing ']' in address" : "missing port in address";
    }
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != host.npos) {
    return "too many colons in address (IPv6 addresses go in brackets)";
  }
  if (host.find_first_of("[]") != host.npos) {
    return "unexpected bracket in address";
  }
  if (host.find('\0') != host.npos) {
    return "unexpected zero byte in address";
  }
  to->host = host;
  return nullptr;
}

bool numeric(std::string_view host, std::uint16_t port, endpoint* to) {
  return parse_v4(host, port, to) || parse_v6(host, port, to);
}

bool numeric_port(std::string_view text, std::uint16_t* port) { return parse_port(text, port); }

endpoint seen_from(const void* address, std::size_t size) noexcept {
  const auto* v6 = static_cast<const sockaddr_in6*>(address);
  if (size < sizeof *v6 || v6->sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    return endpoint::from(static_cast<const sockaddr*>(address), size);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6->sin6_port;
  std::memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
  return make(v4);
}

endpoint reachable_from(bool socket_is_v6, const endpoint& to) noexcept {
  if (!socket_is_v6 || !to.is_v4()) {
    return to;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4_of(to)->sin_port;
  v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(v6.sin6_addr.s6_addr + 12, &v4_of(to)->sin_addr, 4);
  return make(v6);
}

endpoint::endpoint(std::string_view text) {
  if (const char* wrong = parse_text(text, this)) {
    throw std::system_error(invalid(), "address \"" + std::string(text) + "\": " + wrong);
  }
}

endpoint endpoint::parse(std::string_view text, std::error_code& ec) {
  endpoint e;
  ec = parse_text(text, &e) == nullptr ? std::error_code() : invalid();
  return e;
}

endpoint endpoint::unix_path(std::string_view path, std::error_code& ec) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof un.sun_path || path.find('\0') != path.npos) {
    ec = path.size() >= sizeof un.sun_path ? std::make_error_code(std::errc::filename_too_long)
                                           : invalid();
    return {};
  }
  std::memcpy(un.sun_path, path.data(), path.size());
  const bool abstract = path.front() == '@';
  if (abstract) {
    un.sun_path[0] = '\0';
  }
  ec.clear();
  return from(reinterpret_cast<const sockaddr*>(&un),
              offsetof(sockaddr_un, sun_path) + path.size() + (abstract ? 0 : 1));
}

endpoint endpoint::unix_path(std::string_view path) {
  std::error_code ec;
  const endpoint e = unix_path(path, ec);
  if (ec) {
    throw std::system_error(ec, "unix socket \"" + std::string(path) + "\"");
  }
  return e;
}

namespace {

// What an address of that family has at least.
std::size_t least_size(const sockaddr* address, std::size_t size) noexcept {
  constexpr std::size_t kNever = -1;
  sa_family_t family = AF_UNSPEC;
  if (size >= sizeof family) {
    std::memcpy(&family, address, sizeof family);
  }
  switch (family) {
    case AF_INET: return sizeof(sockaddr_in);
    case AF_INET6: return sizeof(sockaddr_in6);
    case AF_UNIX: return sizeof family;  // one without a name
    default: return kNever;
  }
}

}  // namespace

endpoint endpoint::from(const sockaddr* address, std::size_t size) noexcept {
  endpoint e;
  if (address != nullptr && size <= kRoom && size >= least_size(address, size)) {
    std::memcpy(e.bytes_, address, size);
    e.size_ = static_cast<std::uint8_t>(size);
  }
  return e;
}

const sockaddr* endpoint::data() const noexcept {
  return reinterpret_cast<const sockaddr*>(bytes_);
}
int endpoint::family() const noexcept { return size_ == 0 ? AF_UNSPEC : data()->sa_family; }
bool endpoint::is_v4() const noexcept { return family() == AF_INET; }
bool endpoint::is_v6() const noexcept { return family() == AF_INET6; }
bool endpoint::is_unix() const noexcept { return family() == AF_UNIX; }

std::uint16_t endpoint::port() const noexcept {
  return is_v4() ? ntohs(v4_of(*this)->sin_port) : is_v6() ? ntohs(v6_of(*this)->sin6_port) : 0;
}

endpoint endpoint::with_port(std::uint16_t port) const noexcept {
  endpoint e = *this;
  if (is_v4()) {
    reinterpret_cast<sockaddr_in*>(e.bytes_)->sin_port = htons(port);
  } else if (is_v6()) {
    reinterpret_cast<sockaddr_in6*>(e.bytes_)->sin6_port = htons(port);
  }
  return e;
}

std::string endpoint::address() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_v4()) {
    inet_ntop(AF_INET, &v4_of(*this)->sin_addr, text, sizeof text);
    return text;
  }
  if (is_v6()) {
    inet_ntop(AF_INET6, &v6_of(*this)->sin6_addr, text, sizeof text);
    std::string s = text;
    if (const auto scope = v6_of(*this)->sin6_scope_id; scope != 0) {
      char name[IF_NAMESIZE] = "";
      s += '%';
      s += if_indextoname(scope, name) != nullptr ? std::string(name) : std::to_string(scope);
    }
    return s;
  }
  if (is_unix() && size_ > offsetof(sockaddr_un, sun_path)) {
    const auto* path = reinterpret_cast<const sockaddr_un*>(bytes_)->sun_path;
    const std::size_t n = size_ - offsetof(sockaddr_un, sun_path);
    return path[0] == '\0' ? '@' + std::string(path + 1, n - 1)
                           : std::string(path, strnlen(path, n));
  }
  return {};
}

std::string endpoint::to_string() const {
  if (is_v4()) {
    return address() + ':' + std::to_string(port());
  }
  if (is_v6()) {
    return '[' + address() + "]:" + std::to_string(port());
  }
  return address();
}

bool endpoint::operator==(const endpoint& other) const noexcept {
  return size_ == other.size_ && std::memcmp(bytes_, other.bytes_, size_) == 0;
}

}  // namespace weft::net
