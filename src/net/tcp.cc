// TCP connections and listeners, and what all connections have. Dialling is dial.cc's.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/address.h"
#include "net/socket.h"

namespace weft::net {

// --- socket ------------------------------------------------------------------------------------

namespace {

std::error_code error_code_of(int error) {
  return error == 0 ? std::error_code() : rt::to_error_code(error);
}

// f(fd) returns 0 or an errno.
template <class F>
std::error_code with_fd(detail::io_object* o, rt::fd_guest* g, F&& f) {
  return error_code_of(o == nullptr ? rt::own_error(errc::closed) : o->fd.with_fd(f, g));
}
template <class F>
void with_fd_or_throw(detail::io_object* o, const char* operation, F&& f) {
  net_call(o, operation, [&](std::error_code& ec, rt::fd_guest* g) { ec = with_fd(o, g, f); });
}

auto shutdown_of(int how) {
  return [how](int fd) { return ::shutdown(fd, how) == 0 ? 0 : rt::calls::last_errno(); };
}

}  // namespace

namespace {

// From a file that can be read but not sent: not every file system, and hardly any device, knows how.
std::size_t send_by_copy(rt::io_fd& to, int file, std::int64_t offset, std::size_t count,
                         std::error_code& ec, rt::fd_guest* g) {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(std::min(count, kPiece));
  std::size_t sent = 0;
  ec.clear();
  while (sent < count && !ec) {
    const iovec into{piece.get(), std::min(count - sent, kPiece)};
    const ssize_t n = rt::calls::readv_at(file, &into, 1, offset + static_cast<std::int64_t>(sent),
                                          /*nowait=*/false);
    if (n == -EINTR) {
      continue;
    }
    if (n <= 0) {
      ec = error_code_of(static_cast<int>(-n));
      break;
    }
    const rt::io_result done = to.write_all(piece.get(), static_cast<std::size_t>(n), g);
    sent += done.n;
    ec = error_code_of(done.error);
  }
  return sent;
}

std::size_t send_file_to(detail::io_object* o, int file, std::int64_t offset, std::size_t count,
                         std::error_code& ec, rt::fd_guest* g) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  std::size_t sent = 0;
  if (o == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  const auto send = [&](rt::calls::source s) -> std::int64_t {
    while (sent < count) {
      const std::size_t want = count - sent < kMostAtOnce ? count - sent : kMostAtOnce;
      const ssize_t n = rt::calls::sendfile(s, file, &offset, want);
      if (n <= 0) {
        return n;  // 0: the file has no more
      }
      sent += static_cast<std::size_t>(n);
    }
    return 0;
  };
  const std::int64_t end = o->fd.attempt(rt::direction::write, {}, send, g);
  if (sent == 0 && offset >= 0 && (end == -EINVAL || end == -EOPNOTSUPP || end == -ENOSYS)) {
    return send_by_copy(o->fd, file, offset, count, ec, g);  // still inside: g
  }
  ec = error_code_of(static_cast<int>(-end));
  return sent;
}

}  // namespace

endpoint socket::local_endpoint(std::error_code& ec) const { return local_of(object(), ec); }
endpoint socket::local_endpoint() const {
  std::error_code nobody_asks;
  return local_endpoint(nobody_asks);
}
endpoint socket::remote_endpoint(std::error_code& ec) const { return remote_of(object(), ec); }
endpoint socket::remote_endpoint() const {
  std::error_code nobody_asks;
  return remote_endpoint(nobody_asks);
}

void socket::shutdown_write(std::error_code& ec) {
  ec = with_fd(object(), nullptr, shutdown_of(SHUT_WR));
}
void socket::shutdown_read(std::error_code& ec) {
  ec = with_fd(object(), nullptr, shutdown_of(SHUT_RD));
}
void socket::shutdown_write() { with_fd_or_throw(object(), "shutdown", shutdown_of(SHUT_WR)); }
void socket::shutdown_read() { with_fd_or_throw(object(), "shutdown", shutdown_of(SHUT_RD)); }

std::size_t socket::send_file(int file, std::int64_t offset, std::size_t count,
                              std::error_code& ec) {
  rt::fd_guest g;
  return send_file_to(object(), file, offset, count, ec, &g);
}
std::size_t socket::send_file(int file, std::int64_t offset, std::size_t count) {
  return detail::io_call(object(), "sendfile", [&](std::error_code& ec, rt::fd_guest* g) {
    return send_file_to(object(), file, offset, count, ec, g);
  });
}

// --- tcp_conn ----------------------------------------------------------------------------------

tcp_conn tcp_conn::adopt(int fd, std::error_code& ec) {
  return net_access::make<tcp_conn>(net::adopt(fd, SOCK_STREAM, "tcp", ec));
}
tcp_conn tcp_conn::adopt(int fd) {
  std::error_code ec;
  tcp_conn c = adopt(fd, ec);
  check_adopted("adopt tcp socket", fd, ec);
  return c;
}

namespace {

auto nodelay_of(bool on) {
  return [on](int fd) { return set_option(fd, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0); };
}

auto keepalive_of(int idle, int interval, int count) {
  return [=](int fd) {
    int error = set_option(fd, SOL_SOCKET, SO_KEEPALIVE, idle > 0 ? 1 : 0);
    if (error == 0 && idle > 0) {
      error = set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
      error = error != 0 ? error : set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
      error = error != 0 ? error : set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, count);
    }
    return error;
  };
}

auto linger_of(int seconds) {
  return [seconds](int fd) {
    const linger l{seconds >= 0 ? 1 : 0, seconds >= 0 ? seconds : 0};
    return setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0 ? 0 : rt::calls::last_errno();
  };
}

}  // namespace

void tcp_conn::set_nodelay(bool on, std::error_code& ec) {
  ec = with_fd(object(), nullptr, nodelay_of(on));
}
void tcp_conn::set_nodelay(bool on) { with_fd_or_throw(object(), "set nodelay", nodelay_of(on)); }

void tcp_conn::set_keepalive(int idle, int interval, int count, std::error_code& ec) {
  ec = with_fd(object(), nullptr, keepalive_of(idle, interval, count));
}
void tcp_conn::set_keepalive(int idle, int interval, int count) {
  with_fd_or_throw(object(), "set keep-alive", keepalive_of(idle, interval, count));
}

void tcp_conn::set_linger(int seconds, std::error_code& ec) {
  ec = with_fd(object(), nullptr, linger_of(seconds));
}
void tcp_conn::set_linger(int seconds) {
  with_fd_or_throw(object(), "set linger", linger_of(seconds));
}

// --- tcp_listener ------------------------------------------------------------------------------

tcp_listener tcp_listener::adopt(int fd, std::error_code& ec) {
  return net_access::make<tcp_listener>(net::adopt(fd, SOCK_STREAM, "tcp", ec));
}
tcp_listener tcp_listener::adopt(int fd) {
  std::error_code ec;
  tcp_listener l = adopt(fd, ec);
  check_adopted("adopt tcp listener", fd, ec);
  return l;
}

namespace {

socket_object* accept_tcp(detail::io_object* listener, std::error_code& ec, rt::fd_guest* g) {
  socket_object* o = accept_from(listener, rt::fd_kind::stream, ec, g);
  if (o != nullptr) {
    set_tcp_defaults(o->fd.raw());
  }
  return o;
}

}  // namespace

tcp_conn tcp_listener::accept(std::error_code& ec) {
  rt::fd_guest g;
  return net_access::make<tcp_conn>(accept_tcp(object(), ec, &g));
}
tcp_conn tcp_listener::accept() {
  return detail::io_call(object(), "accept", [&](std::error_code& ec, rt::fd_guest* g) {
    return net_access::make<tcp_conn>(accept_tcp(object(), ec, g));
  });
}

endpoint tcp_listener::local_endpoint(std::error_code& ec) const { return local_of(object(), ec); }
endpoint tcp_listener::local_endpoint() const {
  std::error_code nobody_asks;
  return local_endpoint(nobody_asks);
}

// --- listen ------------------------------------------------------------------------------------

namespace {

// "[::]", at which IPv4 is listened for, too, as in Go.
bool is_every_v6(const endpoint& at) {
  return at.is_v6() &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(at.data())->sin6_addr);
}

// A socket that is bound, and listens if it is a stream. Null: ec.
[[gnu::noinline]] socket_object* bind_to(const endpoint& at, int type, const char* network,
                                         const listen_options& options, std::error_code& ec) {
  const int fd = open_socket(at.family(), type, ec);
  if (ec) {
    return nullptr;
  }
  int error = 0;
  if (type == SOCK_STREAM) {
    error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  }
  if (at.is_v6()) {
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_every_v6(at) ? 0 : 1);
  }
  if (options.reuse_port && error == 0) {
    error = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  }
  if (error == 0 && ::bind(fd, at.data(), static_cast<socklen_t>(at.size())) != 0) {
    error = rt::calls::last_errno();
  }
  if (error == 0 && type == SOCK_STREAM && ::listen(fd, wanted_backlog(options.backlog)) != 0) {
    error = rt::calls::last_errno();
  }
  if (error != 0) {
    ::close(fd);
    ec = rt::to_error_code(error);
    return nullptr;
  }
  return wrap(fd, kind_of(type), network, {}, ec);
}

// What is wrong with the address, for the message, if it is that.
socket_object* listen_at(std::string_view address, int type, const char* network,
                         const listen_options& options, std::error_code& ec, const char** wrong) {
  host_port parts;
  *wrong = split(address, &parts);
  if (*wrong != nullptr) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return nullptr;
  }
  if (parts.host.empty()) {
    std::uint16_t port = 0;
    if (!numeric_port(parts.port, &port)) {  // it may be the name of a service
      const std::vector<endpoint> found = resolver::lookup(address, ec);
      if (ec) {
        *wrong = ec == std::errc::invalid_argument ? "invalid port" : nullptr;
        return nullptr;
      }
      port = found.front().port();
    }
    const endpoint any("[::]:" + std::to_string(port));
    socket_object* o = bind_to(any, type, network, options, ec);
    if (ec != std::errc::address_family_not_supported && ec != std::errc::address_not_available) {
      return o;
    }
    const endpoint v4("0.0.0.0:" + std::to_string(port));  // no IPv6 here
    return bind_to(v4, type, network, options, ec);
  }
  const std::vector<endpoint> found = resolver::lookup(address, ec);
  if (ec) {
    return nullptr;
  }
  // As Go: IPv4 if the name has one.
  const endpoint* chosen = &found.front();
  for (const endpoint& e : found) {
    if (e.is_v4()) {
      chosen = &e;
      break;
    }
  }
  return bind_to(*chosen, type, network, options, ec);
}

}  // namespace

tcp_listener listen(std::string_view address, listen_options options, std::error_code& ec) {
  const char* wrong = nullptr;
  return net_access::make<tcp_listener>(
      listen_at(address, SOCK_STREAM, "tcp", options, ec, &wrong));
}
tcp_listener listen(std::string_view address, std::error_code& ec) {
  return listen(address, listen_options(), ec);
}
tcp_listener listen(std::string_view address, listen_options options) {
  std::error_code ec;
  const char* wrong = nullptr;
  socket_object* o = listen_at(address, SOCK_STREAM, "tcp", options, ec, &wrong);
  if (o == nullptr) {
    fail("listen", "tcp", address, ec, wrong);
  }
  return net_access::make<tcp_listener>(o);
}

udp_conn listen_udp(std::string_view address, listen_options options, std::error_code& ec) {
  const char* wrong = nullptr;
  return net_access::make<udp_conn>(listen_at(address, SOCK_DGRAM, "udp", options, ec, &wrong));
}
udp_conn listen_udp(std::string_view address, std::error_code& ec) {
  return listen_udp(address, listen_options(), ec);
}
udp_conn listen_udp(std::string_view address, listen_options options) {
  std::error_code ec;
  const char* wrong = nullptr;
  socket_object* o = listen_at(address, SOCK_DGRAM, "udp", options, ec, &wrong);
  if (o == nullptr) {
    fail("listen", "udp", address, ec, wrong);
  }
  return net_access::make<udp_conn>(o);
}

}  // namespace weft::net
