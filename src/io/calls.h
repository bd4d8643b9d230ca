// The system calls of I/O, one function each.
//
// They return what the kernel does, or -errno. Not inlined, because errno belongs to a thread and its
// address is cached by compilers: code that tries, parks and tries again may be on another thread after
// the park. For other calls there is last_errno(), which is not inlined either, and which TSan does not see: to
// it errno belongs to the thread, and not to the goroutine.
//
// Faults for tests (os/test_hooks.h, `io_faults`): 1000000 * kinds + n makes one call in n fail, by
// chance, in one of these ways, added up, as far as the call may fail so:
//   1 EINTR                                  32 ECONNREFUSED (connect, messages)
//   2 EAGAIN (but for connect)               64 EADDRNOTAVAIL (connect)
//   4 short (bytes: of messages none is)    128 ECONNABORTED (accept)
//   8 ENOBUFS (writes, accept)              256 EMFILE (accept)
//  16 ECONNRESET (but for accept)           512 ENFILE (accept)
//                                          1024 EAGAIN (connect)
//   and of accept 2048 ENOMEM, 4096 EPROTO, 8192 EPERM, 16384 ENETDOWN; of files 32768 EIO
// The call is not made; but a TCP connect() that is interrupted goes on. News from the poller follows 2 and 4, since there
// was something left to do. `io_faults_left`: after so many there are no more; without it calls that are repeated have to
// succeed now and then (n > 1). Which calls fail follows from seed_faults(), and from the order of the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "poll/poll_desc.h"

namespace weft::rt::calls {

int last_errno() noexcept;

enum class call : std::uint8_t { read, write, accept, connect, poll };

// For tests: the same numbers by chance again; and who is told of each fault, where the call was made, with its errno, or
// 0 if it was short. Null: nobody.
void seed_faults(std::uint64_t seed) noexcept;
using fault_witness = void (*)(call what, int fd, int error);
void watch_faults(fault_witness w) noexcept;

// For EAGAIN by chance.
struct source {
  int fd;
  const poll_desc* pd;  // null: it is not polled
};

ssize_t read(source s, void* to, std::size_t n);
ssize_t write(source s, const void* from, std::size_t n);  // a signal, if it is a broken pipe
ssize_t write_quietly(source s, const void* from, std::size_t n);  // … and none
ssize_t readv(source s, const iovec* parts, std::size_t count);
ssize_t writev(source s, const iovec* parts, std::size_t count);          // as write()
ssize_t writev_quietly(source s, const iovec* parts, std::size_t count);  // as write_quietly()
ssize_t recv(source s, void* to, std::size_t n);
ssize_t send(source s, const void* from, std::size_t n);
ssize_t recvmsg(source s, msghdr* m, int flags);
ssize_t sendmsg(source s, const msghdr* m);
ssize_t sendfile(source s, int from, std::int64_t* offset, std::size_t n);
int poll(source s, short events);  // without waiting: 0, or -EAGAIN if none of them has come
int accept(source s, sockaddr* peer, socklen_t* size);  // not blocking, closed on exec
int connect(int fd, const sockaddr* to, socklen_t size);
int close(int fd);

// At `offset`, or where the descriptor stands if that is -1. `nowait`: -EAGAIN rather than waiting for a
// disk; -EOPNOTSUPP, and others, if it cannot be known.
ssize_t readv_at(int fd, const iovec* parts, int count, std::int64_t offset, bool nowait);
ssize_t writev_at(int fd, const iovec* parts, int count, std::int64_t offset, bool nowait);
// A fault for what the kernel does by itself: an errno, or a smaller *n, by chance; 0: go on.
int chance(const void* at, bool writes, std::size_t* n);

}  // namespace weft::rt::calls
