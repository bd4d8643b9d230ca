// The formatting and the write(2) loop behind base/print.h; see there for why it is this bare.
#include "base/print.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/atomic.h"

namespace weft::rt {

namespace {

void to_standard_error(void*, const char* data, std::size_t size) {
  write_all(STDERR_FILENO, data, size);
}

}  // namespace

// Not instrumented: errno is the thread's, whichever goroutine wrote it last.
WEFT_NO_TSAN void write_all(int fd, const char* data, std::size_t size) noexcept {
  const int saved_errno = errno;
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n > 0) {
      data += n;
      size -= static_cast<std::size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      // Somebody made the terminal or the pipe non-blocking. Half a second without progress
      // means that nobody reads any more: losing text is better than never exiting.
      pollfd pending{fd, POLLOUT, 0};
      if (::poll(&pending, 1, 500) <= 0) break;
    } else if (n == 0 || errno != EINTR) {
      break;
    }
  }
  errno = saved_errno;
}

printer::printer() noexcept : sink_(to_standard_error), arg_(nullptr) {}

printer& printer::chr(char c) noexcept {
  if (used_ == sizeof buffer_) flush();
  buffer_[used_++] = c;
  return *this;
}

printer& printer::str(std::string_view text) noexcept {
  for (char c : text) chr(c);
  return *this;
}

printer& printer::indented(std::string_view text) noexcept {
  for (char c : text) {
    chr(c);
    if (c == '\n') chr('\t');
  }
  return *this;
}

printer& printer::udec(std::uint64_t value) noexcept {
  char digits[20];
  std::size_t first = sizeof digits;
  do {
    digits[--first] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  return str({digits + first, sizeof digits - first});
}

printer& printer::dec(std::int64_t value) noexcept {
  if (value >= 0) return udec(static_cast<std::uint64_t>(value));
  chr('-');
  return udec(std::uint64_t{0} - static_cast<std::uint64_t>(value));
}

printer& printer::hex(std::uint64_t value) noexcept {
  char digits[18];
  std::size_t first = sizeof digits;
  do {
    digits[--first] = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value != 0);
  digits[--first] = 'x';
  digits[--first] = '0';
  return str({digits + first, sizeof digits - first});
}

void printer::flush() noexcept {
  if (used_ == 0) return;
  sink_(arg_, buffer_, used_);
  used_ = 0;
}

}  // namespace weft::rt
