// Pipes, and descriptors of others. See include/weft/io.h.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <weft/io.h>

#include "io/object.h"

namespace weft::io {

namespace {

using detail::io_object;

struct pipe_object : io_object {
  pipe_object(int number, rt::poll_desc* pd) noexcept
      : io_object(number, pd, rt::fd_kind::pipe), shown(number) {}
  std::string about() const override { return " |" + std::to_string(shown); }
  const int shown;
};

struct polled_object : io_object {
  polled_object(int number, rt::poll_desc* pd, bool owned) noexcept
      : io_object(number, pd, rt::fd_kind::pipe, owned), shown(number) {}
  std::string about() const override { return " fd " + std::to_string(shown); }
  const int shown;
};

// Null: it stays the caller's.
io_object* make_pipe_object(int fd, std::error_code& ec) {
  int error = 0;
  io_object* o = detail::make_object<pipe_object>(fd, /*set_nonblocking=*/true, &error);
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
  return o;
}

}  // namespace

struct pipe_access {
  template <class End>
  static End adopt(int fd, std::error_code& ec) {
    return End(make_pipe_object(fd, ec));
  }
  template <class End>
  static End adopt(int fd) {
    std::error_code ec;
    End end = adopt<End>(fd, ec);
    if (ec) {
      throw std::system_error(ec, "adopt fd " + std::to_string(fd));
    }
    return end;
  }
};

pipe_reader pipe_reader::adopt(int fd) { return pipe_access::adopt<pipe_reader>(fd); }
pipe_reader pipe_reader::adopt(int fd, std::error_code& ec) {
  return pipe_access::adopt<pipe_reader>(fd, ec);
}
pipe_writer pipe_writer::adopt(int fd) { return pipe_access::adopt<pipe_writer>(fd); }
pipe_writer pipe_writer::adopt(int fd, std::error_code& ec) {
  return pipe_access::adopt<pipe_writer>(fd, ec);
}

pipe_ends pipe(std::error_code& ec) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    ec = {rt::calls::last_errno(), std::system_category()};
    return {};
  }
  pipe_ends ends;
  ends.r = pipe_access::adopt<pipe_reader>(fds[0], ec);
  if (ec) {
    ::close(fds[0]);
    ::close(fds[1]);
    return {};
  }
  ends.w = pipe_access::adopt<pipe_writer>(fds[1], ec);
  if (ec) {
    ::close(fds[1]);
    return {};
  }
  return ends;
}

pipe_ends pipe() {
  std::error_code ec;
  pipe_ends ends = pipe(ec);
  if (ec) {
    detail::io_throw(nullptr, "pipe", ec);
  }
  return ends;
}

namespace {

// A descriptor that the poller knows already, by another record, is watched by a duplicate of it.
io_object* borrow(int fd, std::error_code& ec) {
  int error = 0;
  io_object* o = detail::make_object<polled_object>(fd, /*set_nonblocking=*/false, &error, false);
  if (error == EEXIST) {
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
      error = rt::calls::last_errno();
    } else {
      o = detail::make_object<polled_object>(fd, /*set_nonblocking=*/false, &error, true);
      if (o == nullptr) {
        ::close(fd);
      }
    }
  }
  ec = error == 0 ? std::error_code() : rt::to_error_code(error);
  return o;
}

}  // namespace

poll_fd::poll_fd(int fd, std::error_code& ec) : io_handle(borrow(fd, ec)) {}

poll_fd::poll_fd(int fd) {
  std::error_code ec;
  static_cast<io_handle&>(*this) = poll_fd(fd, ec);
  if (ec) {
    throw std::system_error(ec, "poll fd " + std::to_string(fd));
  }
}

namespace {

std::error_code wait_for_news(io_object* o, bool write, const detail::limit& l, rt::fd_guest* g) {
  if (o == nullptr) {
    return detail::no_object();
  }
  const auto d = write ? rt::direction::write : rt::direction::read;
  const short events = write ? POLLOUT : POLLIN | POLLPRI | POLLRDHUP;
  // News comes once: what is ready already, and was left alone, makes none. So it is looked at first.
  const std::int64_t end = o->fd.attempt(
      d, rt::limit_of(l),
      [events](rt::calls::source s) { return std::int64_t{rt::calls::poll(s, events)}; }, g);
  return detail::error_with(static_cast<int>(-end), l);
}

}  // namespace

void poll_fd::wait_for(bool write, detail::limit l, std::error_code& ec) {
  ec = wait_for_news(object(), write, l, nullptr);
}
void poll_fd::wait_for(bool write, detail::limit l) {
  detail::io_call(object(), "poll", [&](std::error_code& ec, rt::fd_guest* g) {
    ec = wait_for_news(object(), write, l, g);
    return 0;
  });
}

}  // namespace weft::io
