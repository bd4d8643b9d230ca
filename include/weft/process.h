// Other programs: started without forking this one's threads, waited for without a thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/detail/export.h>
#include <weft/io.h>

namespace weft {
class context;
}

namespace weft::process {

/// How a program has ended.
struct result {
  int exit_code = 0;  ///< -1 if it was ended by a signal
  int signal = 0;     ///< which one, or 0

  /// It has ended by itself, with status 0.
  bool ok() const noexcept { return exit_code == 0 && signal == 0; }
};

struct captured : result {
  std::string out;
  std::string err;
};

/// Where a standard stream of the program goes, or comes from.
class stream_choice {
 public:
  enum class kind : unsigned char { inherit, null, pipe, fd };
  constexpr stream_choice() noexcept = default;
  static constexpr stream_choice inherit() noexcept { return {}; }
  static constexpr stream_choice null() noexcept { return {kind::null, -1}; }
  static constexpr stream_choice pipe() noexcept { return {kind::pipe, -1}; }
  /// A descriptor of this process, which keeps it.
  static constexpr stream_choice fd(int number) noexcept { return {kind::fd, number}; }

  constexpr kind what() const noexcept { return kind_; }
  constexpr int number() const noexcept { return fd_; }

 private:
  constexpr stream_choice(kind k, int n) noexcept : kind_(k), fd_(n) {}
  kind kind_ = kind::inherit;
  int fd_ = -1;
};

/// A program that runs. Destroying it without wait() leaves the program alone; it is reaped when it ends.
class WEFT_EXPORT child {
 public:
  child() noexcept = default;
  child(child&& other) noexcept;
  child& operator=(child&& other) noexcept;
  ~child();

  /// Its number; somebody else's, perhaps, once wait() has returned.
  int pid() const noexcept { return pid_; }
  /// Blocks the goroutine until it has ended. Once.
  result wait();
  result wait(std::error_code& ec);
  /// The same; if the context is cancelled first, the program is killed (SIGKILL), waited for, and the error is
  /// the context's.
  result wait(const context& ctx);
  result wait(const context& ctx, std::error_code& ec);
  /// Sends a signal, SIGKILL by default. Nothing happens if it has ended, and that is no error; no such signal, or a program
  /// that may not be sent any, is. May be called while another goroutine is in wait().
  void kill(int signal = 9);
  void kill(int signal, std::error_code& ec) noexcept;

  io::pipe_writer in;   ///< if its standard input is a pipe
  io::pipe_reader out;  ///< … output
  io::pipe_reader err;  ///< … error

 private:
  friend class command;
  int pid_ = -1;
  int pidfd_ = -1;
  bool waited_ = false;
};

/// What to run: a path, or a name that is looked for in PATH, and its arguments.
///
///     auto r = weft::process::command("git", {"status", "-s"}).output();
class WEFT_EXPORT command {
 public:
  explicit command(std::string_view program, std::initializer_list<std::string_view> args = {});
  command(std::string_view program, std::vector<std::string> args);
  template <class... A>
  requires(sizeof...(A) > 0 && (std::is_convertible_v<const A&, std::string_view> &&
                                ...)) explicit command(std::string_view program, const A&... args)
      : command(program, {std::string_view(args)...}) {}

  command& arg(std::string_view a);
  command& dir(std::string_view path);
  /// Adds to, or replaces in, this process's environment; clear_env() begins with an empty one.
  command& env(std::string_view name, std::string_view value);
  command& clear_env();
  command& in(stream_choice s);
  command& out(stream_choice s);
  command& err(stream_choice s);

  child start() const;
  child start(std::error_code& ec) const;
  /// Until it has ended; with a context as child::wait(), but one that is cancelled already starts nothing. An input that is a
  /// pipe ends at once, here and in output(): to say something, start() it.
  result run() const;
  result run(std::error_code& ec) const;
  result run(const context& ctx) const;
  result run(const context& ctx, std::error_code& ec) const;
  /// Runs it, and returns what it wrote to its standard output and standard error, up to the end of both. If the
  /// context is cancelled first, the program is killed, and the rest of those that it has started is not waited for.
  captured output() const;
  captured output(std::error_code& ec) const;
  captured output(const context& ctx) const;
  captured output(const context& ctx, std::error_code& ec) const;

 private:
  std::string program_;
  std::vector<std::string> args_;
  std::string dir_;
  std::vector<std::string> env_;
  bool clear_ = false;
  stream_choice streams_[3];
};

}  // namespace weft::process
