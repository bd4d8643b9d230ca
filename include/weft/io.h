// Files, pipes, and waiting for descriptors of others.
#pragma once

#include <weft/buffer.h>
#include <weft/detail/deadline.h>
#include <weft/detail/io_handle.h>
#include <weft/file.h>

namespace weft::io {

/// The end of a pipe that is read.
class WEFT_EXPORT pipe_reader : public detail::readable<detail::io_handle> {
 public:
  pipe_reader() noexcept = default;
  /// Takes over a descriptor of a pipe, a FIFO, a terminal or another device that can be polled.
  static pipe_reader adopt(int fd);
  static pipe_reader adopt(int fd, std::error_code& ec);

 private:
  friend struct pipe_access;
  using readable::readable;
};

/// The end that is written. Writing to a pipe that nobody reads is an error (EPIPE), and no signal, unless
/// it is the process's standard output or standard error.
class WEFT_EXPORT pipe_writer : public detail::writable<detail::io_handle> {
 public:
  pipe_writer() noexcept = default;
  static pipe_writer adopt(int fd);
  static pipe_writer adopt(int fd, std::error_code& ec);

 private:
  friend struct pipe_access;
  using writable::writable;
};

struct pipe_ends {
  pipe_reader r;
  pipe_writer w;
};

/// auto [r, w] = weft::io::pipe();
WEFT_EXPORT pipe_ends pipe();
WEFT_EXPORT pipe_ends pipe(std::error_code& ec);

/// Any descriptor that can be polled, of whoever else: an eventfd, a timerfd, inotify, the socket of a
/// client library. It is borrowed: its mode is left alone, and it must stay open for as long as this lives.
///
///     weft::io::poll_fd ready(PQsocket(connection));
///     ready.wait_readable();
///     PQconsumeInput(connection);
class WEFT_EXPORT poll_fd : private detail::io_handle {
 public:
  explicit poll_fd(int fd);
  poll_fd(int fd, std::error_code& ec);

  /// Returns at once if it is readable (or has ended, or failed), otherwise waits until it is.
  void wait_readable() { wait_for(false, detail::kNoDeadline); }
  void wait_readable(std::error_code& ec) { wait_for(false, detail::kNoDeadline, ec); }
  void wait_writable() { wait_for(true, detail::kNoDeadline); }
  void wait_writable(std::error_code& ec) { wait_for(true, detail::kNoDeadline, ec); }

  /// The same until a time (errc::timed_out) or until a context is cancelled (its error), also while another one waits for
  /// the same: one at a time does, in each direction, and the others wait for their turn.
  void wait_readable(detail::io_time t) { wait_for(false, detail::deadline_at(t)); }
  void wait_readable(detail::io_time t, std::error_code& ec) {
    wait_for(false, detail::deadline_at(t), ec);
  }
  void wait_readable(const context& ctx) { wait_for(false, ctx); }
  void wait_readable(const context& ctx, std::error_code& ec) { wait_for(false, ctx, ec); }
  void wait_writable(detail::io_time t) { wait_for(true, detail::deadline_at(t)); }
  void wait_writable(detail::io_time t, std::error_code& ec) {
    wait_for(true, detail::deadline_at(t), ec);
  }
  void wait_writable(const context& ctx) { wait_for(true, ctx); }
  void wait_writable(const context& ctx, std::error_code& ec) { wait_for(true, ctx, ec); }

  using io_handle::close;  // ends waits; the descriptor stays open
  using io_handle::native_handle;
  using io_handle::operator bool;

 private:
  void wait_for(bool write, detail::limit l, std::error_code& ec);
  void wait_for(bool write, detail::limit l);
};

}  // namespace weft::io
