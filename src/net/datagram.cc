// Messages: UDP and Unix datagrams.
#include <sys/socket.h>

#include "net/address.h"
#include "net/socket.h"

namespace weft::net {

std::size_t datagram_socket::recv_from(mutable_buffer b, endpoint& from, std::error_code& ec) {
  if (object() == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  sockaddr_storage peer{};
  socklen_t size = 0;
  const std::int64_t n = object()->fd.attempt(rt::direction::read, {}, [&](rt::calls::source s) {
    iovec part{b.data(), b.size()};
    msghdr m{};
    m.msg_name = &peer;
    m.msg_namelen = sizeof peer;
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    const ssize_t got = rt::calls::recvmsg(s, &m, 0);
    size = m.msg_namelen;
    return std::int64_t{got};
  });
  if (n < 0) {
    ec = rt::to_error_code(static_cast<int>(-n));
    return 0;
  }
  ec.clear();
  from = seen_from(&peer, size);
  return static_cast<std::size_t>(n);
}

std::size_t datagram_socket::recv_from(mutable_buffer b, endpoint& from) {
  std::error_code ec;
  const std::size_t n = recv_from(b, from, ec);
  check("read", ec);
  return n;
}

std::size_t datagram_socket::send_to(const_buffer b, const endpoint& to, std::error_code& ec) {
  if (object() == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  const endpoint target = reachable_from(object_of(object()).family == AF_INET6, to);
  const std::int64_t n = object()->fd.attempt(rt::direction::write, {}, [&](rt::calls::source s) {
    iovec part{const_cast<void*>(b.data()), b.size()};
    msghdr m{};
    m.msg_name = const_cast<sockaddr*>(target.data());
    m.msg_namelen = static_cast<socklen_t>(target.size());
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    return std::int64_t{rt::calls::sendmsg(s, &m)};
  });
  ec = n < 0 ? rt::to_error_code(static_cast<int>(-n)) : std::error_code();
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

std::size_t datagram_socket::send_to(const_buffer b, const endpoint& to) {
  std::error_code ec;
  const std::size_t n = send_to(b, to, ec);
  check("write", ec);
  return n;
}

void datagram_socket::connect(const endpoint& to, std::error_code& ec) {
  if (object() == nullptr) {
    ec = detail::no_object();
    return;
  }
  socket_object& o = object_of(object());
  const endpoint target = reachable_from(o.family == AF_INET6, to);
  const int error = o.fd.with_fd([&](int fd) {
    return -rt::calls::connect(fd, target.data(), static_cast<socklen_t>(target.size()));
  });
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
  if (error == 0) {
    o.local = local_of(o.fd.raw());
    o.remote = to;
  }
}

void datagram_socket::connect(const endpoint& to) {
  std::error_code ec;
  connect(to, ec);
  check("connect", ec);
}

udp_conn udp_conn::adopt(int fd, std::error_code& ec) {
  return net_access::make<udp_conn>(net::adopt(fd, SOCK_DGRAM, "udp", ec));
}
udp_conn udp_conn::adopt(int fd) {
  std::error_code ec;
  udp_conn c = adopt(fd, ec);
  c.check("adopt udp socket", ec);
  return c;
}

udp_conn dial_udp(std::string_view address, std::error_code& ec) {
  const std::vector<endpoint> found = resolver::lookup(address, ec);
  socket_object* o = nullptr;
  for (std::size_t i = 0; i < found.size() && o == nullptr; ++i) {
    o = connect_to(found[i], SOCK_DGRAM, "udp", detail::kNoDeadline, ec);
  }
  return net_access::make<udp_conn>(o);
}
udp_conn dial_udp(std::string_view address) {
  std::error_code ec;
  udp_conn c = dial_udp(address, ec);
  if (ec) {
    fail("dial", "udp", address, ec);
  }
  return c;
}

}  // namespace weft::net
