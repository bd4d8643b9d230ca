// Sockets: TCP, UDP and Unix. Everything here blocks the goroutine (or the plain thread) that calls it, and
// nobody else.
//
// Every call that can fail has two forms: f(args) throws std::system_error, whose what() names the operation
// and the addresses; f(args, ec) does not throw and sets ec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <weft/buffer.h>
#include <weft/detail/deadline.h>
#include <weft/detail/export.h>
#include <weft/detail/io_handle.h>

struct sockaddr;

namespace weft::net {

/// Where a socket is: an IPv4 or IPv6 address with a port, or the path of a Unix socket.
class WEFT_EXPORT endpoint {
 public:
  /// Nowhere.
  endpoint() noexcept = default;
  /// "192.0.2.1:80", "[2001:db8::1%eth0]:80", or ":80" for every address of this machine. Names are looked up
  /// by dial(), listen() and resolver::lookup(), not here.
  explicit endpoint(std::string_view text);
  static endpoint parse(std::string_view text, std::error_code& ec);
  /// A Unix socket; a path that begins with '@' is in the abstract namespace.
  static endpoint unix_path(std::string_view path);
  static endpoint unix_path(std::string_view path, std::error_code& ec);
  /// From the system's form. Empty if it is of another family, too short, or too long.
  static endpoint from(const sockaddr* address, std::size_t size) noexcept;

  bool is_v4() const noexcept;
  bool is_v6() const noexcept;
  bool is_unix() const noexcept;
  explicit operator bool() const noexcept { return size_ != 0; }

  /// What the constructor takes.
  std::string to_string() const;
  /// Without the port; of a Unix socket the path.
  std::string address() const;
  std::uint16_t port() const noexcept;
  /// The same address with another port.
  endpoint with_port(std::uint16_t port) const noexcept;

  /// For system calls.
  const sockaddr* data() const noexcept;
  std::size_t size() const noexcept { return size_; }
  int family() const noexcept;

  bool operator==(const endpoint& other) const noexcept;

 private:
  static constexpr std::size_t kRoom = 111;
  alignas(8) unsigned char bytes_[kRoom] = {};
  std::uint8_t size_ = 0;
};

struct net_access;

/// What all connections have in common.
class WEFT_EXPORT socket : public detail::stream {
 public:
  /// As it was when it was connected, also after close(). Nowhere if there is none; the forms with an error code say
  /// why: errc::closed if nothing was ever opened, not_connected if there is no other side.
  endpoint local_endpoint() const;
  endpoint local_endpoint(std::error_code& ec) const;
  endpoint remote_endpoint() const;
  endpoint remote_endpoint(std::error_code& ec) const;

  /// The other side reads the end of the stream; this side can still read.
  void shutdown_write();
  void shutdown_write(std::error_code& ec);
  /// Reads give what has arrived, and then the end of the stream.
  void shutdown_read();
  void shutdown_read(std::error_code& ec);

  /// Sends count bytes of a file, from offset on, without copying them where the kernel can. Returns how many there were.
  std::size_t send_file(int file, std::int64_t offset, std::size_t count);
  std::size_t send_file(int file, std::int64_t offset, std::size_t count, std::error_code& ec);

 protected:
  using readable::readable;
};

/// A TCP connection. Made with Go's defaults: no delay (TCP_NODELAY), and keep-alive probes after 15 s, every
/// 15 s, nine times.
///
///     weft::net::tcp_conn c = weft::net::dial("example.com:80", ctx);
///     c.write_all("GET / HTTP/1.0\r\n\r\n");
class WEFT_EXPORT tcp_conn : public socket {
 public:
  tcp_conn() noexcept = default;
  /// Takes over a descriptor of a connected TCP socket, whatever its blocking mode.
  static tcp_conn adopt(int fd);
  static tcp_conn adopt(int fd, std::error_code& ec);

  void set_nodelay(bool on);
  void set_nodelay(bool on, std::error_code& ec);
  /// idle: seconds of silence before the first probe; 0 switches probes off.
  void set_keepalive(int idle, int interval = 15, int count = 9);
  void set_keepalive(int idle, int interval, int count, std::error_code& ec);
  void set_keepalive(int idle, int interval, std::error_code& ec) {
    set_keepalive(idle, interval, 9, ec);
  }
  void set_keepalive(int idle, std::error_code& ec) { set_keepalive(idle, 15, 9, ec); }
  /// What close() does with what has not been sent: -1, the default, sends it behind the scenes; 0 drops it and
  /// resets the connection; more waits for so many seconds in the kernel.
  void set_linger(int seconds);
  void set_linger(int seconds, std::error_code& ec);

 private:
  friend struct net_access;
  using socket::socket;
};

struct listen_options {
  int backlog = 0;          ///< 0: what net.core.somaxconn allows
  bool reuse_port = false;  ///< several sockets on one port share its connections (SO_REUSEPORT)
};

class WEFT_EXPORT tcp_listener : public detail::io_handle {
 public:
  tcp_listener() noexcept = default;
  static tcp_listener adopt(int fd);
  static tcp_listener adopt(int fd, std::error_code& ec);

  /// The next connection. One that was given up before it was accepted is skipped (ECONNABORTED); while the
  /// process has no descriptor to spare (EMFILE) it waits, and tries again.
  tcp_conn accept();
  tcp_conn accept(std::error_code& ec);
  endpoint local_endpoint() const;
  endpoint local_endpoint(std::error_code& ec) const;

 private:
  friend struct net_access;
  using io_handle::io_handle;
};

/// Listens on "host:port", or on ":port" for every address, IPv4 and IPv6; so does "[::]:port", but "0.0.0.0:port" is for
/// IPv4 alone. Port 0 is one that is free: local_endpoint() says which. A port may have a name (":http"), as in /etc/services: TCP's.
WEFT_EXPORT tcp_listener listen(std::string_view address, listen_options options = {});
WEFT_EXPORT tcp_listener listen(std::string_view address, std::error_code& ec);
WEFT_EXPORT tcp_listener listen(std::string_view address, listen_options options,
                                std::error_code& ec);

/// Connects to "host:port". A name with several addresses is tried one after the other; if it has IPv4 and IPv6
/// ones, the second family after 300 ms beside the first (RFC 8305). A context that is cancelled ends it.
WEFT_EXPORT tcp_conn dial(std::string_view address);
WEFT_EXPORT tcp_conn dial(std::string_view address, std::error_code& ec);
WEFT_EXPORT tcp_conn dial(std::string_view address, const context& ctx);
WEFT_EXPORT tcp_conn dial(std::string_view address, const context& ctx, std::error_code& ec);
/// To an address that is known.
WEFT_EXPORT tcp_conn dial(const endpoint& to);
WEFT_EXPORT tcp_conn dial(const endpoint& to, std::error_code& ec);
WEFT_EXPORT tcp_conn dial(const endpoint& to, const context& ctx);
WEFT_EXPORT tcp_conn dial(const endpoint& to, const context& ctx, std::error_code& ec);

/// Messages (UDP, or Unix datagrams). After connect() read_some, write_some and write_all may be used: each call is one
/// message, which may be empty, in up to 1024 buffers.
class WEFT_EXPORT datagram_socket : public socket {
 public:
  /// One message; what does not fit into the buffer is lost. Returns its size.
  std::size_t recv_from(mutable_buffer b, endpoint& from);
  std::size_t recv_from(mutable_buffer b, endpoint& from, std::error_code& ec);
  std::size_t send_to(const_buffer b, const endpoint& to);
  std::size_t send_to(const_buffer b, const endpoint& to, std::error_code& ec);
  /// From now on to and from this address only.
  void connect(const endpoint& to);
  void connect(const endpoint& to, std::error_code& ec);

 protected:
  using socket::socket;
};

/// Made with Go's defaults: it may send to broadcast addresses (SO_BROADCAST).
class WEFT_EXPORT udp_conn : public datagram_socket {
 public:
  udp_conn() noexcept = default;
  static udp_conn adopt(int fd);
  static udp_conn adopt(int fd, std::error_code& ec);

 private:
  friend struct net_access;
  using datagram_socket::datagram_socket;
};

WEFT_EXPORT udp_conn listen_udp(std::string_view address, listen_options options = {});
WEFT_EXPORT udp_conn listen_udp(std::string_view address, std::error_code& ec);
WEFT_EXPORT udp_conn listen_udp(std::string_view address, listen_options options,
                                std::error_code& ec);
/// To and from "host:port" only. A context ends the look for the name: nothing else takes time.
WEFT_EXPORT udp_conn dial_udp(std::string_view address);
WEFT_EXPORT udp_conn dial_udp(std::string_view address, std::error_code& ec);
WEFT_EXPORT udp_conn dial_udp(std::string_view address, const context& ctx);
WEFT_EXPORT udp_conn dial_udp(std::string_view address, const context& ctx, std::error_code& ec);

/// A Unix stream connection.
class WEFT_EXPORT unix_conn : public socket {
 public:
  unix_conn() noexcept = default;
  static unix_conn adopt(int fd);
  static unix_conn adopt(int fd, std::error_code& ec);

  /// Passes descriptors to the other process, which gets duplicates, along with at least one byte.
  std::size_t send_fds(const_buffer b, std::span<const int> fds);
  std::size_t send_fds(const_buffer b, std::span<const int> fds, std::error_code& ec);
  /// As read_some; descriptors that came along are stored, closed on exec, count tells how many. Those for
  /// which there is no room are closed. If this process may not have so many, the rest is lost: too_many_files_open
  /// (EMFILE), beside the bytes and the descriptors that there are.
  std::size_t recv_fds(mutable_buffer b, std::span<int> fds, std::size_t& count);
  std::size_t recv_fds(mutable_buffer b, std::span<int> fds, std::size_t& count,
                       std::error_code& ec);

 private:
  friend struct net_access;
  using socket::socket;
};

/// Removes its path when it is closed.
class WEFT_EXPORT unix_listener : public detail::io_handle {
 public:
  unix_listener() noexcept = default;
  static unix_listener adopt(int fd);
  static unix_listener adopt(int fd, std::error_code& ec);
  unix_conn accept();
  unix_conn accept(std::error_code& ec);
  endpoint local_endpoint() const;
  endpoint local_endpoint(std::error_code& ec) const;

 private:
  friend struct net_access;
  using io_handle::io_handle;
};

class WEFT_EXPORT unix_datagram : public datagram_socket {
 public:
  unix_datagram() noexcept = default;
  static unix_datagram adopt(int fd);
  static unix_datagram adopt(int fd, std::error_code& ec);

 private:
  friend struct net_access;
  using datagram_socket::datagram_socket;
};

WEFT_EXPORT unix_listener listen_unix(std::string_view path);
WEFT_EXPORT unix_listener listen_unix(std::string_view path, std::error_code& ec);
WEFT_EXPORT unix_conn dial_unix(std::string_view path);
WEFT_EXPORT unix_conn dial_unix(std::string_view path, std::error_code& ec);
WEFT_EXPORT unix_conn dial_unix(std::string_view path, const context& ctx);
WEFT_EXPORT unix_conn dial_unix(std::string_view path, const context& ctx, std::error_code& ec);
WEFT_EXPORT unix_datagram listen_unix_datagram(std::string_view path);
WEFT_EXPORT unix_datagram listen_unix_datagram(std::string_view path, std::error_code& ec);
/// To that path only. It has no name of its own, so nobody can answer. A context that has ended counts, though nothing
/// here takes time.
WEFT_EXPORT unix_datagram dial_unix_datagram(std::string_view path);
WEFT_EXPORT unix_datagram dial_unix_datagram(std::string_view path, std::error_code& ec);
WEFT_EXPORT unix_datagram dial_unix_datagram(std::string_view path, const context& ctx);
WEFT_EXPORT unix_datagram dial_unix_datagram(std::string_view path, const context& ctx,
                                             std::error_code& ec);

/// Names to addresses.
namespace resolver {

/// The addresses of "host:port", in the order in which to try them: numbers as they are, then /etc/hosts,
/// then the system's resolver, on a thread of its own. errc::no_such_host if there are none. ":port" is this machine. A port may
/// have a name, as in /etc/services: TCP's. One that nobody knows is an invalid_argument.
WEFT_EXPORT std::vector<endpoint> lookup(std::string_view address);
WEFT_EXPORT std::vector<endpoint> lookup(std::string_view address, std::error_code& ec);
WEFT_EXPORT std::vector<endpoint> lookup(std::string_view address, const context& ctx);
WEFT_EXPORT std::vector<endpoint> lookup(std::string_view address, const context& ctx,
                                         std::error_code& ec);

}  // namespace resolver

}  // namespace weft::net
