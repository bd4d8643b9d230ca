// Unix sockets: streams, which may carry descriptors, and datagrams.
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/socket.h"

namespace weft::net {

namespace {

constexpr std::size_t kMostFds = 253;  // SCM_MAX_FD

// As many as can be sent at once, and what else an adopted socket may have been told to deliver (SO_PASSCRED and the
// like): so control data is cut off only if the kernel had no descriptor for it.
struct control_room {
  static constexpr std::size_t kOthers = 512;
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMostFds * sizeof(int)) + kOthers];
};

// Stores what there is room for, closes the rest.
std::size_t take_fds(msghdr* m, std::span<int> fds) {
  std::size_t count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(m); c != nullptr; c = CMSG_NXTHDR(m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (count < fds.size()) {
        fds[count++] = fd;
      } else {
        ::close(fd);
      }
    }
  }
  return count;
}

socket_object* listen_path(std::string_view path, int type, const char* network,
                           std::error_code& ec) {
  const endpoint at = endpoint::unix_path(path, ec);
  std::string to_unlink(path);  // here, where nothing is lost if there is no memory
  const int fd = ec ? -1 : open_socket(AF_UNIX, type, ec);
  if (ec) {
    return nullptr;
  }
  const bool has_path = path.front() != '@';
  const bool bound = ::bind(fd, at.data(), static_cast<socklen_t>(at.size())) == 0;
  socket_object* o = nullptr;
  if (!bound || (type == SOCK_STREAM && ::listen(fd, wanted_backlog(0)) != 0)) {
    ec = {rt::calls::last_errno(), std::system_category()};
  } else {
    o = wrap_or_leave(fd, kind_of(type), network, {}, ec);
  }
  if (o == nullptr) {
    if (bound && has_path) {
      ::unlink(to_unlink.c_str());  // what bind() has made; first, as in before_close()
    }
    ::close(fd);
    return nullptr;
  }
  if (has_path) {
    o->unlink_path = std::move(to_unlink);
  }
  return o;
}

}  // namespace

// --- unix_conn ---------------------------------------------------------------------------------

unix_conn unix_conn::adopt(int fd, std::error_code& ec) {
  return net_access::make<unix_conn>(net::adopt(fd, SOCK_STREAM, "unix", ec));
}
unix_conn unix_conn::adopt(int fd) {
  std::error_code ec;
  unix_conn c = adopt(fd, ec);
  check_adopted("adopt unix socket", fd, ec);
  return c;
}

namespace {

std::size_t send_fds_to(detail::io_object* o, const_buffer b, std::span<const int> fds,
                        std::error_code& ec, rt::fd_guest* g) {
  if (o == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  if (b.size() == 0 || fds.size() > kMostFds) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return 0;
  }
  control_room room{};
  iovec part{const_cast<void*>(b.data()), b.size()};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  if (!fds.empty()) {
    m.msg_control = room.bytes;
    m.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  const std::int64_t n = o->fd.attempt(
      rt::direction::write, {},
      [&](rt::calls::source s) { return std::int64_t{rt::calls::sendmsg(s, &m)}; }, g);
  ec = n < 0 ? rt::to_error_code(static_cast<int>(-n)) : std::error_code();
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

std::size_t recv_fds_from(detail::io_object* o, mutable_buffer b, std::span<int> fds,
                          std::size_t& count, std::error_code& ec, rt::fd_guest* g) {
  count = 0;
  if (o == nullptr) {
    ec = detail::no_object();
    return 0;
  }
  control_room room{};
  std::size_t bytes = 0;
  const auto receive = [&](rt::calls::source s) {
    iovec part{b.data(), b.size()};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    m.msg_control = room.bytes;
    m.msg_controllen = sizeof room.bytes;
    const ssize_t got = rt::calls::recvmsg(s, &m, 0);
    count = got < 0 ? 0 : take_fds(&m, fds);
    bytes = got < 0 ? 0 : static_cast<std::size_t>(got);
    const bool lost = got >= 0 && (m.msg_flags & MSG_CTRUNC) != 0;
    return lost ? std::int64_t{-EMFILE} : std::int64_t{got};
  };
  const std::int64_t n = o->fd.attempt(rt::direction::read, {}, receive, g);
  ec = n < 0 ? rt::to_error_code(static_cast<int>(-n)) : std::error_code();
  return bytes;
}

}  // namespace

std::size_t unix_conn::send_fds(const_buffer b, std::span<const int> fds, std::error_code& ec) {
  return send_fds_to(object(), b, fds, ec, nullptr);
}
std::size_t unix_conn::send_fds(const_buffer b, std::span<const int> fds) {
  return detail::io_call(object(), "write", [&](std::error_code& ec, rt::fd_guest* g) {
    return send_fds_to(object(), b, fds, ec, g);
  });
}

std::size_t unix_conn::recv_fds(mutable_buffer b, std::span<int> fds, std::size_t& count,
                                std::error_code& ec) {
  return recv_fds_from(object(), b, fds, count, ec, nullptr);
}
std::size_t unix_conn::recv_fds(mutable_buffer b, std::span<int> fds, std::size_t& count) {
  return detail::io_call(object(), "read", [&](std::error_code& ec, rt::fd_guest* g) {
    return recv_fds_from(object(), b, fds, count, ec, g);
  });
}

// --- unix_listener -----------------------------------------------------------------------------

unix_listener unix_listener::adopt(int fd, std::error_code& ec) {
  return net_access::make<unix_listener>(net::adopt(fd, SOCK_STREAM, "unix", ec));
}
unix_listener unix_listener::adopt(int fd) {
  std::error_code ec;
  unix_listener l = adopt(fd, ec);
  check_adopted("adopt unix listener", fd, ec);
  return l;
}

unix_conn unix_listener::accept(std::error_code& ec) {
  rt::fd_guest g;
  return net_access::make<unix_conn>(accept_from(object(), rt::fd_kind::packets, ec, &g));
}
unix_conn unix_listener::accept() {
  return detail::io_call(object(), "accept", [&](std::error_code& ec, rt::fd_guest* g) {
    return net_access::make<unix_conn>(accept_from(object(), rt::fd_kind::packets, ec, g));
  });
}
endpoint unix_listener::local_endpoint(std::error_code& ec) const { return local_of(object(), ec); }
endpoint unix_listener::local_endpoint() const {
  std::error_code nobody_asks;
  return local_endpoint(nobody_asks);
}

unix_listener listen_unix(std::string_view path, std::error_code& ec) {
  return net_access::make<unix_listener>(listen_path(path, SOCK_STREAM, "unix", ec));
}
unix_listener listen_unix(std::string_view path) {
  std::error_code ec;
  unix_listener l = listen_unix(path, ec);
  if (ec) {
    fail("listen", "unix", path, ec);
  }
  return l;
}

// --- unix_datagram -----------------------------------------------------------------------------

unix_datagram unix_datagram::adopt(int fd, std::error_code& ec) {
  return net_access::make<unix_datagram>(net::adopt(fd, SOCK_DGRAM, "unixgram", ec));
}
unix_datagram unix_datagram::adopt(int fd) {
  std::error_code ec;
  unix_datagram c = adopt(fd, ec);
  check_adopted("adopt unix datagram socket", fd, ec);
  return c;
}

unix_datagram listen_unix_datagram(std::string_view path, std::error_code& ec) {
  return net_access::make<unix_datagram>(listen_path(path, SOCK_DGRAM, "unixgram", ec));
}
unix_datagram listen_unix_datagram(std::string_view path) {
  std::error_code ec;
  unix_datagram d = listen_unix_datagram(path, ec);
  if (ec) {
    fail("listen", "unixgram", path, ec);
  }
  return d;
}

// --- dialling ----------------------------------------------------------------------------------

namespace {

template <class T>
T dial_path(std::string_view path, int type, const char* network, const detail::limit& limit,
            std::error_code& ec) {
  const endpoint to = endpoint::unix_path(path, ec);
  return net_access::make<T>(ec ? nullptr : connect_to(to, type, network, limit, ec));
}

template <class T>
T checked(T c, const char* network, std::string_view path, std::error_code ec) {
  if (ec) {
    fail("dial", network, path, ec);
  }
  return c;
}

}  // namespace

unix_conn dial_unix(std::string_view path, std::error_code& ec) {
  return dial_path<unix_conn>(path, SOCK_STREAM, "unix", detail::kNoDeadline, ec);
}
unix_conn dial_unix(std::string_view path, const context& ctx, std::error_code& ec) {
  return dial_path<unix_conn>(path, SOCK_STREAM, "unix", ctx, ec);
}
unix_conn dial_unix(std::string_view path) {
  std::error_code ec;
  unix_conn c = dial_unix(path, ec);
  return checked(std::move(c), "unix", path, ec);
}
unix_conn dial_unix(std::string_view path, const context& ctx) {
  std::error_code ec;
  unix_conn c = dial_unix(path, ctx, ec);
  return checked(std::move(c), "unix", path, ec);
}

unix_datagram dial_unix_datagram(std::string_view path, std::error_code& ec) {
  return dial_path<unix_datagram>(path, SOCK_DGRAM, "unixgram", detail::kNoDeadline, ec);
}
unix_datagram dial_unix_datagram(std::string_view path, const context& ctx, std::error_code& ec) {
  return dial_path<unix_datagram>(path, SOCK_DGRAM, "unixgram", ctx, ec);
}
unix_datagram dial_unix_datagram(std::string_view path) {
  std::error_code ec;
  unix_datagram c = dial_unix_datagram(path, ec);
  return checked(std::move(c), "unixgram", path, ec);
}
unix_datagram dial_unix_datagram(std::string_view path, const context& ctx) {
  std::error_code ec;
  unix_datagram c = dial_unix_datagram(path, ctx, ec);
  return checked(std::move(c), "unixgram", path, ec);
}

}  // namespace weft::net
