// Messages: UDP and Unix datagrams.
#include <memory>
#include <sys/socket.h>
#include <vector>

#include <weft/context.h>

#include "net/address.h"
#include "net/dial.h"
#include "net/socket.h"

namespace weft::net {

namespace {

// What f(ec, guest) returns; or throws its error, which names the address that it was about, and not that of the last
// connect().
template <class F>
std::size_t call_about(detail::io_object* object, const char* operation, const endpoint& to,
                       F&& f) {
  std::error_code ec;
  rt::fd_guest g;
  const std::size_t n = f(ec, &g);
  if (ec) {
    throw std::system_error(
        ec, operation + (object != nullptr ? object_of(object).about_to(to) : std::string()));
  }
  return n;
}

std::size_t recv_by(detail::io_object* o, mutable_buffer b, endpoint& from, std::error_code& ec,
                    rt::fd_guest* g) {
  if (o == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  sockaddr_storage peer{};
  socklen_t size = 0;
  const auto receive = [&](rt::calls::source s) {
    iovec part{b.data(), b.size()};
    msghdr m{};
    m.msg_name = &peer;
    m.msg_namelen = sizeof peer;
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    const ssize_t got = rt::calls::recvmsg(s, &m, 0);
    size = m.msg_namelen;
    return std::int64_t{got};
  };
  const std::int64_t n = o->fd.attempt(rt::direction::read, {}, receive, g);
  if (n < 0) {
    ec = rt::to_error_code(static_cast<int>(-n));
    return 0;
  }
  ec.clear();
  from = seen_from(&peer, size);
  return static_cast<std::size_t>(n);
}

std::size_t send_by(detail::io_object* o, const_buffer b, const endpoint& to, std::error_code& ec,
                    rt::fd_guest* g) {
  if (o == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  const int family = object_of(o).family;
  const endpoint target = reachable_from(family == AF_INET6, to);
  const auto send = [&](rt::calls::source s) {
    iovec part{const_cast<void*>(b.data()), b.size()};
    msghdr m{};
    m.msg_name = const_cast<sockaddr*>(target.data());
    m.msg_namelen = static_cast<socklen_t>(target.size());
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    return std::int64_t{rt::calls::sendmsg(s, &m)};
  };
  // Linux says when there is room in somebody else's queue only if the two are connected. Worse: what did not fit has been
  // made, and is freed again, which it takes for room in ours, and says so, at once and each time.
  const std::int64_t n = family == AF_UNIX ? o->fd.attempt_by_time(rt::direction::write, send, g)
                                           : o->fd.attempt(rt::direction::write, {}, send, g);
  ec = n < 0 ? rt::to_error_code(static_cast<int>(-n)) : std::error_code();
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

void connect_by(detail::io_object* object, const endpoint& to, std::error_code& ec,
                rt::fd_guest* g) {
  if (object == nullptr) {
    ec = detail::no_object();
    return;
  }
  socket_object& o = object_of(object);
  const endpoint target = reachable_from(o.family == AF_INET6, to);
  const auto connect = [&](int fd) {
    const int n = connect_at_once(fd, target);
    if (n == 0) {
      o.set_names(local_of(fd), to);
    }
    return -n;
  };
  const int error = o.fd.with_fd(connect, g);
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
}

}  // namespace

std::size_t datagram_socket::recv_from(mutable_buffer b, endpoint& from, std::error_code& ec) {
  return recv_by(object(), b, from, ec, nullptr);
}
std::size_t datagram_socket::recv_from(mutable_buffer b, endpoint& from) {
  return detail::io_call(object(), "read", [&](std::error_code& ec, rt::fd_guest* g) {
    return recv_by(object(), b, from, ec, g);
  });
}

std::size_t datagram_socket::send_to(const_buffer b, const endpoint& to, std::error_code& ec) {
  return send_by(object(), b, to, ec, nullptr);
}
std::size_t datagram_socket::send_to(const_buffer b, const endpoint& to) {
  return call_about(object(), "write", to, [&](std::error_code& ec, rt::fd_guest* g) {
    return send_by(object(), b, to, ec, g);
  });
}

void datagram_socket::connect(const endpoint& to, std::error_code& ec) {
  connect_by(object(), to, ec, nullptr);
}
void datagram_socket::connect(const endpoint& to) {
  call_about(object(), "connect", to, [&](std::error_code& ec, rt::fd_guest* g) {
    connect_by(object(), to, ec, g);
    return std::size_t{0};
  });
}

udp_conn udp_conn::adopt(int fd, std::error_code& ec) {
  return net_access::make<udp_conn>(net::adopt(fd, SOCK_DGRAM, "udp", ec));
}
udp_conn udp_conn::adopt(int fd) {
  std::error_code ec;
  udp_conn c = adopt(fd, ec);
  check_adopted("adopt udp socket", fd, ec);
  return c;
}

std::unique_ptr<socket_object> dial_any_udp(const std::vector<endpoint>& addresses,
                                            const context& ctx, std::error_code& ec) {
  std::error_code first;
  for (const endpoint& to : addresses) {
    std::unique_ptr<socket_object> s(connect_to(to, SOCK_DGRAM, "udp", ctx, ec));
    if (s != nullptr || ec == ctx.err()) {
      return s;
    }
    first = first ? first : ec;
  }
  ec = first;
  return nullptr;
}

udp_conn dial_udp(std::string_view address, const context& ctx, std::error_code& ec) {
  const std::vector<endpoint> found = resolver::lookup(address, ctx, ec);
  return net_access::make<udp_conn>(ec ? nullptr : dial_any_udp(found, ctx, ec).release());
}
udp_conn dial_udp(std::string_view address, std::error_code& ec) {
  return dial_udp(address, context(), ec);
}
udp_conn dial_udp(std::string_view address, const context& ctx) {
  std::error_code ec;
  udp_conn c = dial_udp(address, ctx, ec);
  if (ec) {
    fail("dial", "udp", address, ec);
  }
  return c;
}
udp_conn dial_udp(std::string_view address) { return dial_udp(address, context()); }

}  // namespace weft::net
