// See file_fd.h.
//
// How a transfer is done, the first that applies:
//   1. What can be polled goes through the poller, as pipes do (io/fd.h).
//   2. RWF_NOWAIT: what the page cache has, or has room for, is copied by one system call that never waits. If it
//      would have to: 4.
//   3. Not every file system can say so (ext4 cannot for writes, /proc not at all), but there a call mostly is a copy,
//      too. So it is simply made, and sysmon takes the P if it does block. At most kMostLent threads of the process are
//      lent in this way at once; if more want to, because the disk is too slow for what is written: 4.
//   4. The ring: only the goroutine waits. O_DIRECT and O_SYNC begin here: they always wait.
//   5. No ring, or it does not want this one (a file opened with O_NONBLOCK): a thread waits, as in Go.
//
// Whether the ring is worth it for a write that only copies was measured: the kernel gives it to a thread of its own, at
// 20 us, against 0.6 us for a copy of 4 KiB.
//
// sync and fallocate are 4 or 5. For opening, sizes, directories and the like there is 5 only: the kernel has no better
// way for them, or none at all.
//
// The descriptor's own position is one for reading and writing, and io_uring does not lock it: operations with it
// take turns, whatever their direction. Those with an offset run side by side.
//
// Closing waits for operations under way: a disk answers. Those that wait in the poller, for whom nobody may ever answer,
// are sent away.
//
// Go: os/file_unix.go, internal/poll/fd_unix.go [FD-1], [FD-4], [FD-5]
#include "io/file_fd.h"

#include <fcntl.h>
#include <new>
#include <unistd.h>

#include <weft/panic.h>

#include "io/parts.h"
#include "io/ring_wait.h"
#include "sched/park.h"
#include "sched/section.h"

namespace weft::rt {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
constexpr int kMostLent = 4;
constexpr std::size_t kSector = 4096;  // the largest there is

constinit atomic<int> lent{0};

// One of the threads that may be lent, for a scope; false: they all are.
class lent_thread {
 public:
  lent_thread() {
    // order: FF0 relaxed, a count on its own
    got_ = lent.fetch_add(1, WEFT_ORDER(FF0, relaxed)) < kMostLent;
  }
  ~lent_thread() { lent.fetch_sub(1, WEFT_ORDER(FF0, relaxed)); }  // order: FF0 relaxed, as above
  lent_thread(const lent_thread&) = delete;
  lent_thread& operator=(const lent_thread&) = delete;
  explicit operator bool() const { return got_; }

 private:
  bool got_;
};

constexpr unsigned index(direction d) { return static_cast<unsigned>(d); }

std::int64_t vectored(direction d, int fd, const iovec* parts, int count, std::int64_t offset,
                      bool nowait) {
  return d == direction::read ? calls::readv_at(fd, parts, count, offset, nowait)
                              : calls::writev_at(fd, parts, count, offset, nowait);
}

// The kernel cannot say whether it would wait; the call itself may still be good.
bool is_unknown(std::int64_t n) { return n == -EOPNOTSUPP || n == -EINVAL || n == -ENOSYS; }

// Errors by which the ring may mean itself, and not the file.
bool is_refusal(std::int64_t n) { return n == -EAGAIN || is_unknown(n); }

}  // namespace

file_fd::file_fd(int fd) : shared_fd(errc::closed_file), fd_(fd) {
  struct stat st {};
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &st) != 0) {
    return;  // every operation will say what is wrong
  }
  direct_ = (flags & O_DIRECT) != 0;
  waits_[0] = direct_;
  waits_[1] = direct_ || (flags & (O_DSYNC | O_SYNC)) != 0;
  appends_ = (flags & O_APPEND) != 0;
  const bool on_disk = S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode);
  for (auto& knows : knows_) {
    knows.store(on_disk, WEFT_ORDER(FF0, relaxed));  // order: FF0 relaxed, not shared yet
  }
  if (on_disk) {
    return;
  }
  static_assert(alignof(io_fd) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  void* room = ::operator new(sizeof(io_fd));  // first, so that nothing must be undone
  poll_desc* pd = nullptr;
  if (io_fd::make_pollable(fd, /*set_nonblocking=*/true, &pd) == 0) {
    polled_.reset(new (room) io_fd(fd, pd, fd_kind::pipe, /*owned=*/false));
    seekable_ = false;
  } else {
    ::operator delete(room);
  }
}

void file_fd::shut() noexcept {
  const detail::blocking_call here(false);
  const int error = -calls::close(fd_);
  close_error_ = error == EINTR ? 0 : error;  // Linux has closed it all the same
}

int file_fd::close() noexcept {
  const int already = closed_error();
  if (!begin_close()) {
    return already;  // whoever was first may have let the object go
  }
  if (polled_ != nullptr) {
    polled_->close();
  }
  int error = 0;
  finish_close([&] { error = close_error_; });
  return error;
}

int file_fd::begin_at(direction d, std::int64_t offset, const wait_limit& limit, fd_guest* g) {
  return offset == kOwnPosition ? begin(turn(d), limit, g) : begin(g);
}

// Gives way to others if it has been asked to: a loop over what the page cache has comes to the runtime nowhere else.
void file_fd::end_at(direction d, std::int64_t offset, bool failed, fd_guest* g) {
  if (offset == kOwnPosition) {
    end(turn(d), failed, g);
  } else {
    end(failed, g);
  }
  leave_runtime(enter_runtime());  // last: it is nobody's turn while this one is frozen
}

std::int64_t file_fd::by_poller(direction d, const iovec& part, const wait_limit& limit) {
  const std::int64_t n = polled_->attempt(d, limit, [&](calls::source s) -> std::int64_t {
    if (d == direction::read) {
      return calls::read(s, part.iov_base, part.iov_len);
    }
    return polled_->raises() ? calls::write(s, part.iov_base, part.iov_len)
                             : calls::write_quietly(s, part.iov_base, part.iov_len);
  });
  return n == -own_error(errc::closed) ? -own_error(errc::closed_file) : n;
}

std::int64_t file_fd::by_thread(direction d, const iovec* parts, int count, std::int64_t offset) {
  const detail::blocking_call here(false);
  return vectored(d, fd_, parts, count, offset, /*nowait=*/false);
}

// False: it must be done in another way.
bool file_fd::by_ring(direction d, iovec* parts, int count, std::int64_t offset,
                      const wait_limit& limit, std::int64_t* result) {
  const bool reads = d == direction::read;
  ring_op op;
  op.fd = fd_;
  op.offset = offset;
  if (count == 1) {
    std::size_t n = parts->iov_len;
    if (const int error = calls::chance(parts->iov_base, !reads, &n); error != 0) [[unlikely]] {
      *result = -error;
      return true;
    }
    op.call = reads ? ring_call::read : ring_call::write;
    op.address = parts->iov_base;
    op.length = static_cast<std::uint32_t>(n);
  } else {
    op.call = reads ? ring_call::readv : ring_call::writev;
    op.address = parts;
    op.length = static_cast<std::uint32_t>(count);
  }
  return run_on_ring(op, limit, result) && !is_refusal(*result);
}

std::int64_t file_fd::once(direction d, iovec* parts, std::size_t n_parts, std::int64_t offset,
                           const wait_limit& limit) {
  const int count = static_cast<int>(n_parts < kMostParts ? n_parts : kMostParts);
  if (const int error = error_of_limit(limit); error != 0) [[unlikely]] {
    return -error;
  }
  if (polled_ != nullptr && offset == kOwnPosition) {
    return by_poller(d, *parts, limit);
  }
  if (!waits_[index(d)]) {
    atomic<bool>& knows = knows_[index(d)];
    bool would_wait = false;
    if (knows.load(WEFT_ORDER(FF0, relaxed))) {  // order: FF0 relaxed, a hint
      const std::int64_t n = vectored(d, fd_, parts, count, offset, /*nowait=*/true);
      would_wait = n == -EAGAIN;
      if (!would_wait && !is_unknown(n)) [[likely]] {
        return n;
      }
      if (!would_wait) {
        knows.store(false, WEFT_ORDER(FF0, relaxed));  // order: FF0 relaxed, a hint
      }
    }
    if (!would_wait) {
      const lent_thread thread;
      if (thread) {
        return by_thread(d, parts, count, offset);
      }
    }
  }
  std::int64_t n = 0;
  return by_ring(d, parts, count, offset, limit, &n) ? n : by_thread(d, parts, count, offset);
}

io_result file_fd::steps(direction d, amount how, iovec* parts, std::size_t count,
                         std::int64_t offset, const wait_limit& limit) {
  io_result result;
  advance(&parts, &count, 0);
  while (count > 0) {
    const std::size_t whole = parts->iov_len;
    if (whole > kMostAtOnce) {
      parts->iov_len = kMostAtOnce;
    }
    const std::int64_t n = once(d, parts, whole > kMostAtOnce ? 1 : count, offset, limit);
    parts->iov_len = whole;
    if (n == -EINTR) {
      continue;
    }
    if (n <= 0) {
      result.error = n == 0 && d == direction::write ? EIO : static_cast<int>(-n);
      break;
    }
    const auto done = static_cast<std::size_t>(n);
    result.n += done;
    offset += offset == kOwnPosition ? 0 : n;
    advance(&parts, &count, done);
    // Past the page cache nothing can be read from the middle of a sector: it was the end.
    if (how == amount::some || (direct_ && d == direction::read && done % kSector != 0)) {
      break;
    }
  }
  if (how == amount::full && count > 0 && result.error == 0) {
    result.error = own_error(errc::unexpected_eof);
  }
  return result;
}

io_result file_fd::transfer(direction d, amount how, iovec* parts, std::size_t count,
                            std::int64_t offset, const wait_limit& limit, fd_guest* g) {
  if (const int error = begin_at(d, offset, limit, g); error != 0) {
    return {0, error};
  }
  const io_result result = steps(d, how, parts, count, offset, limit);
  end_at(d, offset, result.error != 0, g);
  return result;
}

// call() does the same by a system call: 0 or an errno.
int file_fd::by_ring_or_thread(ring_op& op, const wait_limit& limit, int (*call)(const ring_op&),
                               fd_guest* g) {
  if (const int refusal = begin(g); refusal != 0) {
    return refusal;
  }
  op.fd = fd_;
  int error = 0;
  do {
    std::int64_t n = 0;
    error = error_of_limit(limit);
    if (error != 0) {
      break;
    }
    if (run_on_ring(op, limit, &n) && !is_refusal(n)) {
      error = n < 0 ? static_cast<int>(-n) : 0;
    } else {
      const detail::blocking_call here(false);
      error = call(op);
    }
  } while (error == EINTR);
  end(error != 0, g);
  return error;
}

int file_fd::sync(bool data_only, const wait_limit& limit, fd_guest* g) {
  ring_op op;
  op.call = data_only ? ring_call::datasync : ring_call::sync;
  constexpr auto kCall = [](const ring_op& o) {
    const int n = o.call == ring_call::datasync ? ::fdatasync(o.fd) : ::fsync(o.fd);
    return n == 0 ? 0 : calls::last_errno();
  };
  return by_ring_or_thread(op, limit, kCall, g);
}

int file_fd::fallocate(int mode, std::int64_t offset, std::int64_t size, const wait_limit& limit,
                       fd_guest* g) {
  ring_op op;
  op.call = ring_call::fallocate;
  op.mode = mode;
  op.offset = offset;
  op.size = size;
  constexpr auto kCall = [](const ring_op& o) {
    return ::fallocate(o.fd, o.mode, o.offset, o.size) == 0 ? 0 : calls::last_errno();
  };
  return by_ring_or_thread(op, limit, kCall, g);
}

std::int64_t file_fd::seek(std::int64_t offset, int whence, fd_guest* g) {
  if (const int error = begin_at(direction::read, kOwnPosition, {}, g); error != 0) {
    return -error;
  }
  const std::int64_t at = ::lseek(fd_, offset, whence);
  const std::int64_t result = at < 0 ? -calls::last_errno() : at;
  end_at(direction::read, kOwnPosition, result < 0, g);
  return result;
}

int file_fd::set_deadline(bool read, bool write, std::int64_t when, fd_guest* g) {
  if (const int error = begin(g); error != 0) {
    return error;
  }
  int error =
      polled_ == nullptr ? own_error(errc::no_deadline) : polled_->set_deadline(read, write, when);
  error = error == own_error(errc::closed) ? own_error(errc::closed_file) : error;
  end(error != 0, g);
  return error;
}

}  // namespace weft::rt
