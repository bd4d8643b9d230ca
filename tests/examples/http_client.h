// A client that looks at every byte.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include <weft/net.h>

namespace weft::test {

struct response {
  int status = 0;  // 0: the connection has ended before there was one
  std::string head, body;

  // The value of a field, or "".
  std::string field(const std::string& name) const {
    const std::size_t at = head.find("\r\n" + name + ": ");
    if (at == head.npos) return "";
    const std::size_t from = at + name.size() + 4;
    return head.substr(from, head.find("\r\n", from) - from);
  }
};

class http_client {
 public:
  explicit http_client(net::tcp_conn c) : conn(std::move(c)) {}

  void send(std::string_view text) {
    std::error_code ec;
    conn.write_all(text, ec);  // the server may have had enough already
  }

  response receive(bool head_only = false) {
    response r;
    std::size_t end = 0;
    while ((end = rest_.find("\r\n\r\n")) == rest_.npos) {
      if (!more()) return r;
    }
    r.head = rest_.substr(0, end + 2);
    rest_.erase(0, end + 4);
    r.status = std::atoi(r.head.c_str() + 9);
    const std::size_t size = std::strtoull(r.field("Content-Length").c_str(), nullptr, 10);
    if (head_only || r.status == 304) return r;
    while (rest_.size() < size && more()) {
    }
    r.body = rest_.substr(0, size);
    rest_.erase(0, size);
    return r;
  }

  response ask(std::string_view text) {
    send(text);
    return receive(text.starts_with("HEAD"));
  }
  response get(const std::string& target, const std::string& fields = "") {
    return ask("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n");
  }

  // Nothing has come that was not asked for, and the other side closes.
  bool ended() {
    while (more()) {
    }
    return rest_.empty();
  }

  net::tcp_conn conn;

 private:
  bool more() {
    char part[16 * 1024];
    std::error_code ec;
    const std::size_t n = conn.read_some(part, ec);
    rest_.append(part, n);
    return n > 0;
  }

  std::string rest_;
};

// A connection of somebody with little room, who reads slowly.
inline net::tcp_conn dial_with_little_room(const std::string& address) {
  const net::endpoint to(address);
  const int fd = ::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int room = 4096;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  if (::connect(fd, to.data(), static_cast<socklen_t>(to.size())) != 0) {
    ::close(fd);
    return {};
  }
  return net::tcp_conn::adopt(fd);
}

}  // namespace weft::test
