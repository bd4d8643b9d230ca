// Starting other programs. See include/weft/process.h; child.cc has those that run.
//
// posix_spawn does not copy this process: no atfork handlers, no locks of libc that a frozen thread may hold in
// the child.
//
// output() with a context: a killed program may leave others behind that hold its pipes open, so that their end never comes.
// What is in the pipes when the program has ended is all that is waited for.
//
// Go: os/exec
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/context.h>
#include <weft/process.h>
#include <weft/select.h>
#include <weft/thread.h>

#include "io/calls.h"
#include "os/test_hooks.h"
#include "sched/preempt.h"
#include "sched/sched_api.h"

extern char** environ;

namespace weft::process {

namespace {

int open_pidfd(int pid) {
  if (rt::os::test_hooks.deny_pidfd.get() != 0) {
    return -1;
  }
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
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

  // Those are blocked that were when this process began with weft, whatever this thread has. What is ignored stays so, and handlers end by
  // themselves. [SC-10]
  void inherit_signals() {
    sigset_t mask = rt::sched.initial_mask;
    if (rt::sched.blocked_runtime_signal) {
      sigaddset(&mask, rt::runtime_signal());
    }
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
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

// The kernel takes words up to a zero byte: another program would be run, or with other arguments. Null: there is none.
const char* zero_byte_in(const std::string& program, const std::vector<std::string>& args,
                         const std::string& dir, const std::vector<std::string>& env) {
  const auto has_one = [](const std::string& s) { return s.find('\0') != s.npos; };
  return has_one(program)                     ? "unexpected zero byte in name"
         : std::ranges::any_of(args, has_one) ? "unexpected zero byte in argument"
         : has_one(dir)                       ? "unexpected zero byte in directory"
         : std::ranges::any_of(env, has_one)  ? "unexpected zero byte in environment"
                                              : nullptr;
}

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
  if (zero_byte_in(program_, args_, dir_, env_) != nullptr) {
    ec = std::make_error_code(std::errc::invalid_argument);
    return {};
  }
  spawn_plan plan;
  child c;
  int error = 0;
  rt::ensure_started();
  plan.inherit_signals();
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
    rt::shed_short_slices();
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

// detail: what is wrong with the command, or null.
[[noreturn]] void fail(const char* operation, const std::string& program, std::error_code ec,
                       const char* detail) {
  std::string text = std::string(operation) + ' ' + program.c_str();  // up to a zero byte
  if (detail != nullptr && ec == std::errc::invalid_argument) {
    text += std::string(": ") + detail;
  }
  throw std::system_error(ec, text);
}

}  // namespace

child command::start() const {
  std::error_code ec;
  child c = start(ec);
  if (ec) {
    fail("start", program_, ec, zero_byte_in(program_, args_, dir_, env_));
  }
  return c;
}

namespace {

// For who has nothing to say to the program: if its input is a pipe it reads the end. Not started for nobody. ec: why.
child start_and_say_nothing(const command& what, const context& ctx, std::error_code& ec) {
  ec = ctx.err();
  child c;
  if (!ec) {
    c = what.start(ec);
    c.in = {};
  }
  return c;
}

}  // namespace

result command::run(const context& ctx, std::error_code& ec) const {
  child c = start_and_say_nothing(*this, ctx, ec);
  return ec ? result{-1, 0} : c.wait(ctx, ec);
}
result command::run(std::error_code& ec) const { return run(context(), ec); }
result command::run(const context& ctx) const {
  std::error_code ec;
  const result r = run(ctx, ec);
  if (ec) {
    fail("run", program_, ec, zero_byte_in(program_, args_, dir_, env_));
  }
  return r;
}
result command::run() const { return run(context()); }

namespace {

// What a program says to one of its streams, until the end, or until halt().
class capture {
 public:
  explicit capture(io::pipe_reader& from)
      : from_(from), reads_([this] {
          char buffer[16384];
          while (const std::size_t n = from_.read_some(buffer, error_)) {
            all_.append(buffer, n);
          }
          over_.close();
        }) {}
  ~capture() {
    if (reads_.joinable()) {  // something else has failed
      let_no_more_come();
      reads_.join();
    }
  }
  capture(const capture&) = delete;
  capture& operator=(const capture&) = delete;

  // False: the context was cancelled first.
  bool over_before(const context& ctx) {
    select(recv(over_, [](auto&&) {}), recv(ctx.done(), [](auto&&) {}));
    return over_.try_recv().closed();
  }
  // Nothing more, but for what the pipe has.
  void halt() {
    std::error_code ignored;
    let_no_more_come();
    over_.recv();
    from_.set_read_deadline(clock::time_point::max(), ignored);
    int left = 0;
    if (error_ && ::ioctl(from_.native_handle(), FIONREAD, &left) == 0) {
      std::string rest(static_cast<std::size_t>(left), '\0');
      rest.resize(from_.read_full(rest, ignored));
      all_ += rest;
      error_.clear();
    }
  }
  std::string take(std::error_code& ec) {
    reads_.join();
    ec = ec ? ec : error_;
    return std::move(all_);
  }

 private:
  void let_no_more_come() noexcept {
    std::error_code failed;
    from_.set_read_deadline(clock::now(), failed);
    if (failed) {
      from_.close(failed);
    }
  }

  io::pipe_reader& from_;
  std::string all_;
  std::error_code error_;
  chan<unit> over_;
  thread reads_;
};

}  // namespace

captured command::output(const context& ctx, std::error_code& ec) const {
  command both = *this;
  both.out(stream_choice::pipe()).err(stream_choice::pipe());
  child c = start_and_say_nothing(both, ctx, ec);
  captured all;
  if (ec) {
    all.exit_code = -1;
    return all;
  }
  capture out(c.out), err(c.err);
  static_cast<result&>(all) = c.wait(ctx, ec);
  for (capture* each : {&out, &err}) {
    if (!each->over_before(ctx)) {
      each->halt();
      ec = ec ? ec : ctx.err();
    }
  }
  all.out = out.take(ec);
  all.err = err.take(ec);
  return all;
}
captured command::output(std::error_code& ec) const { return output(context(), ec); }
captured command::output(const context& ctx) const {
  std::error_code ec;
  captured all = output(ctx, ec);
  if (ec) {
    fail("run", program_, ec, zero_byte_in(program_, args_, dir_, env_));
  }
  return all;
}
captured command::output() const { return output(context()); }

}  // namespace weft::process
