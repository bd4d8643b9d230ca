// See restart.h.
//
// Problem. sysmon sends its signal to threads that compute (retake.cc), but between its look and the arrival of the
// signal the goroutine may have entered a system call. Most of these the kernel restarts by itself, since the handler says
// SA_RESTART. Some it does not, and their callers, who have never heard of weft, take EINTR for a failure.
//
//   how the kernel ends it                         what is done about it
//   to be completed by restart_syscall(2):         that, here in the handler: returning from it (rt_sigreturn)
//     nanosleep, poll, futex with a time-out         makes the kernel forget when the call was to end
//   EINTR, and nothing has been done:              made again, by going back to the instruction. select, ppoll and
//     select, epoll_wait, recv with SO_RCVTIMEO      pselect have noted what is left of their time; that of epoll_wait is
//                                                    shortened by how long the goroutine was frozen
//   a part has been written, to a pipe or a        the rest is written, here. Who has never heard of signals
//     stream that blocks                             expects all of it to be
//   anything else                                  it stays EINTR
//
// A call is recognised by what the thread was about to do: return -EINTR, or less than was asked for, to the instruction
// after a system call. Which call
// it was the kernel does not say on x86-64; the number is read from the instruction that loads it, where compilers and
// libc put it, just before. On aarch64 it is in a register, but there the first argument is lost, so that
// nothing can be made again.
//
// RS1: if a signal of the user's waits as well that somebody handles, EINTR stays: its handler may count on it. Of two that come at
//      the same time ours may swallow the EINTR of the other; so may, without us, a signal that comes just before the call.
// RS2: what restart_syscall(2) completes is the call that was interrupted. The kernel keeps one such call per thread, and forgets it
//      when a handler returns: so after a handler that ended by longjmp, and after a call that it has completed by itself (the
//      thread was stopped by SIGSTOP or a debugger), an earlier one is still there, whose arguments may be gone. A call that
//      is known to leave something has replaced it; one that is not must look as those do (may_be_completed()).
// RS3: a call is completed here with the user's own signals let through, but not ours: handlers do not pile up.
//
// Not under TSan, which may have delayed the signal: the context is not the call's.
#include "sched/restart.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <iterator>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/atomic.h"  // WEFT_TSAN
#include "base/readable.h"

namespace weft::rt {

namespace {

using signal_bits = std::uint64_t;  // the kernel's sigset_t

constexpr signal_bits bit(int signal) { return signal_bits{1} << (signal - 1); }

signal_bits masked_in(const ucontext_t& uc) {
  signal_bits mask;
  std::memcpy(&mask, &uc.uc_sigmask, sizeof mask);
  return mask;
}

// What nobody handles and the kernel forgets interrupts no call. But it waits for as long as a thread has it masked
// that might have had it, as all are that sleep in the handler: SIGCHLD above all.
bool is_ignored(int signal) {
  struct sigaction now {};
  if (sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0) {
    return false;
  }
  const bool forgotten =
      signal == SIGCHLD || signal == SIGCONT || signal == SIGURG || signal == SIGWINCH;
  return now.sa_handler == SIG_IGN || (now.sa_handler == SIG_DFL && forgotten);
}

// keeps RS1
bool users_signal_waits(int signal, signal_bits masked) {
  signal_bits pending = 0;
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  for (pending &= ~masked & ~bit(signal); pending != 0; pending &= pending - 1) {
    if (!is_ignored(std::countr_zero(pending) + 1)) {
      return true;
    }
  }
  return false;
}

// The user's signals are let through, ours is not. keeps RS3
class as_the_user {
 public:
  as_the_user(int signal, signal_bits masked) {
    const signal_bits mask = masked | bit(signal);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before_, sizeof mask);
  }
  ~as_the_user() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
  as_the_user(const as_the_user&) = delete;
  as_the_user& operator=(const as_the_user&) = delete;

 private:
  signal_bits before_ = 0;
};

// What is left of a call that the kernel can complete. Returns as the call would, or -EINTR.
long complete(int signal, signal_bits masked) {
  const as_the_user here(signal, masked);
  const long result = syscall(SYS_restart_syscall);
  const bool refused = result < 0 && (errno == ENOSYS || errno == EPERM);  // an emulator, a sandbox
  return refused ? -EINTR : result < 0 ? -errno : result;
}

bool one_of(long number, const long* first, const long* last) {
  return std::find(first, last, number) != last;
}

bool can_be_completed(long number) {
  static constexpr long kThese[] = {
#ifdef SYS_poll
      SYS_poll,
#endif
      SYS_nanosleep, SYS_clock_nanosleep, SYS_futex};
  return one_of(number, std::begin(kThese), std::end(kThese));
}

#if defined(__x86_64__)

// Which have done nothing if they say EINTR. Not close(2), which has.
bool can_be_made_again(long number) {
  static constexpr long kThese[] = {
      SYS_read,         SYS_write,         SYS_readv,           SYS_writev,     SYS_recvfrom,
      SYS_recvmsg,      SYS_sendto,        SYS_sendmsg,         SYS_accept,     SYS_accept4,
      SYS_select,       SYS_pselect6,      SYS_ppoll,           SYS_epoll_wait, SYS_epoll_pwait,
      SYS_pause,        SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_semop,      SYS_semtimedop,
      SYS_msgsnd,       SYS_msgrcv,        SYS_io_getevents,
#ifdef SYS_epoll_pwait2
      SYS_epoll_pwait2,
#endif
  };
  return one_of(number, std::begin(kThese), std::end(kThese));
}

// By its arguments; of a call whose number is not known. Those that can be begin with
//   nanosleep, futex   a pointer
//   poll               a pointer; or 0, 0, ms
//   clock_nanosleep    a small number, 0, a pointer
// and most of the others with a descriptor, which is followed by a pointer. ppoll and sigtimedwait have a mask, whose
// size they say. keeps RS2
bool may_be_completed(const greg_t* registers) {
  const auto is_pointer = [](greg_t value) { return static_cast<std::uint64_t>(value) >= 4096; };
  constexpr greg_t kMaskSize = sizeof(signal_bits);
  const greg_t first = registers[REG_RDI], second = registers[REG_RSI], third = registers[REG_RDX];
  if (!is_pointer(first)) {
    return second == 0 && third != 0 && (first == 0 || is_pointer(third));
  }
  const bool is_ppoll = registers[REG_R8] == kMaskSize && (third == 0 || is_pointer(third));
  return !is_ppoll && registers[REG_R10] != kMaskSize;
}

constexpr std::size_t kFarthest = 16;  // bytes before the call in which its number may be loaded

// By "mov $number, %eax", or just before the call by "xor %eax, %eax": farther away that is often something else's. Or -1.
long number_loaded_before(const unsigned char* call) {
  constexpr unsigned char kMovEax = 0xb8, kXor = 0x31, kXorFrom = 0x33, kEaxEax = 0xc0;
  const bool other_register = (call[-3] & 0xf0) == 0x40;
  if ((call[-2] == kXor || call[-2] == kXorFrom) && call[-1] == kEaxEax && !other_register) {
    return 0;
  }
  for (std::size_t back = 5; back < kFarthest; ++back) {
    const unsigned char* at = call - back;
    const bool wider = (at[-1] & 0xf0) == 0x40;  // a prefix: another register
    if (at[0] == kMovEax && at[2] < 4 && at[3] == 0 && at[4] == 0 && !wider) {
      return at[1] + at[2] * 256L;
    }
  }
  return -1;
}

void shorten(long number, greg_t* registers, std::int64_t spent) {
  const auto ms = static_cast<int>(registers[REG_R10]);
  if ((number == SYS_epoll_wait || number == SYS_epoll_pwait) && ms > 0) {
    registers[REG_R10] = std::max<std::int64_t>(0, ms - spent / 1'000'000);
  }
}

// To a pipe or a stream socket, which both take all of it, if one waits.
bool writes_all(int fd, long flags, bool* is_socket) {
  struct stat file {};
  const int mode = fcntl(fd, F_GETFL);
  if (mode < 0 || (mode & O_NONBLOCK) != 0 || (flags & MSG_DONTWAIT) != 0 ||
      fstat(fd, &file) != 0) {
    return false;
  }
  int type = 0;
  socklen_t size = sizeof type;
  *is_socket = S_ISSOCK(file.st_mode);
  return S_ISFIFO(file.st_mode) ||
         (*is_socket && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
          type == SOCK_STREAM);
}

// Until fd takes more. False: not before its time-out, a signal of the user's, or an error. Errors of a socket are said once, and
// to the caller: who writes to find out has heard it for him, and his next call is EPIPE, with SIGPIPE.
bool wait_for_room(int fd) {
  timeval limit{};
  socklen_t size = sizeof limit;
  static_cast<void>(getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, &size));
  const long ms = limit.tv_sec * 1000 + (limit.tv_usec + 999) / 1000;
  pollfd it{fd, POLLOUT, 0};
  return syscall(SYS_poll, &it, 1, ms == 0 ? -1 : ms) == 1 && it.revents == POLLOUT;
}

// Of write(2) or sendto(2) to a stream socket, which has taken `done`. Returns how much it is in the end.
long send_rest(int fd, const greg_t* registers, long flags, long done, long wanted) {
  while (done < wanted && wait_for_room(fd)) {
    const long more = syscall(SYS_sendto, fd, registers[REG_RSI] + done, wanted - done,
                              flags | MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
    if (more < 0 && errno != EAGAIN) break;  // the next one will say why
    done += more < 0 ? 0 : more;
  }
  return done;
}

// The same for either and a pipe.
long write_rest(int signal, signal_bits masked, long number, const greg_t* registers) {
  const auto fd = static_cast<int>(registers[REG_RDI]);
  const long flags = number == SYS_sendto ? registers[REG_R10] : 0;
  const long wanted = registers[REG_RDX];
  long done = registers[REG_RAX];
  bool is_socket = false;
  if (!writes_all(fd, flags, &is_socket)) return done;
  const as_the_user here(signal, masked);
  if (is_socket) return send_rest(fd, registers, flags, done, wanted);
  while (done < wanted) {
    const long more = syscall(SYS_write, fd, registers[REG_RSI] + done, wanted - done);
    if (more <= 0) break;  // likewise
    done += more;
  }
  return done;
}

void resume(int signal, ucontext_t& uc, std::int64_t spent) {
  greg_t* registers = uc.uc_mcontext.gregs;
  const auto pc = static_cast<std::uintptr_t>(registers[REG_RIP]);
  const bool cut_short = registers[REG_RAX] > 0 && registers[REG_RAX] < registers[REG_RDX];
  if ((registers[REG_RAX] != -EINTR && !cut_short) ||
      !readable(pc - kFarthest - 3, kFarthest + 3)) {
    return;
  }
  const auto* call = reinterpret_cast<const unsigned char*>(pc) - 2;
  if (call[0] != 0x0f || call[1] != 0x05 || users_signal_waits(signal, masked_in(uc))) {
    return;
  }
  const long number = number_loaded_before(call);
  if (cut_short) {
    if (number == SYS_write || number == SYS_sendto) {
      registers[REG_RAX] = write_rest(signal, masked_in(uc), number, registers);
    }
    return;
  }
  if (number < 0) {
    if (may_be_completed(registers)) {
      registers[REG_RAX] = complete(signal, masked_in(uc));
    }
    return;
  }
  const bool until = number == SYS_clock_nanosleep && (registers[REG_RSI] & TIMER_ABSTIME) != 0;
  if (until || can_be_made_again(number)) {
    shorten(number, registers, spent);
    registers[REG_RAX] = number;
    registers[REG_RIP] -= 2;
  } else if (can_be_completed(number)) {
    registers[REG_RAX] = complete(signal, masked_in(uc));
  }
}

#elif defined(__aarch64__)

void resume(int signal, ucontext_t& uc, std::int64_t) {
  mcontext_t& at = uc.uc_mcontext;
  constexpr std::uint32_t kSvc = 0xd4000001;
  if (static_cast<long>(at.regs[0]) != -EINTR || !readable(at.pc - 4, 4)) {
    return;
  }
  std::uint32_t instruction;
  std::memcpy(&instruction, reinterpret_cast<const void*>(at.pc - 4), sizeof instruction);
  const auto number = static_cast<long>(at.regs[8]);
  const bool until = number == SYS_clock_nanosleep && (at.regs[1] & TIMER_ABSTIME) != 0;
  if (instruction == kSvc && can_be_completed(number) && !until &&
      !users_signal_waits(signal, masked_in(uc))) {
    at.regs[0] = static_cast<std::uint64_t>(complete(signal, masked_in(uc)));
  }
}

#endif

}  // namespace

void resume_interrupted_call(int signal, void* context, std::int64_t spent) noexcept {
  if constexpr (WEFT_TSAN) return;
  const int saved = errno;
  resume(signal, *static_cast<ucontext_t*>(context), spent);
  errno = saved;
}

}  // namespace weft::rt
