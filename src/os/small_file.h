// A short file that the kernel writes, read again and again through one descriptor. Nothing here allocates.
#pragma once

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>

namespace weft::rt {

struct keeps_errno {
  const int saved = errno;
  ~keeps_errno() { errno = saved; }
};

inline int open_to_read(const char* path) noexcept {
  int fd;
  do {
    fd = ::open(path, O_RDONLY | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

template <std::size_t Size>
class small_text {
 public:
  /// What the file says now, from its beginning. False: nothing.
  bool read(int fd) noexcept {
    ssize_t got;
    do {
      got = ::pread(fd, text_, Size, 0);
    } while (got < 0 && errno == EINTR);
    size_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    return size_ > 0;
  }
  /// There may be more of it.
  bool full() const noexcept { return size_ == Size; }
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  char text_[Size];
  std::size_t size_ = 0;
};

}  // namespace weft::rt
