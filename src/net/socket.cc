// See socket.h.
//
// Errors: what the system says reaches the caller once. What may pass is tried again: EINTR, an aborted
// connection in the queue of a listener (ECONNABORTED). While there are no descriptors (EMFILE, ENFILE) or no
// memory for one, accept() backs off, from 5 ms to 1 s, as Go's HTTP server does: the connection stays in
// the queue.
//
// Go: net/sock_posix.go, net/sockopt_linux.go, net/fd_unix.go, internal/poll/fd_unix.go [FD-2], [FD-3], [FD-5]
#include "net/socket.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/address.h"
#include "os/clock.h"
#include "sched/timers.h"

namespace weft::net {

namespace {

std::error_code system_error(int error) { return {error, std::system_category()}; }

template <class Get>
endpoint name_of(int fd, Get get) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (get(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return {};
  }
  return seen_from(&address, size);
}

int option_of(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, level, name, &value, &size) == 0 ? value : -1;
}

}  // namespace

// First the path: once it is closed another process may have bound the path anew, and that one is not ours to remove.
void socket_object::before_close() noexcept {
  if (!unlink_path.empty()) {
    ::unlink(unlink_path.c_str());
  }
}

endpoint socket_object::local() const {
  const rt::inside here;
  const rt::scoped_lock held(names_lock_);
  return local_;
}

endpoint socket_object::remote() const {
  const rt::inside here;
  const rt::scoped_lock held(names_lock_);
  return remote_;
}

void socket_object::set_names(const endpoint& local, const endpoint& remote) {
  const rt::inside here;
  const rt::scoped_lock held(names_lock_);
  local_ = local;
  remote_ = remote;
}

std::string socket_object::about() const { return about_to(remote()); }

std::string socket_object::about_to(const endpoint& to) const {
  std::string s = std::string(" ") + network;
  const endpoint from = local();
  if (from) {
    s += ' ' + from.to_string();
  }
  if (to) {
    s += (from ? "->" : " ") + to.to_string();
  }
  return s;
}

socket_object& object_of(detail::io_object* o) { return *static_cast<socket_object*>(o); }

endpoint local_of(detail::io_object* o, std::error_code& ec) {
  ec = o == nullptr ? detail::no_object() : std::error_code();
  return ec ? endpoint() : object_of(o).local();
}

endpoint remote_of(detail::io_object* o, std::error_code& ec) {
  ec = o == nullptr ? detail::no_object() : std::error_code();
  const endpoint there = ec ? endpoint() : object_of(o).remote();
  if (!ec && !there) {
    ec = std::make_error_code(std::errc::not_connected);
  }
  return there;
}

void fail(const char* operation, const char* network, std::string_view address, std::error_code ec,
          const char* detail) {
  std::string text = std::string(operation) + ' ' + network + ' ' + std::string(address);
  if (detail != nullptr) {
    text += std::string(": ") + detail;
  }
  throw std::system_error(ec, text);
}

void check_adopted(const char* operation, int fd, std::error_code ec) {
  if (ec) {
    throw std::system_error(ec, std::string(operation) + " fd " + std::to_string(fd));
  }
}

endpoint local_of(int fd) { return name_of(fd, ::getsockname); }
endpoint remote_of(int fd) { return name_of(fd, ::getpeername); }

int set_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : rt::calls::last_errno();
}

void set_tcp_defaults(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdle);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepInterval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
}

int wanted_backlog(int given) {
  if (given > 0) {
    return given;
  }
  int most = SOMAXCONN;
  if (FILE* f = std::fopen("/proc/sys/net/core/somaxconn", "re")) {
    if (std::fscanf(f, "%d", &most) != 1 || most <= 0) {
      most = SOMAXCONN;
    }
    std::fclose(f);
  }
  return most;
}

[[gnu::noinline]] int open_socket(int family, int type, std::error_code& ec) {
  const int fd = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ec = fd < 0 ? system_error(rt::calls::last_errno()) : std::error_code();
  if (fd >= 0 && type == SOCK_DGRAM && family != AF_UNIX) {
    set_option(fd, SOL_SOCKET, SO_BROADCAST, 1);
  }
  return fd;
}

socket_object* wrap(int fd, rt::fd_kind kind, const char* network, const endpoint& peer,
                    std::error_code& ec) {
  socket_object* o = wrap_or_leave(fd, kind, network, peer, ec);
  if (o == nullptr) {
    ::close(fd);
  }
  return o;
}

socket_object* wrap_or_leave(int fd, rt::fd_kind kind, const char* network, const endpoint& peer,
                             std::error_code& ec) {
  int error = 0;
  auto* o =
      detail::make_object<socket_object>(fd, /*set_nonblocking=*/false, &error, kind, network);
  if (o == nullptr) {
    ec = rt::to_error_code(error);
    return nullptr;
  }
  o->family = option_of(fd, SOL_SOCKET, SO_DOMAIN);
  o->set_names(local_of(fd), peer);
  ec.clear();
  return o;
}

socket_object* adopt(int fd, int type, const char* network, std::error_code& ec) {
  const int family = option_of(fd, SOL_SOCKET, SO_DOMAIN);
  const bool is_unix = network[0] == 'u' && network[1] == 'n';
  if (family < 0) {
    ec = system_error(rt::calls::last_errno());
    return nullptr;
  }
  if (option_of(fd, SOL_SOCKET, SO_TYPE) != type || (family == AF_UNIX) != is_unix ||
      (!is_unix && family != AF_INET && family != AF_INET6)) {
    ec = errc::mismatch;
    return nullptr;
  }
  // Somebody else had it, and may have made it special: a short read tells nothing.
  int error = 0;
  auto* o = detail::make_object<socket_object>(fd, /*set_nonblocking=*/true, &error, kind_of(type),
                                               network);
  if (o == nullptr) {
    ec = rt::to_error_code(error);
    return nullptr;
  }
  o->family = family;
  o->set_names(local_of(fd), remote_of(fd));
  ec.clear();
  return o;
}

namespace {

bool may_pass(std::int64_t error) {
  return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

// One connection, or minus an error.
std::int64_t accept_once(rt::io_fd& fd, sockaddr_storage* peer, socklen_t* size, rt::fd_guest* g) {
  const auto next = [&](rt::calls::source s) -> std::int64_t {
    for (;;) {
      *size = sizeof *peer;
      const int n = rt::calls::accept(s, reinterpret_cast<sockaddr*>(peer), size);
      if (n != -ECONNABORTED && n != -EINTR) {
        return n;
      }
    }
  };
  return fd.attempt(rt::direction::read, {}, next, g);
}

}  // namespace

socket_object* accept_from(detail::io_object* listener, rt::fd_kind kind, std::error_code& ec,
                           rt::fd_guest* g) {
  constexpr std::int64_t kFirstPause = 5'000'000, kLongestPause = 1'000'000'000;
  if (listener == nullptr) {
    ec = detail::no_object();
    return nullptr;
  }
  rt::io_fd& fd = listener->fd;
  const char* const network = object_of(listener).network;
  sockaddr_storage peer{};
  socklen_t size = 0;
  std::int64_t n = accept_once(fd, &peer, &size, g);  // if that failed we are still inside: g
  for (std::int64_t pause = kFirstPause; may_pass(n); pause *= 2) {
    pause = pause < kLongestPause ? pause : kLongestPause;
    // Until then, or until it is closed or its deadline comes; another connection is no reason to look.
    const int end = fd.pause(rt::direction::read, rt::time_after(rt::nanotime(), pause), g);
    n = end == 0 ? accept_once(fd, &peer, &size, g) : -end;
  }
  if (n < 0) {
    ec = rt::to_error_code(static_cast<int>(-n));
    return nullptr;
  }
  return wrap(static_cast<int>(n), kind, network, seen_from(&peer, size), ec);
}

namespace {

// After the socket has become writable: whether it is connected. -EAGAIN: not yet.
[[gnu::noinline]] std::int64_t connected(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    return -rt::calls::last_errno();
  }
  switch (error) {
    case EINPROGRESS:
    case EALREADY:
    case EINTR: return -EAGAIN;
    case 0: break;
    default: return -error;
  }
  sockaddr_storage peer{};
  size = sizeof peer;
  return getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 ? 0 : -EAGAIN;
}

// [FD-3]
std::error_code wait_connected(rt::io_fd& fd, const detail::limit& limit) {
  const std::int64_t n = fd.attempt(rt::direction::write, rt::limit_of(limit),
                                    [](rt::calls::source s) { return connected(s.fd); });
  const std::error_code ec = detail::error_with(static_cast<int>(-n), limit);
  if (ec || limit.ctx == nullptr) {
    return ec;
  }
  return detail::context_error(context_access::node(*limit.ctx));  // cancelled after all
}

}  // namespace

// Where it is interrupted, because somebody looks a path up, nothing has happened, and there is nothing to wait for.
int connect_at_once(int fd, const endpoint& to) {
  int n = -EINTR;
  while (n == -EINTR) {
    n = rt::calls::connect(fd, to.data(), static_cast<socklen_t>(to.size()));
  }
  return n;
}

socket_object* connect_to(const endpoint& to, int type, const char* network,
                          const detail::limit& limit, std::error_code& ec) {
  ec = limit.ctx == nullptr ? std::error_code()
                            : detail::context_error(context_access::node(*limit.ctx));
  const int number = ec ? -1 : open_socket(to.family(), type, ec);
  if (ec) {
    return nullptr;
  }
  const bool tcp = !to.is_unix() && type == SOCK_STREAM;
  if (tcp) {
    set_tcp_defaults(number);
  }
  const int first = tcp ? rt::calls::connect(number, to.data(), static_cast<socklen_t>(to.size()))
                        : connect_at_once(number, to);
  // EAGAIN: the queue of a Unix listener is full; there is nothing to wait for.
  const bool under_way = first == -EINPROGRESS || first == -EALREADY || first == -EINTR;
  if (first < 0 && !under_way) {
    ::close(number);
    ec = system_error(-first);
    return nullptr;
  }
  // Not before: a socket that is not connected yet counts as hung up.
  socket_object* o = wrap(number, tcp ? rt::fd_kind::stream : kind_of(type), network, to, ec);
  if (o != nullptr && under_way) {
    ec = wait_connected(o->fd, limit);
    if (ec) {
      delete o;
      return nullptr;
    }
    o->set_names(local_of(number), to);
  }
  return o;
}

}  // namespace weft::net
