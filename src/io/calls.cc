// See calls.h.
#include "io/calls.h"

#include <bit>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fiber/sanitizer.h"
#include "os/test_hooks.h"

namespace weft::rt::calls {

namespace {

enum : std::int64_t {
  kInterrupt = 1,
  kAgain = 2,
  kShort = 4,
  kNoBuffers = 8,
  kReset = 16,
  kRefused = 32,
  kNoAddress = 64,
  kAborted = 128,
  kNoDescriptor = 256,
  kNoFile = 512,
  kFull = 1024,
  kNoMemory = 2048,
  kProtocol = 4096,
  kForbidden = 8192,
  kNetDown = 16384,
  kBroken = 32768,

  kReads = kInterrupt | kAgain | kShort | kReset | kRefused,
  kWrites = kReads | kNoBuffers,
  kFiles = kInterrupt | kShort | kBroken,
  kPolls = kInterrupt | kAgain,
  kAccepts = kInterrupt | kAgain | kNoBuffers | kAborted | kNoDescriptor | kNoFile | kNoMemory |
             kProtocol | kForbidden | kNetDown,
  kConnects = kInterrupt | kReset | kRefused | kNoAddress | kFull,
};

constinit atomic<std::uint64_t> dice{0x9e3779b97f4a7c15};
constinit atomic<fault_witness> witness{nullptr};

std::uint64_t roll() {
  // order: IF0 relaxed, a random number
  std::uint64_t x = dice.fetch_add(0x9e3779b97f4a7c15, WEFT_ORDER(IF0, relaxed));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

int option(int fd, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}
bool keeps_messages(int fd) {
  const int type = option(fd, SO_TYPE);
  return type != -1 && type != SOCK_STREAM;
}

// 0: none. Otherwise an errno to fail with, or, with *n smaller than before, none either.
[[gnu::noinline, gnu::cold]] int fault(call what, source s, std::size_t* n, std::int64_t legal,
                                       std::int64_t how) {
  constexpr std::int64_t kKinds = 1'000'000;
  const std::uint64_t r = roll();
  if (r % static_cast<std::uint64_t>(how % kKinds) != 0) {
    return 0;
  }
  std::int64_t ways = legal & (how / kKinds);
  if (what == call::read || what == call::write) {
    ways &= s.fd >= 0 && keeps_messages(s.fd) ? ~kShort : ~kRefused;
    ways &= *n > 1 ? ~0 : ~kShort;
  }
  os::test_hook& left = os::test_hooks.io_faults_left;
  if (ways == 0 || (left.get() >= 0 && !left.count_down())) {
    return 0;
  }
  for (int others = static_cast<int>((r >> 32) % std::popcount(static_cast<std::uint64_t>(ways)));
       others > 0; --others) {
    ways &= ways - 1;
  }
  int error = 0;
  switch (ways & -ways) {
    case kInterrupt: error = EINTR; break;
    case kAgain:
    case kFull: error = EAGAIN; break;
    case kNoBuffers: error = ENOBUFS; break;
    case kReset: error = ECONNRESET; break;
    case kRefused: error = ECONNREFUSED; break;
    case kNoAddress: error = EADDRNOTAVAIL; break;
    case kAborted: error = ECONNABORTED; break;
    case kNoDescriptor: error = EMFILE; break;
    case kNoFile: error = ENFILE; break;
    case kNoMemory: error = ENOMEM; break;
    case kProtocol: error = EPROTO; break;
    case kForbidden: error = EPERM; break;
    case kNetDown: error = ENETDOWN; break;
    case kBroken: error = EIO; break;
    default: *n = 1 + (r >> 40) % (*n - 1); break;
  }
  if (s.pd != nullptr && (error == 0 || error == EAGAIN)) {
    poller_rearm(s.fd, s.pd->name());  // a short read means drained (fd.cc): this one does not
  }
  // order: IF0 relaxed, set before there are faults
  if (const fault_witness w = witness.load(WEFT_ORDER(IF0, relaxed)); w != nullptr) {
    w(what, s.fd, error);
  }
  return error;
}

bool fails(call what, source s, std::size_t* n, std::int64_t legal, int* error) {
  const std::int64_t how = os::test_hooks.io_faults.get();
  if (how == 0) [[likely]] {
    return false;
  }
  *error = fault(what, s, n, legal, how);
  return *error != 0;
}

template <class N>
[[gnu::always_inline]] inline N result(N n) {
  return n < 0 ? -last_errno() : n;
}

// The frequent calls. libc's are cancellation points, which costs two atomic operations each in a process with threads, a
// thirtieth of what a small request costs in all; and these never wait. But sanitizers know of libc's only what is read
// and written, and who comes after whom.
constexpr bool kByLibc = WEFT_TSAN != 0 || WEFT_ASAN != 0;

ssize_t kernel_read(int fd, void* to, std::size_t n) {
  return kByLibc ? ::read(fd, to, n) : ::syscall(SYS_read, fd, to, n);
}
ssize_t kernel_write(int fd, const void* from, std::size_t n) {
  return kByLibc ? ::write(fd, from, n) : ::syscall(SYS_write, fd, from, n);
}
ssize_t kernel_recv(int fd, void* to, std::size_t n) {
  return kByLibc ? ::recv(fd, to, n, 0) : ::syscall(SYS_recvfrom, fd, to, n, 0, nullptr, nullptr);
}
ssize_t kernel_send(int fd, const void* from, std::size_t n) {
  return kByLibc ? ::send(fd, from, n, MSG_NOSIGNAL)
                 : ::syscall(SYS_sendto, fd, from, n, MSG_NOSIGNAL, nullptr, 0);
}
ssize_t kernel_recvmsg(int fd, msghdr* m, int flags) {
  return kByLibc ? ::recvmsg(fd, m, flags) : ::syscall(SYS_recvmsg, fd, m, flags);
}
ssize_t kernel_sendmsg(int fd, const msghdr* m) {
  return kByLibc ? ::sendmsg(fd, m, MSG_NOSIGNAL) : ::syscall(SYS_sendmsg, fd, m, MSG_NOSIGNAL);
}

}  // namespace

[[gnu::noinline]] WEFT_NO_TSAN int last_errno() noexcept { return errno; }

void seed_faults(std::uint64_t seed) noexcept {
  dice.store(seed, WEFT_ORDER(IF0, relaxed));  // order: IF0 relaxed, as above
}
void watch_faults(fault_witness w) noexcept {
  witness.store(w, WEFT_ORDER(IF0, relaxed));  // order: IF0 relaxed, as above
}

[[gnu::noinline]] ssize_t read(source s, void* to, std::size_t n) {
  int error = 0;
  if (fails(call::read, s, &n, kReads, &error)) {
    return -error;
  }
  return result(kernel_read(s.fd, to, n));
}

[[gnu::noinline]] ssize_t write(source s, const void* from, std::size_t n) {
  int error = 0;
  if (fails(call::write, s, &n, kWrites, &error)) {
    return -error;
  }
  return result(kernel_write(s.fd, from, n));
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
  if (fails(call::read, s, &n, kReads, &error)) {
    return -error;
  }
  return result(kernel_recv(s.fd, to, n));
}

[[gnu::noinline]] ssize_t send(source s, const void* from, std::size_t n) {
  int error = 0;
  if (fails(call::write, s, &n, kWrites, &error)) {
    return -error;
  }
  return result(kernel_send(s.fd, from, n));
}

namespace {

// The first bytes of a message's parts: a short read or write of it.
struct message_front {
  static constexpr std::size_t kParts = 16;
  iovec parts[kParts];
  std::size_t count = 0;

  // True: *error. Otherwise at least one part, if there were any.
  bool fails(call what, source s, const msghdr& m, int* error) {
    std::size_t whole = 0;
    for (std::size_t i = 0; i < m.msg_iovlen; ++i) {
      whole += m.msg_iov[i].iov_len;
    }
    std::size_t n = whole;
    if (calls::fails(what, s, &n, what == call::read ? kReads : kWrites, error)) {
      return true;
    }
    for (; n < whole && n > 0 && count < kParts; ++count) {
      parts[count] = m.msg_iov[count];
      parts[count].iov_len = parts[count].iov_len < n ? parts[count].iov_len : n;
      n -= parts[count].iov_len;
    }
    return false;
  }
};

// f(parts, count) of all of them, or of a front, or a fault.
template <class F>
ssize_t vectored(call what, source s, const iovec* parts, std::size_t count, F f) {
  message_front front;
  if (os::test_hooks.io_faults.get() != 0) [[unlikely]] {
    msghdr m{};
    m.msg_iov = const_cast<iovec*>(parts);
    m.msg_iovlen = count;
    int error = 0;
    if (front.fails(what, s, m, &error)) {
      return -error;
    }
    if (front.count > 0) {
      parts = front.parts;
      count = front.count;
    }
  }
  return result(f(s.fd, parts, static_cast<int>(count)));
}

[[gnu::noinline, gnu::cold]] ssize_t faulty_recvmsg(source s, msghdr* m, int flags) {
  message_front front;
  int error = 0;
  if (front.fails(call::read, s, *m, &error)) {
    return -error;
  }
  const msghdr whole = *m;
  if (front.count > 0) {
    m->msg_iov = front.parts;
    m->msg_iovlen = front.count;
  }
  const ssize_t got = result(kernel_recvmsg(s.fd, m, flags));
  m->msg_iov = whole.msg_iov;
  m->msg_iovlen = whole.msg_iovlen;
  return got;
}

[[gnu::noinline, gnu::cold]] ssize_t faulty_sendmsg(source s, msghdr m) {
  message_front front;
  int error = 0;
  if (front.fails(call::write, s, m, &error)) {
    return -error;
  }
  if (front.count > 0) {
    m.msg_iov = front.parts;
    m.msg_iovlen = front.count;
  }
  return result(kernel_sendmsg(s.fd, &m));
}

}  // namespace

[[gnu::noinline]] ssize_t readv(source s, const iovec* parts, std::size_t count) {
  return vectored(call::read, s, parts, count, ::readv);
}

[[gnu::noinline]] ssize_t writev(source s, const iovec* parts, std::size_t count) {
  return vectored(call::write, s, parts, count, ::writev);
}

[[gnu::noinline]] ssize_t writev_quietly(source s, const iovec* parts, std::size_t count) {
  return quietly([&] { return calls::writev(s, parts, count); });
}

[[gnu::noinline]] ssize_t recvmsg(source s, msghdr* m, int flags) {
  flags |= MSG_CMSG_CLOEXEC;
  if (os::test_hooks.io_faults.get() != 0) [[unlikely]] {
    return faulty_recvmsg(s, m, flags);
  }
  return result(kernel_recvmsg(s.fd, m, flags));
}

[[gnu::noinline]] ssize_t sendmsg(source s, const msghdr* m) {
  const ssize_t sent =
      os::test_hooks.io_faults.get() != 0 ? faulty_sendmsg(s, *m) : result(kernel_sendmsg(s.fd, m));
  if (sent == -EAGAIN) [[unlikely]] {
    os::test_hooks.sends_refused.count_up();
  }
  return sent;
}

[[gnu::noinline]] ssize_t sendfile(source s, int from, std::int64_t* offset, std::size_t n) {
  int error = 0;
  if (fails(call::write, s, &n, kWrites, &error)) {
    return -error;
  }
  off_t at = *offset;
  const ssize_t done = quietly([&] { return result(::sendfile(s.fd, from, &at, n)); });
  *offset = at;
  return done;
}

[[gnu::noinline]] int poll(source s, short events) {
  std::size_t n = 1;
  int error = 0;
  if (fails(call::poll, s, &n, kPolls, &error)) {
    return -error;
  }
  pollfd p{s.fd, events, 0};
  const int ready = result(::poll(&p, 1, 0));
  return ready > 0 ? 0 : ready == 0 ? -EAGAIN : ready;
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
  if (fails(call::accept, s, &n, kAccepts, &error)) {
    return -error;
  }
  return result(::accept4(s.fd, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

[[gnu::noinline]] int connect(int fd, const sockaddr* to, socklen_t size) {
  std::size_t n = 1;
  int error = 0;
  if (!fails(call::connect, {fd, nullptr}, &n, kConnects, &error)) [[likely]] {
    return result(::connect(fd, to, size));
  }
  if (error != EINTR || option(fd, SO_TYPE) != SOCK_STREAM || option(fd, SO_DOMAIN) == AF_UNIX) {
    return -error;
  }
  const int begun = result(::connect(fd, to, size));
  return begun == -EINPROGRESS ? -EINTR : begun;
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
  if (fails(writes ? call::write : call::read, {-1, nullptr}, n, kFiles, error)) {
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

[[gnu::noinline]] int close(int fd) {
  const int done = result(::close(fd));
  const auto error = static_cast<int>(os::test_hooks.close_error.get());
  return error == 0 ? done : -error;
}

}  // namespace weft::rt::calls
