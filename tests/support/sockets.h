// Connections for tests, and what they send.
#pragma once

#include <cstdint>
#include <dirent.h>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

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
