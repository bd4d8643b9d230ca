// The process ends: by a pipe that nobody reads any more, or while threads of the library are at work.
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <span>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/process.h>
#include <weft/run.h>
#include <weft/signal.h>

#include "os/test_hooks.h"
#include "support/child_suite.h"

namespace {

using weft::rt::os::test_hooks;

// The writing end of a pipe that nobody reads, or of a socket, as that descriptor.
int broken_pipe_as(int number, bool socket = false) {
  int ends[2];
  if ((socket ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
              : ::pipe2(ends, O_CLOEXEC)) != 0) {
    std::abort();
  }
  ::close(ends[0]);
  const int fd = number < 0 ? ends[1] : ::dup2(ends[1], number);
  if (fd != ends[1]) ::close(ends[1]);
  return fd;
}

constexpr int kWays = 3;

// Whether a write to it says that nobody reads.
template <class Writer>
bool is_refused(Writer& w, int way) {
  const weft::const_buffer parts[] = {"a", "b"};
  std::error_code ec;
  switch (way) {
    case 0: w.write_all("text", ec); break;
    case 1: w.write_all(std::span(parts), ec); break;
    default: w.write_some("text", ec); break;
  }
  return ec == std::errc::broken_pipe;
}

// In each of the ways; 5 if each says so.
template <class Writer>
int writes(Writer w) {
  for (int way = 0; way < kWays; ++way) {
    if (!is_refused(w, way)) return 6;
  }
  return 5;
}

// The same; 5 if it is told by the signal each time, too, and once.
template <class Writer>
int writes_and_is_told(Writer w) {
  for (int way = 0; way < kWays; ++way) {
    weft::chan<int> told(2);
    weft::signal::notify(told, {SIGPIPE});
    if (!is_refused(w, way)) return 6;
    if (told.recv() != SIGPIPE) return 7;
    weft::signal::stop(told);  // what has arrived is there
    if (told.size() != 0) return 8;
  }
  return 5;
}

int writes_in_turn(int number, int way) {
  return weft::run([&] {
    weft::io::pipe_writer w = weft::io::pipe_writer::adopt(broken_pipe_as(number));
    const weft::const_buffer parts[] = {"a", "b"};
    std::error_code ec;
    if (way == 0) {
      w.write_all("text", ec);
    } else {
      w.write_all(std::span(parts), ec);
    }
    return 6;  // not reached
  });
}

// 233: standard output and error are how a pipeline ends.
WEFT_CHILD(writes_to_output) { return writes_in_turn(1, 0); }
WEFT_CHILD(writes_to_error) { return writes_in_turn(2, 0); }
WEFT_CHILD(writes_parts_to_output) { return writes_in_turn(1, 1); }
WEFT_CHILD(writes_file_to_output) {
  return weft::run([] {
    std::error_code ec;
    weft::io::file::adopt(broken_pipe_as(1)).write_all("text", ec);
    return 6;
  });
}
WEFT_CHILD(writes_elsewhere) {
  return weft::run([] { return writes(weft::io::pipe_writer::adopt(broken_pipe_as(-1))); });
}

WEFT_CHILD(writes_to_input) {
  return weft::run([] { return writes(weft::io::pipe_writer::adopt(broken_pipe_as(0))); });
}
WEFT_CHILD(writes_file_to_input) {
  return weft::run([] { return writes(weft::io::file::adopt(broken_pipe_as(0))); });
}
// 233, where the signal is wanted.
WEFT_CHILD(writes_to_output_and_is_told) {
  return weft::run(
      [] { return writes_and_is_told(weft::io::pipe_writer::adopt(broken_pipe_as(1))); });
}
WEFT_CHILD(writes_to_error_and_is_told) {
  return weft::run(
      [] { return writes_and_is_told(weft::io::pipe_writer::adopt(broken_pipe_as(2))); });
}
WEFT_CHILD(writes_file_to_output_and_is_told) {
  return weft::run([] { return writes_and_is_told(weft::io::file::adopt(broken_pipe_as(1))); });
}
// What inetd gives a program for its output.
WEFT_CHILD(writes_to_a_socket) {
  return weft::run([] { return writes(weft::io::pipe_writer::adopt(broken_pipe_as(1, true))); });
}
WEFT_CHILD(writes_file_to_a_socket) {
  return weft::run([] { return writes(weft::io::file::adopt(broken_pipe_as(2, true))); });
}

// Their threads go on after main().
WEFT_CHILD(leaves_helpers) {
  test_hooks.resolver_delay_ms.set(3);
  return weft::run([] {
    weft::chan<int> c(1);
    weft::signal::notify(c, {SIGUSR1});
    for (int i = 0; i < 10; ++i) {
      weft::go([] {
        std::error_code ec;
        for (;;) weft::net::resolver::lookup("slow.test:80", ec);
      });
    }
    weft::net::resolver::lookup("slow.test:80");
    { const weft::process::child left = weft::process::command("sleep", {"0.01"}).start(); }
    ::raise(SIGUSR1);
    return 7;
  });
}

// A program that nobody waits for is no reason to go on, once it has ended.
WEFT_CHILD(waits_in_vain_after_a_program) {
  using weft::process::stream_choice;
  return weft::run([] {
    weft::io::pipe_writer in;
    {
      auto left = weft::process::command("cat").in(stream_choice::pipe()).start();
      in = std::move(left.in);
    }
    in.close();  // it reads the end
    weft::chan<int>().recv();
    return 6;
  });
}

class Ends : public weft::test::children_over_procs {};

TEST_P(Ends, ByAPipeThatNobodyReads) {
  for (const char* child :
       {"writes_to_output", "writes_to_error", "writes_parts_to_output", "writes_file_to_output"}) {
    EXPECT_EQ(run(child).status, 128 + SIGPIPE) << child;
  }
  for (const char* child :
       {"writes_to_output_and_is_told", "writes_to_error_and_is_told",
        "writes_file_to_output_and_is_told", "writes_elsewhere", "writes_to_input",
        "writes_file_to_input", "writes_to_a_socket", "writes_file_to_a_socket"}) {
    EXPECT_EQ(run(child).status, 5) << child;
  }
}

TEST_P(Ends, WhenAProgramThatNobodyWaitsForHasEnded) {
  const weft::test::child_result r = run("waits_in_vain_after_a_program");
  EXPECT_EQ(r.status, 2) << r.output;
  EXPECT_NE(r.output.find("all goroutines are asleep"), r.output.npos) << r.output;
}

TEST_P(Ends, WhileHelpersAreAtWork) { expect("leaves_helpers", 7, ""); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
