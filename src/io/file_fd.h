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
#include "io/fd.h"
#include "poll/ring.h"
#include "sched/timed.h"

namespace weft::rt {

class file_fd final : public shared_fd {
 public:
  // Takes fd over. What can be polled (a terminal, a FIFO) is made non-blocking. If there is no memory (bad_alloc) nothing
  // has happened to fd.
  explicit file_fd(int fd);
  // Requires: nobody uses it any more. Closes it if that has not happened yet.
  ~file_fd() override { close(); }

  // errc::closed_file the second time; or what close(2) says. Whoever waits in the poller fails; returns when all
  // are out, and whoever closes it, too.
  int close() noexcept;

  enum class amount : std::uint8_t {
    some,  // one step suffices
    all,   // everything, or until the end of the file
    full,  // … which is an error then
  };
  // Changes `parts`. With kOwnPosition operations take turns; the limit is one of the wait for it, too.
  io_result transfer(direction d, amount how, iovec* parts, std::size_t count, std::int64_t offset,
                     const wait_limit& limit, fd_guest* g = nullptr);

  int sync(bool data_only, const wait_limit& limit, fd_guest* g = nullptr);
  int fallocate(int mode, std::int64_t offset, std::int64_t size, const wait_limit& limit,
                fd_guest* g = nullptr);
  // The new position, or minus an error.
  std::int64_t seek(std::int64_t offset, int whence, fd_guest* g = nullptr);
  int set_deadline(bool read, bool write, std::int64_t when, fd_guest* g = nullptr);

  // f(fd) while it is not closed, as a call that may block. f returns 0 or an errno; EINTR: again. It may throw.
  template <class F>
  int with_fd(F&& f, fd_guest* g = nullptr);

  int raw() const noexcept { return fd_; }
  bool appends() const noexcept { return appends_; }

 private:
  direction turn(direction d) const { return seekable_ ? direction::read : d; }
  int begin_at(direction d, std::int64_t offset, const wait_limit& limit, fd_guest* g);
  void end_at(direction d, std::int64_t offset, bool failed, fd_guest* g);
  std::int64_t once(direction d, iovec* parts, std::size_t count, std::int64_t offset,
                    const wait_limit& limit);
  std::int64_t by_poller(direction d, const iovec& part, const wait_limit& limit);
  std::int64_t by_thread(direction d, const iovec* parts, int count, std::int64_t offset);
  bool by_ring(direction d, iovec* parts, int count, std::int64_t offset, const wait_limit& limit,
               std::int64_t* result);
  int by_ring_or_thread(ring_op& op, const wait_limit& limit, int (*call)(const ring_op&),
                        fd_guest* g);
  io_result steps(direction d, amount how, iovec* parts, std::size_t count, std::int64_t offset,
                  const wait_limit& limit);
  void shut() noexcept override;

  const int fd_;
  bool seekable_ = true;
  bool direct_ = false;             // past the page cache
  bool waits_[2] = {false, false};  // every call waits for the disk: O_DIRECT, O_SYNC
  bool appends_ = false;
  atomic<bool> knows_[2] = {};     // the kernel can say whether it would have to wait
  std::unique_ptr<io_fd> polled_;  // if it can be
  int close_error_ = 0;            // what close(2) has said, for the first closer
};

template <class F>
int file_fd::with_fd(F&& f, fd_guest* g) {
  if (const int error = begin(g); error != 0) {
    return error;
  }
  struct visit {
    file_fd& of;
    fd_guest* g;
    int result = 0;
    ~visit() { of.end(result != 0, g); }
  } v{*this, g};
  const detail::blocking_call here(false);
  do {
    v.result = f(fd_);
  } while (v.result == EINTR);
  return v.result;
}

}  // namespace weft::rt
