// See calls.h.
#include "io/calls.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <sys/sendfile.h>
#include <unistd.h>

#include "os/test_hooks.h"

namespace weft::rt::calls {

namespace {

enum : std::int64_t { kInterrupt = 1, kAgain = 2, kShort = 4, kNoBuffers = 8, kReset = 16 };

constinit atomic<std::uint64_t> dice{0x9e3779b97f4a7c15};

std::uint64_t roll() {
  // order: IF0 relaxed, a random number
  std::uint64_t x = dice.fetch_add(0x9e3779b97f4a7c15, WEFT_ORDER(IF0, relaxed));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// 0: none. Otherwise an errno to fail with, or, with *n smaller than before, none either.
[[gnu::noinline, gnu::cold]] int fault(source s, std::size_t* n, bool writes, std::int64_t how) {
  constexpr std::int64_t kKinds = 1'000'000;
  const std::uint64_t r = roll();
  if (r % static_cast<std::uint64_t>(how % kKinds) != 0) {
    return 0;
  }
  const std::int64_t wanted = std::int64_t{1} << ((r >> 32) % 5);
  switch (wanted & (how / kKinds)) {
    case kInterrupt: return EINTR;
    case kAgain:
      if (s.pd == nullptr) {
        return 0;
      }
      poller_rearm(s.fd, s.pd->name());
      return EAGAIN;
    case kShort:
      *n = *n > 1 ? 1 + (r >> 40) % (*n - 1) : *n;
      if (s.pd != nullptr) {
        poller_rearm(s.fd, s.pd->name());  // a short read means drained (fd.cc): this one does not
      }
      return 0;
    case kNoBuffers: return writes ? ENOBUFS : 0;
    case kReset: return ECONNRESET;
    default: return 0;
  }
}

bool fails(source s, std::size_t* n, bool writes, int* error) {
  const std::int64_t how = os::test_hooks.io_faults.get();
  if (how == 0) [[likely]] {
    return false;
  }
  *error = fault(s, n, writes, how);
  return *error != 0;
}

template <class N>
[[gnu::always_inline]] inline N result(N n) {
  return n < 0 ? -last_errno() : n;
}

}  // namespace

[[gnu::noinline]] WEFT_NO_TSAN int last_errno() noexcept { return errno; }

[[gnu::noinline]] ssize_t read(source s, void* to, std::size_t n) {
  int error = 0;
  if (fails(s, &n, false, &error)) {
    return -error;
  }
  return result(::read(s.fd, to, n));
}

[[gnu::noinline]] ssize_t write(source s, const void* from, std::size_t n) {
  int error = 0;
  if (fails(s, &n, true, &error)) {
    return -error;
  }
  return result(::write(s.fd, from, n));
}

namespace {

// A write to what is broken sends SIGPIPE to the thread, unless the call can be told not to. It is held back, and
// taken off if it was not pending before.
template <class F>
ssize_t quietly(F call) {
  sigset_t pipe, old, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  const ssize_t done = call();
  if (done == -EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec now{};
    while (sigtimedwait(&pipe, nullptr, &now) < 0 && last_errno() == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return done;
}

}  // namespace

[[gnu::noinline]] ssize_t write_quietly(source s, const void* from, std::size_t n) {
  return quietly([&] { return calls::write(s, from, n); });
}

[[gnu::noinline]] ssize_t recv(source s, void* to, std::size_t n) {
  int error = 0;
  if (fails(s, &n, false, &error)) {
    return -error;
  }
  return result(::recv(s.fd, to, n, 0));
}

[[gnu::noinline]] ssize_t send(source s, const void* from, std::size_t n) {
  int error = 0;
  if (fails(s, &n, true, &error)) {
    return -error;
  }
  return result(::send(s.fd, from, n, MSG_NOSIGNAL));
}

[[gnu::noinline]] ssize_t recvmsg(source s, msghdr* m, int flags) {
  int error = 0;
  std::size_t n = 1;
  if (fails(s, &n, false, &error)) {
    return -error;
  }
  return result(::recvmsg(s.fd, m, flags | MSG_CMSG_CLOEXEC));
}

[[gnu::noinline]] ssize_t sendmsg(source s, const msghdr* m) {
  int error = 0;
  std::size_t n = 1;
  if (fails(s, &n, true, &error)) {
    return -error;
  }
  const ssize_t sent = result(::sendmsg(s.fd, m, MSG_NOSIGNAL));
  if (sent == -EAGAIN) [[unlikely]] {
    os::test_hooks.sends_refused.count_up();
  }
  return sent;
}

[[gnu::noinline]] ssize_t sendfile(source s, int from, std::int64_t* offset, std::size_t n) {
  int error = 0;
  if (fails(s, &n, true, &error)) {
    return -error;
  }
  off_t at = *offset;
  const ssize_t done = quietly([&] { return result(::sendfile(s.fd, from, &at, n)); });
  *offset = at;
  return done;
}

[[gnu::noinline]] int accept(source s, sockaddr* peer, socklen_t* size) {
  if (os::test_hooks.accept_emfile_count.get() != 0 &&
      os::test_hooks.accept_emfile_count.count_down()) {
    return -EMFILE;
  }
  if (os::test_hooks.accept_aborted_count.get() != 0 &&
      os::test_hooks.accept_aborted_count.count_down()) {
    return -ECONNABORTED;
  }
  std::size_t n = 1;
  int error = 0;
  if (fails(s, &n, false, &error) && error != ECONNRESET) {
    return -error;
  }
  return result(::accept4(s.fd, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

[[gnu::noinline]] int connect(int fd, const sockaddr* to, socklen_t size) {
  return result(::connect(fd, to, size));
}

namespace {

// The first part, or less of it.
struct shortened {
  iovec one;
  const iovec* parts;
  int count;
};

// As fails(). What looks as if it were for O_DIRECT is shortened to whole sectors.
bool part_fails(const void* at, bool writes, std::size_t* n, int* error) {
  constexpr std::size_t kSector = 4096;
  const std::size_t whole = *n;
  if (fails({-1, nullptr}, n, writes, error)) {
    return true;
  }
  if ((reinterpret_cast<std::uintptr_t>(at) | whole) % kSector == 0) {
    *n = *n < kSector ? whole : *n - *n % kSector;
  }
  return false;
}

// For files, whose parts may be many.
bool file_fails(shortened& s, bool writes, bool nowait, int* error) {
  if (nowait && os::test_hooks.deny_nowait.get() != 0) {
    *error = EOPNOTSUPP;
    return true;
  }
  if (nowait && os::test_hooks.force_miss.get() != 0) {
    *error = EAGAIN;
    return true;
  }
  std::size_t n = s.count > 0 ? s.parts->iov_len : 0;
  if (part_fails(s.count > 0 ? s.parts->iov_base : nullptr, writes, &n, error)) {
    return true;
  }
  if (s.count > 0 && n != s.parts->iov_len) {
    s.one = {s.parts->iov_base, n};
    s.parts = &s.one;
    s.count = 1;
  }
  return false;
}

}  // namespace

[[gnu::noinline]] ssize_t readv_at(int fd, const iovec* parts, int count, std::int64_t offset,
                                   bool nowait) {
  int error = 0;
  shortened s{{}, parts, count};
  if (file_fails(s, false, nowait, &error)) {
    return -error;
  }
  return result(::preadv2(fd, s.parts, s.count, offset, nowait ? RWF_NOWAIT : 0));
}

[[gnu::noinline]] ssize_t writev_at(int fd, const iovec* parts, int count, std::int64_t offset,
                                    bool nowait) {
  int error = 0;
  shortened s{{}, parts, count};
  if (file_fails(s, true, nowait, &error)) {
    return -error;
  }
  return result(::pwritev2(fd, s.parts, s.count, offset, nowait ? RWF_NOWAIT : 0));
}

int chance(const void* at, bool writes, std::size_t* n) {
  int error = 0;
  return part_fails(at, writes, n, &error) ? error : 0;
}

[[gnu::noinline]] int close(int fd) { return result(::close(fd)); }

}  // namespace weft::rt::calls
