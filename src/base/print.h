// Text output that works when nothing else does.
//
// Problem: crash reports are printed while another thread may be stopped inside malloc, inside
// stdio or inside the loader. Anything that takes one of their locks would hang the report.
// So a printer formats into a small buffer of its own and hands full buffers to a sink; the
// default sink is write(2) on standard error. It allocates nothing, takes no lock, keeps errno.
//
// Rejected: dprintf/vsnprintf (locale, may allocate for wide formats), std::to_chars into a
// std::string (allocates), one write(2) per fragment (lines of two threads interleave).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::rt {

// Formats into a buffer, which is passed on when it is full, on flush() and by the destructor.
// Runs on: anything, signal handlers included. Blocks: the thread, if standard error does.
class printer {
 public:
  using sink = void (*)(void* arg, const char* data, std::size_t size);

  printer() noexcept;  // standard error
  printer(sink to, void* arg) noexcept : sink_(to), arg_(arg) {}
  printer(const printer&) = delete;
  printer& operator=(const printer&) = delete;
  ~printer() { flush(); }

  printer& str(std::string_view text) noexcept;
  printer& chr(char c) noexcept;
  printer& dec(std::int64_t value) noexcept;
  printer& udec(std::uint64_t value) noexcept;
  printer& hex(std::uint64_t value) noexcept;  // with 0x, without leading zeros
  // As str, with a tab after every newline: how Go prints the text of a panic.
  printer& indented(std::string_view text) noexcept;
  void flush() noexcept;

 private:
  sink sink_;
  void* arg_;
  std::size_t used_ = 0;
  char buffer_[480];
};

// Writes everything, going on after EINTR, short writes and EAGAIN; gives up on other errors.
void write_all(int fd, const char* data, std::size_t size) noexcept;

}  // namespace weft::rt
