// Connections for tests, and what they send.
#pragma once

#include <cstdint>
#include <dirent.h>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/net.h>
#include <weft/thread.h>

namespace weft::test {

struct tcp_pair {
  net::tcp_conn a, b;  // b was accepted
};

inline tcp_pair connected() {
  net::tcp_listener l = net::listen("127.0.0.1:0");
  tcp_pair p;
  weft::thread dials([&] { p.a = net::dial(l.local_endpoint().to_string()); });
  p.b = l.accept();
  dials.join();
  return p;
}

// A port that nobody listens on, nor can: a listener's that was closed may be another process's already.
struct refusing_port {
  refusing_port() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const net::endpoint any("127.0.0.1:0");
    ::bind(fd, any.data(), static_cast<socklen_t>(any.size()));
    sockaddr_storage a{};
    socklen_t size = sizeof a;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size);
    address = net::endpoint::from(reinterpret_cast<sockaddr*>(&a), size).to_string();
  }
  ~refusing_port() { ::close(fd); }
  refusing_port(const refusing_port&) = delete;
  refusing_port& operator=(const refusing_port&) = delete;
  int fd;
  std::string address;
};

// A listener whose queue is full: further connections hang.
struct full_listener {
  full_listener() {
    fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const net::endpoint at("127.0.0.1:0");
    ::bind(fd, at.data(), static_cast<socklen_t>(at.size()));
    ::listen(fd, 0);
    sockaddr_storage a{};
    socklen_t size = sizeof a;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size);
    address = net::endpoint::from(reinterpret_cast<sockaddr*>(&a), size).to_string();
    for (int i = 0; i < 4; ++i) {  // what fits into the queue, and what hangs
      clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      ::connect(clients.back(), reinterpret_cast<sockaddr*>(&a), size);
    }
  }
  full_listener(const full_listener&) = delete;
  full_listener& operator=(const full_listener&) = delete;
  ~full_listener() {
    for (int c : clients) ::close(c);
    ::close(fd);
  }
  int fd;
  std::string address;
  std::vector<int> clients;
};

// Bytes that say which stream they belong to and where.
inline char pattern(std::uint64_t stream, std::uint64_t at) {
  const std::uint64_t x = (stream * 0x9e3779b97f4a7c15u) ^ (at * 0xbf58476d1ce4e5b9u);
  return static_cast<char>(x >> 29);
}
inline std::string pattern_string(std::uint64_t stream, std::uint64_t from, std::size_t n) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i < n; ++i) s[i] = pattern(stream, from + i);
  return s;
}

// Descriptors of this process that are sockets, pipes, or programs; the runtime opens others at any time, when it
// needs them.
inline int open_descriptors() {
  DIR* d = opendir("/proc/self/fd");
  int n = 0;
  while (const dirent* e = readdir(d)) {
    char target[64] = {};
    readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
    const std::string_view kind = target;
    n += kind.starts_with("socket:") || kind.starts_with("pipe:") || kind == "anon_inode:[pidfd]";
  }
  closedir(d);
  return n;
}

// As many as the hard limit allows; whether that is so many.
inline bool raise_descriptors(rlim_t wanted) {
  rlimit r{};
  ::getrlimit(RLIMIT_NOFILE, &r);
  if (r.rlim_cur < r.rlim_max) {
    r.rlim_cur = r.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &r);
  }
  return r.rlim_cur >= wanted;
}

}  // namespace weft::test
