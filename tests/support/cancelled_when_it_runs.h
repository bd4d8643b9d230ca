// A context that is cancelled when a program runs.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <weft/context.h>

namespace weft::test {

// A context, and ends[0], an input for a program, which says by it that it runs: then the context is cancelled. Otherwise it
// reads it, to its end.
struct cancelled_when_it_runs {
  cancelled_when_it_runs() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    auto [c, cancel] = weft::with_cancel(weft::context());
    ctx = c;
    cancels = std::thread([fd = ends[1], cancel = cancel] {
      char said = 0;
      if (::read(fd, &said, 1) == 1) cancel();
    });
  }
  ~cancelled_when_it_runs() {
    ::close(ends[0]);
    cancels.join();
    ::close(ends[1]);
  }
  cancelled_when_it_runs(const cancelled_when_it_runs&) = delete;
  cancelled_when_it_runs& operator=(const cancelled_when_it_runs&) = delete;

  int ends[2] = {-1, -1};
  weft::context ctx;
  std::thread cancels;
};

}  // namespace weft::test
