// A descriptor of a file: who may use it, and how its operations are done without holding up others.
//
// Errors are numbers, as in io/fd.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sys/stat.h>
#include <sys/uio.h>

#include <weft/runtime.h>

#include "base/atomic.h"
#include "gmp/completion.h"
#include "io/fd.h"
#include "io/fd_lock.h"
#include "poll/ring.h"
#include "sched/timed.h"

namespace weft::rt {

class file_fd {
 public:
  // Takes fd over. What can be polled (a terminal, a FIFO) is made non-blocking. If there is no memory (bad_alloc) nothing
  // has happened to fd.
  explicit file_fd(int fd);
  // Requires: nobody uses it any more. Closes it if that has not happened yet.
  ~file_fd() { close(); }
  file_fd(const file_fd&) = delete;
  file_fd& operator=(const file_fd&) = delete;

  // errc::closed_file the second time; or what close(2) says. Whoever waits in the poller fails; returns when all
  // are out.
  int close() noexcept;

  // Everything, or until the end of the file; changes `parts`. With kOwnPosition operations take turns.
  io_result transfer(direction d, iovec* parts, std::size_t count, std::int64_t offset,
                     const wait_limit& limit);
  // The same, but one step suffices.
  io_result transfer_some(direction d, iovec* parts, std::size_t count, std::int64_t offset,
                          const wait_limit& limit);

  int sync(bool data_only, const wait_limit& limit);
  int fallocate(int mode, std::int64_t offset, std::int64_t size, const wait_limit& limit);
  // The new position, or minus an error.
  std::int64_t seek(std::int64_t offset, int whence);
  int set_deadline(bool read, bool write, std::int64_t when) noexcept;

  // f(fd) while it is not closed, as a call that may block. f returns 0 or an errno; EINTR: again. It may throw.
  template <class F>
  int with_fd(F&& f);

  int raw() const noexcept { return fd_; }
  bool closed() const noexcept { return lock_.closed(); }
  bool appends() const noexcept { return appends_; }

 private:
  static int error_of(fd_lock<fd_gate>::outcome o);
  direction turn(direction d) const { return seekable_ ? direction::read : d; }
  int begin(direction d, std::int64_t offset);
  void end(direction d, std::int64_t offset);
  std::int64_t once(direction d, iovec* parts, std::size_t count, std::int64_t offset,
                    const wait_limit& limit);
  std::int64_t by_poller(direction d, const iovec& part, const wait_limit& limit);
  std::int64_t by_thread(direction d, const iovec* parts, int count, std::int64_t offset);
  bool by_ring(direction d, iovec* parts, int count, std::int64_t offset, const wait_limit& limit,
               std::int64_t* result);
  int by_ring_or_thread(ring_op& op, const wait_limit& limit, int (*call)(const ring_op&));
  io_result steps(direction d, iovec* parts, std::size_t count, std::int64_t offset,
                  const wait_limit& limit, bool all);
  void leave();
  void destroy();

  const int fd_;
  bool seekable_ = true;
  bool direct_ = false;             // past the page cache
  bool waits_[2] = {false, false};  // every call waits for the disk: O_DIRECT, O_SYNC
  bool appends_ = false;
  atomic<bool> knows_[2] = {};     // the kernel can say whether it would have to wait
  std::unique_ptr<io_fd> polled_;  // if it can be
  fd_lock<fd_gate> lock_;
  completion<waiter> gone_;
  int close_error_ = 0;
};

template <class F>
int file_fd::with_fd(F&& f) {
  if (const int error = error_of(lock_.enter()); error != 0) {
    return error;
  }
  struct reference {
    file_fd& of;
    ~reference() { of.leave(); }
  } const held{*this};
  const detail::blocking_call here(false);
  int result = 0;
  do {
    result = f(fd_);
  } while (result == EINTR);
  return result;
}

}  // namespace weft::rt
