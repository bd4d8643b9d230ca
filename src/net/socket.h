// What the kinds of sockets share: making them, naming them in messages, handing them to their classes.
#pragma once

#include <string>
#include <sys/socket.h>
#include <system_error>

#include <weft/net.h>

#include "base/lock.h"
#include "io/object.h"

namespace weft::net {

struct socket_object final : detail::io_object {
  socket_object(int number, rt::poll_desc* pd, rt::fd_kind kind, const char* net_name) noexcept
      : io_object(number, pd, kind), network(net_name) {}
  std::string about() const override;
  // … on the way to an address.
  std::string about_to(const endpoint& to) const;
  void before_close() noexcept override;

  endpoint local() const;
  endpoint remote() const;
  // connect() may change them while others fail, and say where.
  void set_names(const endpoint& local, const endpoint& remote);

  const char* network;  // "tcp", "udp", "unix", "unixgram"
  int family = 0;
  std::string unlink_path;  // of a Unix listener: removed when it is closed

 private:
  mutable rt::ranked_lock names_lock_{rt::lock_rank::leaf};
  endpoint local_ WEFT_GUARDED_BY(names_lock_);
  endpoint remote_ WEFT_GUARDED_BY(names_lock_);
};

socket_object& object_of(detail::io_object* o);

// Of a handle, which may be empty: nowhere then.
endpoint local_of(detail::io_object* o, std::error_code& ec);
endpoint remote_of(detail::io_object* o, std::error_code& ec);

struct net_access {
  template <class T>
  static T make(detail::io_object* o) {
    return T(o);
  }
};

// Of all but TCP connections.
constexpr rt::fd_kind kind_of(int type) {
  return type == SOCK_DGRAM ? rt::fd_kind::messages : rt::fd_kind::packets;
}

// A socket with what all of ours have; -1 and ec otherwise.
int open_socket(int family, int type, std::error_code& ec);
// Takes fd over; closes it if that fails. peer may be empty.
socket_object* wrap(int fd, rt::fd_kind kind, const char* network, const endpoint& peer,
                    std::error_code& ec);
// … or leaves it to the caller.
socket_object* wrap_or_leave(int fd, rt::fd_kind kind, const char* network, const endpoint& peer,
                             std::error_code& ec);
// A descriptor of the user's, who keeps it if that fails.
socket_object* adopt(int fd, int type, const char* network, std::error_code& ec);

endpoint local_of(int fd);
endpoint remote_of(int fd);

int set_option(int fd, int level, int name, int value);  // 0, or an errno
void set_tcp_defaults(int fd);
int wanted_backlog(int given);

// Go's defaults of a new TCP connection [15 s, 15 s, 9].
inline constexpr int kKeepIdle = 15, kKeepInterval = 15, kKeepCount = 9;

// accept() of both kinds of listeners.
socket_object* accept_from(detail::io_object* listener, rt::fd_kind kind, std::error_code& ec,
                           rt::fd_guest* g);
// connect(2) of what is connected at once or not at all, unlike TCP: 0, or minus an errno.
int connect_at_once(int fd, const endpoint& to);
socket_object* connect_to(const endpoint& to, int type, const char* network,
                          const detail::limit& limit, std::error_code& ec);

// The throwing form of what has no result, or needs none: f(ec, guest).
template <class F>
void net_call(const detail::io_object* o, const char* operation, F&& f) {
  detail::io_call(o, operation, [&](std::error_code& ec, rt::fd_guest* g) {
    f(ec, g);
    return 0;
  });
}

// Throws "adopt … fd 5: …".
void check_adopted(const char* operation, int fd, std::error_code ec);

// Throws "dial tcp ADDRESS: …".
[[noreturn]] void fail(const char* operation, const char* network, std::string_view address,
                       std::error_code ec, const char* detail = nullptr);

}  // namespace weft::net
