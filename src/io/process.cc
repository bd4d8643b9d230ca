// Other programs. See include/weft/process.h.
//
// posix_spawn does not copy this process: no atfork handlers, no locks of libc that a frozen thread may hold in
// the child. A pidfd becomes readable when the program ends, so that a goroutine waits for it like for a
// socket; it also names the program safely when it is killed, since its number may be used again.
//
// Without pidfds (before Linux 5.3, some emulators) there is a thread that waits, and programs are killed by their
// numbers: reaping one, after which its number may be anybody's, and killing exclude each other.
//
// Go: os/exec, os/pidfd_linux.go
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <mutex>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/context.h>
#include <weft/process.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/thread.h>

#include "io/calls.h"
#include "io/fd.h"
#include "io/own_thread.h"
#include "os/test_hooks.h"

extern char** environ;

namespace weft::process {

namespace {

std::error_code last_error() { return {rt::calls::last_errno(), std::system_category()}; }

int open_pidfd(int pid) {
  if (rt::os::test_hooks.deny_pidfd.get() != 0) {
    return -1;
  }
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// Of a program that has ended, or (blocking) when it does.
result reap(int pid, bool blocking, bool* ended, std::error_code& ec) {
  siginfo_t info{};
  for (;;) {
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | (blocking ? 0 : WNOHANG)) == 0) {
      break;
    }
    if (rt::calls::last_errno() != EINTR) {
      ec = last_error();
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

// Descriptors that are closed at the end.
struct owned_fds {
  int all[3] = {-1, -1, -1};
  ~owned_fds() {
    for (int fd : all) {
      if (fd >= 0) {
        ::close(fd);
      }
    }
  }
};

struct spawn_plan {
  spawn_plan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~spawn_plan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  spawn_plan(const spawn_plan&) = delete;
  spawn_plan& operator=(const spawn_plan&) = delete;

  // Signals as a new program expects them, whatever this thread has.
  void reset_signals() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  owned_fds theirs;  // ends of pipes, and /dev/null, that only the program needs
};

// The program's descriptor `number` shall be what was chosen. *ours: our end of a pipe.
int redirect(spawn_plan& plan, int number, const stream_choice& choice, int* ours) {
  int fd = choice.number();
  switch (choice.what()) {
    case stream_choice::kind::inherit: return 0;
    case stream_choice::kind::fd: break;
    case stream_choice::kind::null:
      fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (fd < 0) {
        return rt::calls::last_errno();
      }
      plan.theirs.all[number] = fd;
      break;
    case stream_choice::kind::pipe: {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) {
        return rt::calls::last_errno();
      }
      fd = ends[number == 0 ? 0 : 1];
      *ours = ends[number == 0 ? 1 : 0];
      plan.theirs.all[number] = fd;
      break;
    }
  }
  if (fd < number) {  // the program's own stream of that number, by then
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) {
      return rt::calls::last_errno();
    }
    if (int& old = plan.theirs.all[number]; std::exchange(old, copy) >= 0) {
      ::close(fd);
    }
    fd = copy;
  }
  return posix_spawn_file_actions_adddup2(&plan.actions, fd, number);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& t : texts) {
    all.push_back(const_cast<char*>(t.c_str()));
  }
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment(bool clear, const std::vector<std::string>& changes) {
  std::vector<std::string> all;
  for (char** e = environ; !clear && e != nullptr && *e != nullptr; ++e) {
    const std::string_view text = *e;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& c : changes) {
      replaced = replaced || c.compare(0, name.size(), name) == 0;
    }
    if (!replaced) {
      all.emplace_back(text);
    }
  }
  all.insert(all.end(), changes.begin(), changes.end());
  return all;
}

std::string everything(io::pipe_reader& r, std::error_code& ec) {
  std::string all;
  char buffer[16384];
  while (const std::size_t n = r.read_some(buffer, ec)) {
    all.append(buffer, n);
  }
  return all;
}

}  // namespace

// --- command -----------------------------------------------------------------------------------

command::command(std::string_view program, std::initializer_list<std::string_view> args)
    : program_(program), args_(args.begin(), args.end()) {}
command::command(std::string_view program, std::vector<std::string> args)
    : program_(program), args_(std::move(args)) {}

command& command::arg(std::string_view a) {
  args_.emplace_back(a);
  return *this;
}
command& command::dir(std::string_view path) {
  dir_ = path;
  return *this;
}
command& command::env(std::string_view name, std::string_view value) {
  const std::string prefix = std::string(name) + '=';
  std::erase_if(env_, [&](const std::string& e) { return e.starts_with(prefix); });
  env_.push_back(prefix + std::string(value));
  return *this;
}
command& command::clear_env() {
  clear_ = true;
  return *this;
}
command& command::in(stream_choice s) {
  streams_[0] = s;
  return *this;
}
command& command::out(stream_choice s) {
  streams_[1] = s;
  return *this;
}
command& command::err(stream_choice s) {
  streams_[2] = s;
  return *this;
}

namespace {

// Our end of the pipe to the program's descriptor `number`.
bool adopt_end(child& c, int number, int fd, std::error_code& ec) {
  switch (number) {
    case 0: c.in = io::pipe_writer::adopt(fd, ec); break;
    case 1: c.out = io::pipe_reader::adopt(fd, ec); break;
    default: c.err = io::pipe_reader::adopt(fd, ec); break;
  }
  return !ec;
}

}  // namespace

// Everything that may fail comes before the program is started.
child command::start(std::error_code& ec) const {
  spawn_plan plan;
  child c;
  int error = 0;
  plan.reset_signals();
  for (int i = 0; i < 3 && error == 0; ++i) {
    int ours = -1;
    error = redirect(plan, i, streams_[i], &ours);
    if (ours >= 0 && !adopt_end(c, i, ours, ec)) {
      ::close(ours);
      return {};
    }
  }
  if (error == 0 && !dir_.empty()) {
    error = posix_spawn_file_actions_addchdir_np(&plan.actions, dir_.c_str());
  }
  std::vector<std::string> words{program_};
  words.insert(words.end(), args_.begin(), args_.end());
  const std::vector<std::string> variables = environment(clear_, env_);
  if (error == 0) {
    error = posix_spawnp(&c.pid_, program_.c_str(), &plan.actions, &plan.attributes,
                         pointers(words).data(), pointers(variables).data());
  }
  if (error != 0) {
    c.pid_ = -1;
    ec = {error, std::system_category()};
    return {};
  }
  c.pidfd_ = open_pidfd(c.pid_);
  ec.clear();
  return c;
}

namespace {

[[noreturn]] void fail(const std::string& what, std::error_code ec) {
  throw std::system_error(ec, what);
}

}  // namespace

child command::start() const {
  std::error_code ec;
  child c = start(ec);
  if (ec) {
    fail("start " + program_, ec);
  }
  return c;
}

result command::run(const context& ctx, std::error_code& ec) const {
  child c = start(ec);
  return ec ? result{-1, 0} : c.wait(ctx, ec);
}
result command::run(std::error_code& ec) const { return run(context(), ec); }
result command::run() const {
  std::error_code ec;
  const result r = run(ec);
  if (ec) {
    fail("run " + program_, ec);
  }
  return r;
}

captured command::output(std::error_code& ec) const {
  command both = *this;
  both.out(stream_choice::pipe()).err(stream_choice::pipe());
  child c = both.start(ec);
  captured all;
  if (ec) {
    all.exit_code = -1;
    return all;
  }
  std::error_code read_error;
  thread reads([&] { all.err = everything(c.err, read_error); });
  std::error_code out_error;
  all.out = everything(c.out, out_error);
  reads.join();
  static_cast<result&>(all) = c.wait(ec);
  ec = ec ? ec : out_error ? out_error : read_error;
  return all;
}
captured command::output() const {
  std::error_code ec;
  captured all = output(ec);
  if (ec) {
    fail("run " + program_, ec);
  }
  return all;
}

// --- child -------------------------------------------------------------------------------------

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
      // Somebody has to reap it. Without a thread it stays as a zombie until this process ends.
      static_cast<void>(rt::on_own_thread([pid = pid_] {
        bool done = false;
        std::error_code nobody_asks;
        reap(pid, /*blocking=*/true, &done, nobody_asks);
      }));
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

void child::kill(int signal) noexcept {
  if (pidfd_ >= 0) {
    syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
  } else if (pid_ > 0) {
    const numbers_are_kept kept;
    if (!waited_) {
      ::kill(pid_, signal);  // not reaped yet: the number is still its own
    }
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
    kill();
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
    fail("wait", ec);
  }
  return r;
}
result child::wait() { return wait(context()); }

}  // namespace weft::process
