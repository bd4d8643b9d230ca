// Programs that run. See include/weft/process.h; process.cc starts them, and reaper.cc has those that nobody waits for.
//
// A pidfd becomes readable when the program ends, so that a goroutine waits for it like for a socket; it also names
// the program safely when it is killed, since its number may be used again.
//
// Without pidfds (before Linux 5.3, some emulators) there is a thread that waits, and programs are killed by their
// numbers: reaping one, after which its number may be anybody's, and killing exclude each other.
//
// Go: os/exec, os/pidfd_linux.go
#include <cerrno>
#include <csignal>
#include <mutex>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/context.h>
#include <weft/process.h>
#include <weft/runtime.h>
#include <weft/select.h>

#include "io/calls.h"
#include "io/own_thread.h"
#include "io/reaper.h"

namespace weft::process {

namespace {

// Of a program that has ended, or (blocking) when it does.
result reap(int pid, bool blocking, bool* ended, std::error_code& ec) {
  siginfo_t info{};
  for (;;) {
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | (blocking ? 0 : WNOHANG)) == 0) {
      break;
    }
    if (rt::calls::last_errno() != EINTR) {
      ec = {rt::calls::last_errno(), std::system_category()};
      *ended = true;
      return {};
    }
  }
  *ended = info.si_pid != 0;
  return info.si_code == CLD_EXITED ? result{info.si_status, 0} : result{-1, info.si_status};
}

// When it ends. It is not reaped: nobody else gets its number.
void await_end(int pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 &&
         rt::calls::last_errno() == EINTR) {
  }
}

}  // namespace

child::child(child&& other) noexcept
    : in(std::move(other.in)),
      out(std::move(other.out)),
      err(std::move(other.err)),
      pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::exchange(other.pidfd_, -1)),
      waited_(std::exchange(other.waited_, false)) {}

child& child::operator=(child&& other) noexcept {
  std::swap(in, other.in);
  std::swap(out, other.out);
  std::swap(err, other.err);
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(waited_, other.waited_);
  return *this;
}

child::~child() {
  if (pid_ > 0 && !waited_) {
    bool ended = false;
    std::error_code ignored;
    reap(pid_, /*blocking=*/false, &ended, ignored);
    if (!ended) {
      leave_to_reaper(pid_, std::exchange(pidfd_, -1));
    }
  }
  if (pidfd_ >= 0) {
    ::close(pidfd_);
  }
}

namespace {

// Held by who reaps a program or kills it by its number. One for all: both take microseconds.
class numbers_are_kept {
 private:
  static constinit std::mutex lock_;
  no_preempt stays_;  // the lock is the thread's
  std::lock_guard<std::mutex> held_{lock_};
};
constinit std::mutex numbers_are_kept::lock_;

}  // namespace

void child::kill(int signal, std::error_code& ec) noexcept {
  long sent = 0;
  if (pidfd_ >= 0) {
    sent = syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
  } else if (pid_ > 0) {
    const numbers_are_kept kept;
    if (!waited_) {
      sent = ::kill(pid_, signal);  // not reaped yet: the number is still its own
    }
  }
  const int error = sent == 0 ? 0 : rt::calls::last_errno();
  ec = error == 0 || error == ESRCH ? std::error_code()
                                    : std::error_code(error, std::system_category());
}
void child::kill(int signal) {
  std::error_code ec;
  kill(signal, ec);
  if (ec) {
    throw std::system_error(ec, "kill process " + std::to_string(pid_));
  }
}

namespace {

// Until the program has ended, which it does not reap. False: the context was cancelled first. An error: neither, there
// is no memory, or no thread.
bool ended_before(int pidfd, const context& ctx, std::error_code& ec) {
  io::poll_fd ready(pidfd, ec);
  if (!ec) {
    ready.wait_readable(ctx, ec);
  }
  if (ec && ec == ctx.err()) {
    ec.clear();
    return false;
  }
  return true;
}

// The same without a pidfd: a thread waits.
bool ended_elsewhere(int pid, const context& ctx, std::error_code& ec) {
  const chan<unit> done;
  ec = rt::on_own_thread([pid, done] {
    await_end(pid);
    done.close();
  });
  bool ended = true;
  if (!ec) {
    select(recv(done, [](auto&&) {}), recv(ctx.done(), [&](auto&&) { ended = false; }));
  }
  return ended;
}

}  // namespace

result child::wait(const context& ctx, std::error_code& ec) {
  if (pid_ <= 0 || waited_) {
    ec = std::make_error_code(std::errc::no_child_process);
    return {-1, 0};
  }
  ec.clear();
  const auto ended_by = [&](const context& limit) {
    return pidfd_ >= 0 ? ended_before(pidfd_, limit, ec) : ended_elsewhere(pid_, limit, ec);
  };
  const bool killed = !ended_by(ctx);
  if (killed) {
    std::error_code ignored;  // of one that we may not kill: its end is awaited all the same
    kill(SIGKILL, ignored);
    ended_by(context());
  }
  if (ec) {
    return {-1, 0};  // nothing could be waited for: the program is still ours
  }
  bool ended = false;
  result r;
  {
    const numbers_are_kept kept;
    r = reap(pid_, /*blocking=*/true, &ended, ec);  // at once: it has ended
    waited_ = true;
  }
  if (killed && r.signal == SIGKILL) {
    ec = ctx.err();
  }
  return r;
}

result child::wait(std::error_code& ec) { return wait(context(), ec); }
result child::wait(const context& ctx) {
  std::error_code ec;
  const result r = wait(ctx, ec);
  if (ec) {
    throw std::system_error(ec, pid_ > 0 ? "wait process " + std::to_string(pid_) : "wait");
  }
  return r;
}
result child::wait() { return wait(context()); }

}  // namespace weft::process
