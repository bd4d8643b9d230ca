// A descriptor with everything that makes it usable by many goroutines: whose turn it is, how to wait, how
// to close. Sockets, pipes and whatever else can be polled are thin over it.
//
// Closing. close() returns when everybody who was inside is out, and then the object may be destroyed at once
// (fd_closing.h). So nobody touches it without a reference: an operation that failed leaves its own to a guest, if there
// is one, who has still to say what has failed, or to try again. Whoever closes a second time, or destroys it, waits for
// the first.
//
// An error is a positive number: an errno, or kOwn plus one of errc. Where a result may also be a number
// of bytes, errors are negative.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include <weft/buffer.h>

#include "io/calls.h"
#include "io/fd_closing.h"
#include "io/poll_wait.h"
#include "sync/sleeper.h"

namespace weft::rt {

// The gate of fd_lock and fd_closing: counts, and lets one go for each unit that is released.
class fd_gate {
 public:
  void acquire();
  // False: the limit came, and leave() said true.
  template <class Leave>
  [[gnu::noinline]] bool acquire(const wait_limit& limit, Leave&& leave) {
    struct env {
      bool sleep(sleeper& n) { return sleep_until(n, wait_reason::semacquire, until); }
      bool leave() { return may_leave(); }
      void settle(sleeper& n) { rt::settle(n, wait_reason::semacquire); }
      void rouse(sleeper* n) { rt::rouse(n); }
      const wait_limit& until;
      Leave& may_leave;
    };
    sleeper n;
    env e{limit, leave};
    return pass_gate_until(units_, n, e);
  }
  void release(std::uint32_t units = 1);

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
  messages,  // … and what a write is given is one message, also if it is empty: UDP, Unix datagrams
  pipe,      // written without MSG_NOSIGNAL
};

// Standard output or standard error, if it is not a socket: when nobody reads it any more a write may send SIGPIPE, as for
// any member of a pipeline. Of everything else a broken pipe is an error. Go: epipecheck
bool is_end_of_pipeline(int fd) noexcept;

class shared_fd;

// Somebody who comes back to the descriptor after an operation, if that has failed: its reference is kept here for as long.
class fd_guest {
 public:
  fd_guest() noexcept = default;
  inline ~fd_guest();
  fd_guest(const fd_guest&) = delete;
  fd_guest& operator=(const fd_guest&) = delete;

 private:
  friend class shared_fd;
  shared_fd* at_ = nullptr;
};

// Who uses a descriptor, and who closes it: what all kinds have in common.
class shared_fd {
 public:
  shared_fd(const shared_fd&) = delete;
  shared_fd& operator=(const shared_fd&) = delete;

  bool closed() const noexcept { return closing_.lock().closed(); }
  // How many are inside; of interest to tests.
  int users() const noexcept { return closing_.lock().references(); }

 protected:
  // What an operation on a closed one says.
  explicit shared_fd(errc when_closed) noexcept : when_closed_(own_error(when_closed)) {}
  virtual ~shared_fd() = default;

  // Before an operation: 0, or an error, if it is closed.
  int begin(direction d, fd_guest* g) {
    const outcome o = closing_.lock().lock(d);
    return o == outcome::held ? 0 : refused(o, g);
  }
  // … or if the limit comes before its turn.
  int begin(direction d, const wait_limit& limit, fd_guest* g) {
    const outcome o = closing_.lock().lock(d, limit);
    return o == outcome::held ? 0 : refused(o, g, limit);
  }
  int begin(fd_guest* g) {
    const outcome o = closing_.lock().enter();
    return o == outcome::held ? 0 : refused(o, g);
  }
  // … and after it.
  void end(direction d, bool failed, fd_guest* g) {
    const bool keep = failed && g != nullptr && g->at_ == nullptr;
    if (closing_.lock().unlock(d, keep)) [[unlikely]] {
      destroy();
    }
    if (keep) [[unlikely]] {
      g->at_ = this;
    }
  }
  void end(bool failed, fd_guest* g) {
    if (failed && g != nullptr && g->at_ == nullptr) {
      g->at_ = this;
    } else {
      leave();
    }
  }

  // True: the caller closes it, has a reference, and calls finish_close(). False: somebody else has closed it.
  [[nodiscard]] bool begin_close() noexcept;
  // Returns when all others are out and it is closed; nobody touches it any more. last() is called then, while nobody can
  // destroy it yet.
  template <class F>
  void finish_close(F&& last) noexcept {
    closing_.finish_close([this] { shut(); }, last);
  }
  int closed_error() const noexcept { return when_closed_; }

 private:
  friend class fd_guest;
  using outcome = fd_lock<fd_gate>::outcome;

  // Nobody uses it any more: closes it. Called once.
  virtual void shut() noexcept = 0;
  void destroy() noexcept;
  void leave() {
    if (closing_.lock().leave()) [[unlikely]] {
      destroy();
    }
  }
  int refused(outcome o, fd_guest* g, const wait_limit& limit = {});

  const int when_closed_;
  fd_closing<fd_gate> closing_;
};

inline fd_guest::~fd_guest() {
  if (at_ != nullptr) [[unlikely]] {
    at_->leave();
  }
}

class io_fd final : public shared_fd {
 public:
  // What must be done before one can be made of fd: 0, or an errno if it cannot be polled.
  static int make_pollable(int fd, bool set_nonblocking, poll_desc** pd) noexcept;
  // Takes fd over; one that is not owned is not closed.
  io_fd(int fd, poll_desc* pd, fd_kind kind, bool owned = true) noexcept
      : shared_fd(errc::closed),
        fd_(fd),
        pd_(pd),
        kind_(kind),
        owned_(owned),
        raises_(kind == fd_kind::pipe && is_end_of_pipeline(fd)),
        trusts_(kind == fd_kind::stream) {}
  // Requires: nobody uses it any more. Closes it if that has not happened yet.
  ~io_fd() override { close(); }

  // errc::closed the second time; or what close(2) says. Whoever is in an operation fails; returns when they are out, and
  // whoever closes it, too.
  int close() noexcept {
    return close([] {}, [] {});
  }
  // first() before that, if nobody else has closed it: once, and nobody can destroy it meanwhile; nor in failed(), after
  // close(2) has.
  template <class First, class Failed>
  int close(First&& first, Failed&& failed) noexcept;

  io_result read_some(void* to, std::size_t n, fd_guest* g = nullptr);
  // One call, as far as it gets.
  io_result read_parts(iovec* parts, std::size_t count, fd_guest* g = nullptr);
  io_result read_full(void* to, std::size_t n, fd_guest* g = nullptr);
  io_result write_some(const void* from, std::size_t n, fd_guest* g = nullptr);
  io_result write_parts(iovec* parts, std::size_t count, fd_guest* g = nullptr);
  io_result write_all(const void* from, std::size_t n, fd_guest* g = nullptr);
  // All of it; changes `parts`.
  io_result write_vector(iovec* parts, std::size_t count, fd_guest* g = nullptr);

  // Repeats f(source) until it does not say -EAGAIN, waiting in between, and before that for its turn. Its result, or minus
  // an error. The limit ends both.
  template <class F>
  std::int64_t attempt(direction d, const wait_limit& limit, F&& f, fd_guest* g = nullptr);
  // The same for what the poller's news says nothing about: asks again after a while, and after a longer one.
  template <class F>
  std::int64_t attempt_by_time(direction d, F&& f, fd_guest* g = nullptr);

  // Waits until then, whatever news there is: 0; or an error, if it is closed or its deadline comes before.
  int pause(direction d, std::int64_t until, fd_guest* g = nullptr);
  int set_deadline(bool read, bool write, std::int64_t when, fd_guest* g = nullptr);
  // f(fd) while it is not closed. Its result, an error.
  template <class F>
  int with_fd(F&& f, fd_guest* g = nullptr);

  int raw() const noexcept { return fd_; }
  // What one call reads or writes is one message: parts that are left out are lost.
  bool keeps_messages() const noexcept { return kind_ == fd_kind::messages; }
  // A write to it may send SIGPIPE.
  bool raises() const noexcept { return raises_; }
  // Somebody else may use the descriptor from now on: what we know of it may not be true.
  void distrust() noexcept;

 private:
  static int error_of(readiness r);
  calls::source source() const { return {fd_, pd_}; }
  // Reads up to n bytes with call(), which says how many, or minus an errno. Requires: the direction.
  template <class F>
  io_result read_held(std::size_t n, F&& call);
  template <class F>
  io_result read_by(std::size_t n, F&& call, fd_guest* g);
  template <class F, class Wait>
  std::int64_t attempt_with(direction d, const wait_limit& limit, F&& f, Wait&& wait, fd_guest* g);
  // A while, whatever news there is: ready then. *pause grows.
  readiness wait_a_while(direction d, std::int64_t* pause);
  // As much of the bytes as the kernel takes, or minus an errno. There are some, unless it keeps messages.
  std::int64_t write_once(calls::source s, const void* from, std::size_t n);
  std::int64_t write_once(calls::source s, iovec* parts, std::size_t count);
  void evict_all() noexcept;
  void shut() noexcept override;

  int fd_;
  poll_desc* pd_;
  const fd_kind kind_;
  const bool owned_;
  const bool raises_;
  atomic<bool> trusts_;
  drain_mark drain_;     // the reader's
  int close_error_ = 0;  // what close(2) has said, for the first closer
};

template <class First, class Failed>
int io_fd::close(First&& first, Failed&& failed) noexcept {
  const int already = closed_error();
  if (!begin_close()) {
    return already;  // whoever was first may have let the object go
  }
  first();
  evict_all();
  int error = 0;
  finish_close([&] {
    error = close_error_;
    if (error != 0) [[unlikely]] {
      failed();
    }
  });
  return error;
}

template <class F, class Wait>
std::int64_t io_fd::attempt_with(direction d, const wait_limit& limit, F&& f, Wait&& wait,
                                 fd_guest* g) {
  if (const int error = begin(d, limit, g); error != 0) {
    return -error;
  }
  if (d == direction::read) {
    drain_.read_in_another_way();
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
    if (const readiness r = wait(); r != readiness::ready) {
      n = -error_of(r);
      break;
    }
  }
  end(d, n < 0, g);
  return n;
}

template <class F>
std::int64_t io_fd::attempt(direction d, const wait_limit& limit, F&& f, fd_guest* g) {
  return attempt_with(
      d, limit, f, [&] { return wait_ready(*pd_, d, limit); }, g);
}

template <class F>
std::int64_t io_fd::attempt_by_time(direction d, F&& f, fd_guest* g) {
  std::int64_t pause = 0;
  return attempt_with(
      d, {}, f, [&] { return wait_a_while(d, &pause); }, g);
}

template <class F>
int io_fd::with_fd(F&& f, fd_guest* g) {
  if (const int error = begin(g); error != 0) {
    return error;
  }
  const int result = f(fd_);
  end(result != 0, g);
  return result;
}

}  // namespace weft::rt
