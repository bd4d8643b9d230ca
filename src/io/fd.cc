// See fd.h.
//
// A short read means drained. Go reads until the kernel says EAGAIN; for a request and its answer that is
// one system call in three, and in vain. With edge-triggered news a read that did not fill its buffer has
// emptied the socket, and whatever comes later makes news: so the next read waits first. That is true of
// TCP, unless
//   * the stream has ended, failed, or has urgent data, which makes news once: PD-d in poll/poll_core.h;
//   * somebody else reads from the descriptor, or makes it deliver records (kTLS): so it is not relied upon
//     once the user has asked for the descriptor (distrust()).
// It is not true of Unix sockets (a read ends where descriptors were passed) and terminals (at a line).
//
// Go: internal/poll/fd_unix.go [FD-2]
#include "io/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/panic.h>

#include "base/fatal.h"
#include "io/parts.h"
#include "os/clock.h"
#include "sched/timers.h"

namespace weft::rt {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

std::size_t at_most(std::size_t n) { return n < kMostAtOnce ? n : kMostAtOnce; }

}  // namespace

bool is_end_of_pipeline(int fd) noexcept {
  struct stat st {};
  return (fd == STDOUT_FILENO || fd == STDERR_FILENO) &&
         (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode));
}

void fd_gate::acquire() {
  sleeper n;
  pass_gate(units_, n, [](sleeper& s) { sleep(s, wait_reason::semacquire); });
}

void fd_gate::release(std::uint32_t units) {
  open_gate(units_, units, [](sleeper* n) { rouse(n); });
}

int shared_fd::refused(outcome o, fd_guest* g, const wait_limit& limit) {
  if (o == outcome::too_many) {
    throw panic_error("too many concurrent operations on a single file or socket (max 1048575)");
  }
  int error = when_closed_;
  if (o == outcome::gave_up) {
    const bool cancelled = limit.source != nullptr && limit.source->cancelled();
    error = cancelled ? ECANCELED : own_error(errc::timed_out);
  }
  if (o == outcome::sent_away || o == outcome::gave_up) {
    end(/*failed=*/true, g);
  }
  return error;
}

void shared_fd::destroy() noexcept {
  closing_.end([this] { shut(); });
}

bool shared_fd::begin_close() noexcept { return closing_.begin_close(); }

int io_fd::make_pollable(int fd, bool set_nonblocking, poll_desc** pd) noexcept {
  const int flags = set_nonblocking ? fcntl(fd, F_GETFL) : O_NONBLOCK;
  if (flags < 0 || ((flags & O_NONBLOCK) == 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)) {
    return calls::last_errno();
  }
  const int error = open_poll_desc(fd, pd);
  if (error != 0 && (flags & O_NONBLOCK) == 0) {
    fcntl(fd, F_SETFL, flags);
  }
  return error == EPERM ? own_error(errc::not_pollable) : error;
}

int io_fd::error_of(readiness r) {
  switch (r) {
    case readiness::ready: return 0;
    case readiness::closing: return own_error(errc::closed);
    case readiness::timed_out: return own_error(errc::timed_out);
    case readiness::cancelled: return ECANCELED;
  }
  return 0;
}

void io_fd::evict_all() noexcept { evict(*pd_); }

void io_fd::shut() noexcept {
  close_poll_desc(pd_);
  const int error = owned_ ? -calls::close(fd_) : 0;
  close_error_ = error == EINTR ? 0 : error;  // Linux has closed it all the same
}

readiness io_fd::wait_a_while(direction d, std::int64_t* pause) {
  constexpr std::int64_t kFirstPause = 50'000, kLongestPause = 10'000'000;
  *pause = *pause == 0 ? kFirstPause : 2 * *pause < kLongestPause ? 2 * *pause : kLongestPause;
  const wait_limit limit{time_after(nanotime(), *pause), nullptr};
  readiness r = readiness::ready;
  while (r == readiness::ready) {
    r = wait_ready(*pd_, d, limit);
  }
  return r == readiness::timed_out ? readiness::ready : r;  // whose deadline it was prepare() tells
}

void io_fd::distrust() noexcept {
  trusts_.store(false, WEFT_ORDER(DR0, relaxed));  // order: DR0 relaxed, a switch on its own
}

template <class F>
io_result io_fd::read_held(std::size_t n, F&& call) {
  io_result result;
  while (n != 0) {
    const readiness r =
        drain_.before_read(*pd_, [this] { return wait_ready(*pd_, direction::read); });
    if (r != readiness::ready) [[unlikely]] {
      result.error = error_of(r);
      break;
    }
    const ssize_t got = call();
    if (got >= 0) {
      result.n = static_cast<std::size_t>(got);
      // order: DR0 relaxed, as above
      if (trusts_.load(WEFT_ORDER(DR0, relaxed)) && got > 0 && result.n < n) {
        drain_.less_than_room(*pd_);
      } else {
        drain_.unknown();
      }
      break;
    }
    if (got == -EAGAIN) {
      drain_.nothing_there();
      continue;
    }
    drain_.unknown();
    if (got != -EINTR) {
      result.error = static_cast<int>(-got);
      break;
    }
  }
  return result;
}

template <class F>
io_result io_fd::read_by(std::size_t n, F&& call, fd_guest* g) {
  if (const int error = begin(direction::read, g); error != 0) [[unlikely]] {
    return {0, error};
  }
  const io_result result = read_held(n, call);
  end(direction::read, result.error != 0, g);
  return result;
}

io_result io_fd::read_some(void* to, std::size_t n, fd_guest* g) {
  n = at_most(n);
  return read_by(
      n,
      [&] {
        return kind_ == fd_kind::pipe ? calls::read(source(), to, n) : calls::recv(source(), to, n);
      },
      g);
}

io_result io_fd::read_parts(iovec* parts, std::size_t count, fd_guest* g) {
  advance(&parts, &count, 0);
  if (count <= 1) {
    return count == 0 ? read_some(nullptr, 0, g) : read_some(parts->iov_base, parts->iov_len, g);
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < count; ++i) {
    n += parts[i].iov_len;
  }
  return read_by(
      n,
      [&] {
        if (kind_ == fd_kind::pipe) {
          return calls::readv(source(), parts, count);
        }
        msghdr m{};
        m.msg_iov = parts;
        m.msg_iovlen = count;
        return calls::recvmsg(source(), &m, 0);
      },
      g);
}

// Nobody else reads in between.
io_result io_fd::read_full(void* to, std::size_t n, fd_guest* g) {
  io_result result;
  if (n == 0) {
    return result;
  }
  if (const int error = begin(direction::read, g); error != 0) [[unlikely]] {
    return {0, error};
  }
  while (result.n < n && result.error == 0) {
    char* rest = static_cast<char*>(to) + result.n;
    const std::size_t room = at_most(n - result.n);
    const io_result got = read_held(room, [&] {
      return kind_ == fd_kind::pipe ? calls::read(source(), rest, room)
                                    : calls::recv(source(), rest, room);
    });
    result.n += got.n;
    result.error = got.error != 0 || got.n != 0 ? got.error : own_error(errc::unexpected_eof);
  }
  end(direction::read, result.error != 0, g);
  return result;
}

std::int64_t io_fd::write_once(calls::source s, const void* from, std::size_t n) {
  std::int64_t done = 0;
  if (kind_ != fd_kind::pipe) [[likely]] {
    done = calls::send(s, from, at_most(n));
  } else if (raises_) {
    done = calls::write(s, from, at_most(n));
  } else {
    done = calls::write_quietly(s, from, at_most(n));
  }
  return done == 0 && n != 0 ? -EIO : done;  // a device that takes nothing would be asked for ever
}

std::int64_t io_fd::write_once(calls::source s, iovec* parts, std::size_t count) {
  if (!keeps_messages()) {  // of a message the kernel gets all parts, or says EMSGSIZE
    count = count < kMostParts ? count : kMostParts;
  }
  if (kind_ == fd_kind::pipe) {
    const std::int64_t done =
        raises_ ? calls::writev(s, parts, count) : calls::writev_quietly(s, parts, count);
    return done == 0 ? -EIO : done;  // as above
  }
  msghdr m{};
  m.msg_iov = parts;
  m.msg_iovlen = count;
  return calls::sendmsg(s, &m);
}

io_result io_fd::write_some(const void* from, std::size_t n, fd_guest* g) {
  const auto send = [&](calls::source s) -> std::int64_t {
    return n == 0 && !keeps_messages() ? 0 : write_once(s, from, n);
  };
  const std::int64_t done = attempt(direction::write, {}, send, g);
  return done < 0 ? io_result{0, static_cast<int>(-done)}
                  : io_result{static_cast<std::size_t>(done), 0};
}

io_result io_fd::write_parts(iovec* parts, std::size_t count, fd_guest* g) {
  advance(&parts, &count, 0);
  if (count <= 1) {
    return count == 0 ? write_some(nullptr, 0, g) : write_some(parts->iov_base, parts->iov_len, g);
  }
  const auto send = [&](calls::source s) { return write_once(s, parts, count); };
  const std::int64_t done = attempt(direction::write, {}, send, g);
  return done < 0 ? io_result{0, static_cast<int>(-done)}
                  : io_result{static_cast<std::size_t>(done), 0};
}

// Nobody else writes in between.
io_result io_fd::write_all(const void* from, std::size_t n, fd_guest* g) {
  io_result result;
  const auto send = [&](calls::source s) -> std::int64_t {
    if (n == 0 && keeps_messages()) {
      return write_once(s, from, 0);
    }
    while (result.n < n) {
      const char* rest = static_cast<const char*>(from) + result.n;
      const std::int64_t done = write_once(s, rest, n - result.n);
      if (done < 0) [[unlikely]] {
        return done;
      }
      result.n += static_cast<std::size_t>(done);
    }
    return 0;
  };
  result.error = static_cast<int>(-attempt(direction::write, {}, send, g));
  return result;
}

// … nor here.
io_result io_fd::write_vector(iovec* parts, std::size_t count, fd_guest* g) {
  io_result result;
  advance(&parts, &count, 0);
  if (count <= 1) {
    return count == 0 ? write_all(nullptr, 0, g) : write_all(parts->iov_base, parts->iov_len, g);
  }
  const auto send = [&](calls::source s) -> std::int64_t {
    while (count > 0) {
      const std::int64_t done = write_once(s, parts, count);
      if (done < 0) {
        return done;
      }
      result.n += static_cast<std::size_t>(done);
      advance(&parts, &count, static_cast<std::size_t>(done));
    }
    return 0;
  };
  result.error = static_cast<int>(-attempt(direction::write, {}, send, g));
  return result;
}

int io_fd::pause(direction d, std::int64_t until, fd_guest* g) {
  if (const int error = begin(d, g); error != 0) {
    return error;
  }
  if (d == direction::read) {
    drain_.read_in_another_way();  // the news that ends up here is no read's any more
  }
  const wait_limit limit{until, nullptr};
  while (wait_ready(*pd_, d, limit) == readiness::ready) {
  }
  const int error = error_of(prepare(*pd_, d));
  end(d, error != 0, g);
  return error;
}

int io_fd::set_deadline(bool read, bool write, std::int64_t when, fd_guest* g) {
  return with_fd(
      [&](int) {
        if (read) {
          rt::set_deadline(*pd_, direction::read, when);
        }
        if (write) {
          rt::set_deadline(*pd_, direction::write, when);
        }
        return 0;
      },
      g);
}

}  // namespace weft::rt
