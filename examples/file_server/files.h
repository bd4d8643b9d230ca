// From the target of a request to an open file below a directory, and never to one outside it.
//
// The path is walked one directory at a time, and no symbolic link is followed, so that nothing that happens to
// the tree meanwhile leads outside. Names that begin with a dot do not exist for clients.
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "http.h"

namespace http {

class unique_fd {
 public:
  unique_fd() = default;
  explicit unique_fd(int fd) : fd_(fd) {}
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~unique_fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct file {
  int status = 404;  // 200: the rest is there; 301: a directory, which wants a slash at its end
  unique_fd fd;
  std::uint64_t size = 0;
  std::time_t modified = 0;
  std::string_view type;
};

inline std::string_view type_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"html", "text/html; charset=utf-8"},
      {"htm", "text/html; charset=utf-8"},
      {"txt", "text/plain; charset=utf-8"},
      {"md", "text/plain; charset=utf-8"},
      {"css", "text/css; charset=utf-8"},
      {"js", "text/javascript; charset=utf-8"},
      {"json", "application/json"},
      {"svg", "image/svg+xml"},
      {"png", "image/png"},
      {"jpg", "image/jpeg"},
      {"jpeg", "image/jpeg"},
      {"gif", "image/gif"},
      {"webp", "image/webp"},
      {"ico", "image/x-icon"},
      {"wasm", "application/wasm"},
      {"pdf", "application/pdf"},
      {"xml", "application/xml"},
      {"woff2", "font/woff2"},
  };
  const std::size_t dot = name.rfind('.');
  for (const auto& [ending, type] : kTypes) {
    if (dot != name.npos && same_word(name.substr(dot + 1), ending)) return type;
  }
  return "application/octet-stream";
}

// "/a%20b?c" is "/a b". False: it makes no sense.
inline bool decode_path(std::string_view target, std::string& path) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  target = target.substr(0, target.find('?'));
  for (std::size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%') {
      if (i + 2 >= target.size() || digit(target[i + 1]) < 0 || digit(target[i + 2]) < 0)
        return false;
      c = static_cast<char>(digit(target[i + 1]) * 16 + digit(target[i + 2]));
      i += 2;
    }
    if (c == '\0') return false;
    path += c;
  }
  return path.starts_with('/');
}

class site {
 public:
  explicit site(const std::string& root)
      : root_(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!root_) throw std::system_error(errno, std::system_category(), root);
  }

  file open(std::string_view target) const {
    std::string path;
    if (!decode_path(target, path)) return refused(400);
    unique_fd directory;
    std::string_view rest = path;
    std::string name;
    for (;;) {
      rest.remove_prefix(rest.find_first_not_of('/') == rest.npos ? rest.size()
                                                                  : rest.find_first_not_of('/'));
      const std::size_t end = rest.find('/');
      name = rest.empty() ? "index.html" : rest.substr(0, end);
      if (name[0] == '.') return refused(404);
      if (rest.empty() || end == rest.npos) break;
      unique_fd next(
          ::openat(at(directory), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!next) return refused(status_of(last_error()));
      directory = std::move(next);
      rest.remove_prefix(end);
    }
    // Without waiting for the other end of a FIFO.
    unique_fd fd(
        ::openat(at(directory), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat about {};
    if (!fd || ::fstat(fd.get(), &about) != 0) return refused(status_of(last_error()));
    if (S_ISDIR(about.st_mode)) return refused(301);
    if (!S_ISREG(about.st_mode)) return refused(403);
    return {200, std::move(fd), static_cast<std::uint64_t>(about.st_size), about.st_mtime,
            type_of(name)};
  }

 private:
  // errno is the thread's. ThreadSanitizer, which knows goroutines, would miss what orders them there.
  __attribute__((noinline, no_sanitize("thread"))) static int last_error() { return errno; }

  static file refused(int status) {
    file f;
    f.status = status;
    return f;
  }
  static int status_of(int error) {
    switch (error) {
      case ENOENT:
      case ENOTDIR:
      case ENAMETOOLONG: return 404;
      case ELOOP:  // a symbolic link
      case EACCES: return 403;
      case EMFILE:
      case ENFILE:
      case ENOMEM: return 503;
      default: return 500;
    }
  }
  int at(const unique_fd& directory) const { return directory ? directory.get() : root_.get(); }

  unique_fd root_;
};

// "bytes=0-499", "bytes=500-", "bytes=-500": one part of a file. 200: all of it (also if there are several parts,
// or if it is no range that we know); 206: [first, first + count); 416: it has none.
inline int part_of(std::string_view range, std::uint64_t size, std::uint64_t& first,
                   std::uint64_t& count) {
  first = 0;
  count = size;
  if (!range.starts_with("bytes=")) return 200;
  range.remove_prefix(6);
  const std::size_t dash = range.find('-');
  if (dash == range.npos) return 200;
  const std::string_view from = trimmed(range.substr(0, dash)),
                         to = trimmed(range.substr(dash + 1));
  std::uint64_t a = 0, b = 0;
  if (from.empty()) {
    if (!whole_number(to, b)) return 200;
    if (b == 0 || size == 0) return 416;
    count = b < size ? b : size;
    first = size - count;
    return 206;
  }
  if (!whole_number(from, a) || (!to.empty() && (!whole_number(to, b) || b < a))) return 200;
  if (a >= size) return 416;
  first = a;
  count = to.empty() || b >= size ? size - a : b - a + 1;
  return 206;
}

}  // namespace http
