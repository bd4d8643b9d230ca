// A descriptor with everything that makes it usable by many goroutines: whose turn it is, how to wait, how
// to close. Sockets, pipes and whatever else can be polled are thin over it.
//
// An error is a positive number: an errno, or kOwn plus one of errc. Where a result may also be a number
// of bytes, errors are negative.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include <weft/buffer.h>

#include "gmp/completion.h"
#include "gmp/waiter.h"
#include "io/calls.h"
#include "io/fd_lock.h"
#include "io/poll_wait.h"
#include "sync/sema_core.h"
#include "sync/sleeper.h"

namespace weft::rt {

// fd_lock's gate: counts, and lets one go for each release().
class fd_gate {
 public:
  void acquire();
  void release();

 private:
  sema_core<sleeper> units_{0};
};

struct io_result {
  std::size_t n = 0;
  int error = 0;  // 0: none
};

inline constexpr int kOwn = 10'000;
constexpr int own_error(errc e) { return kOwn + static_cast<int>(e); }
std::error_code to_error_code(int error) noexcept;

enum class fd_kind : std::uint8_t {
  stream,   // a socket of which a short read means that it is drained: TCP
  packets,  // another socket: reads keep boundaries
  pipe,     // written without MSG_NOSIGNAL
};

class io_fd {
 public:
  // What must be done before one can be made of fd: 0, or an errno if it cannot be polled.
  static int make_pollable(int fd, bool set_nonblocking, poll_desc** pd) noexcept;
  // Takes fd over; one that is not owned is not closed.
  io_fd(int fd, poll_desc* pd, fd_kind kind, bool owned = true) noexcept
      : fd_(fd), pd_(pd), kind_(kind), owned_(owned), trusts_(kind == fd_kind::stream) {}
  // Requires: nobody uses it any more. Closes it if that has not happened yet.
  ~io_fd() { close(); }
  io_fd(const io_fd&) = delete;
  io_fd& operator=(const io_fd&) = delete;

  // errc::closed the second time. Whoever is in an operation fails; returns when they are out.
  int close() noexcept;

  io_result read_some(void* to, std::size_t n);
  io_result read_parts(iovec* parts, std::size_t count);  // one call, as far as it gets
  io_result write_some(const void* from, std::size_t n);
  io_result write_parts(iovec* parts, std::size_t count);
  io_result write_all(const void* from, std::size_t n);
  io_result write_vector(iovec* parts, std::size_t count);  // all of it; changes `parts`

  // Repeats f(source) until it does not say -EAGAIN, waiting in between. Its result, or minus an error.
  template <class F>
  std::int64_t attempt(direction d, const wait_limit& limit, F&& f);

  // Waits until then, whatever news there is: 0; or an error, if it is closed or its deadline comes before.
  int pause(direction d, std::int64_t until);
  int set_deadline(bool read, bool write, std::int64_t when) noexcept;
  // f(fd) while it is not closed. Its result, an error.
  template <class F>
  int with_fd(F&& f);

  int raw() const noexcept { return fd_; }
  // Somebody else may use the descriptor from now on: what we know of it may not be true.
  void distrust() noexcept;
  bool closed() const noexcept { return lock_.closed(); }

 private:
  static int error_of(fd_lock<fd_gate>::outcome o);
  static int error_of(readiness r);
  calls::source source() const { return {fd_, pd_}; }
  // Reads up to n bytes with call(), which says how many, or minus an errno.
  template <class F>
  io_result read_by(std::size_t n, F&& call);
  // As much of n > 0 bytes as the kernel takes, or minus an errno.
  std::int64_t write_once(calls::source s, const void* from, std::size_t n);
  void unlock(direction d);
  void leave();
  void destroy();

  int fd_;
  poll_desc* pd_;
  const fd_kind kind_;
  const bool owned_;
  atomic<bool> trusts_;
  bool drained_ = false;  // the reader's: the last read has emptied it
  fd_lock<fd_gate> lock_;
  completion<waiter> gone_;  // nobody uses it any more, and it is closed
};

template <class F>
std::int64_t io_fd::attempt(direction d, const wait_limit& limit, F&& f) {
  if (const int error = error_of(lock_.lock(d)); error != 0) {
    return -error;
  }
  std::int64_t n = 0;
  for (;;) {
    if (const readiness r = prepare(*pd_, d); r != readiness::ready) {
      n = -error_of(r);
      break;
    }
    n = f(source());
    if (n == -EINTR) {
      continue;
    }
    if (n != -EAGAIN) {
      break;
    }
    if (const readiness r = wait_ready(*pd_, d, limit); r != readiness::ready) {
      n = -error_of(r);
      break;
    }
  }
  unlock(d);
  return n;
}

template <class F>
int io_fd::with_fd(F&& f) {
  if (const int error = error_of(lock_.enter()); error != 0) {
    return error;
  }
  const int result = f(fd_);
  leave();
  return result;
}

}  // namespace weft::rt
