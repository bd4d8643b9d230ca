// Pipes and descriptors of others. [FD-1], [FD-4], [FD-7]
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <thread>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"
#include "support/thread_state.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::clock;
using weft::test::scaled;
namespace io = weft::io;

class Io : public weft::test::over_procs {};

// 232
TEST_P(Io, PipesCarryBytesUntilTheEnd) {
  run([&] {
    auto [r, w] = io::pipe();
    const std::size_t total = static_cast<std::size_t>(scaled(1'000'000, 100'000));
    weft::thread writes([&, &w = w] {
      for (std::size_t at = 0; at < total;) {
        const std::size_t n = std::min<std::size_t>(at % 5000 + 1, total - at);
        w.write_all(weft::test::pattern_string(1, at, n));
        at += n;
      }
      w.close();
    });
    std::string buffer(3000, '\0');
    std::size_t at = 0;
    while (const std::size_t n = r.read_some(buffer)) {
      ASSERT_EQ(buffer.substr(0, n), weft::test::pattern_string(1, at, n));
      at += n;
    }
    EXPECT_EQ(at, total);
    writes.join();
  });
}

// 232
TEST_P(Io, ClosingEndsBlockedReads) {
  run([&] {
    for (int i = 0; i < scaled(50, 5); ++i) {
      auto [r, w] = io::pipe();
      weft::chan<std::error_code> ended(2);
      weft::go([&, &r = r] {
        char buffer[10];
        std::error_code ec;
        r.read_some(buffer, ec);
        ended.send(ec);
      });
      weft::gosched();
      r.close();
      EXPECT_EQ(ended.recv(), make_error_code(weft::errc::closed));
      std::error_code ec;
      w.write_all("x", ec);  // 233: an error, no signal
      EXPECT_EQ(ec, std::errc::broken_pipe);
    }
  });
}

// What the pipe holds now.
int bytes_in(const io::pipe_reader& r) {
  int n = 0;
  EXPECT_EQ(::ioctl(r.native_handle(), FIONREAD, &n), 0);
  return n;
}

// 232
TEST_P(Io, ClosingEndsBlockedWrites) {
  run([&] {
    for (int i = 0; i < scaled(50, 5); ++i) {
      auto [r, w] = io::pipe();
      weft::chan<std::error_code> ended(1);
      const std::string much(1 << 20, 'x');  // more than it holds
      weft::go([&, &w = w] {
        std::error_code ec;
        EXPECT_LT(w.write_all(much, ec), much.size());
        ended.send(ec);
      });
      // Injected faults make it wait before there is anything, too.
      while (bytes_in(r) == 0 || !weft::test::somebody_waits_in("IO wait")) weft::gosched();
      w.close();
      EXPECT_EQ(ended.recv(), make_error_code(weft::errc::closed));
      // What had been written stays, and then comes the end.
      std::string buffer(1 << 16, '\0');
      std::size_t got = 0;
      while (const std::size_t n = r.read_some(buffer)) got += n;
      EXPECT_GT(got, 0u);
    }
  });
}

// 232: the close meets them before a write, in one, or while they wait, for room or for each other.
TEST_P(Io, ClosingRacesWithWrites) {
  run([&] {
    for (int i = 0; i < scaled(100, 10); ++i) {
      auto [r, w] = io::pipe();
      const bool is_read = i % 2 == 0;
      weft::chan<std::error_code> ended(4);
      for (int n = 0; n < 4; ++n) {
        weft::go([&, &w = w] {
          const std::string some(5000, 'x');
          std::error_code ec;
          while (!ec) w.write_all(some, ec);
          ended.send(ec);
        });
      }
      weft::thread reads([&, &r = r] {
        std::string buffer(1 << 16, '\0');
        while (is_read && r.read_some(buffer) != 0) {
        }
      });
      for (int n = 0; n < i % 10; ++n) weft::gosched();
      w.close();
      for (int n = 0; n < 4; ++n) EXPECT_EQ(ended.recv(), make_error_code(weft::errc::closed));
      reads.join();
    }
  });
}

TEST_P(Io, PipeDeadlines) {
  run([&] {
    auto [r, w] = io::pipe();
    std::error_code ec;
    char buffer[10];
    r.set_read_deadline(clock::now() + 2ms);
    r.read_some(buffer, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    const std::string much(1 << 20, 'x');
    w.set_write_deadline(clock::now() + 2ms);
    EXPECT_LT(w.write_all(much, ec), much.size());
    EXPECT_EQ(ec, std::errc::timed_out);
  });
}

// 234
TEST_P(Io, RegularFilesCannotBePolled) {
  run([&] {
    FILE* f = std::tmpfile();
    std::error_code ec;
    io::poll_fd p(fileno(f), ec);
    EXPECT_EQ(ec, weft::errc::not_pollable);
    io::pipe_reader::adopt(fileno(f), ec);
    EXPECT_EQ(ec, weft::errc::not_pollable);
    EXPECT_EQ(fcntl(fileno(f), F_GETFL) & O_NONBLOCK, 0);  // as it was
    EXPECT_THROW(io::poll_fd(-1), std::system_error);
    std::fclose(f);
  });
}

TEST_P(Io, DescriptorsOfOthers) {
  run([&] {
    const int event = eventfd(0, EFD_CLOEXEC);
    io::poll_fd p(event);
    p.wait_writable();
    weft::thread waits([&] { p.wait_readable(); });
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(event, &one, sizeof one), 8);
    waits.join();
    p.wait_readable();  // it still is
    std::uint64_t value = 0;
    ASSERT_EQ(::read(event, &value, sizeof value), 8);
    std::error_code ec;
    p.wait_readable(clock::now() + 2ms, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    weft::thread cancelled([&, &ctx = ctx] {
      std::error_code e;
      p.wait_readable(ctx, e);
      EXPECT_EQ(e, std::errc::operation_canceled);
    });
    weft::gosched();
    cancel();
    cancelled.join();
    io::poll_fd again(event);  // a second one for the same descriptor
    ASSERT_EQ(::write(event, &one, sizeof one), 8);
    again.wait_readable();
    p.wait_readable();
    p.close();
    EXPECT_EQ(fcntl(event, F_GETFL) & O_NONBLOCK, 0);  // borrowed, and left alone
    ::close(event);
  });
}

// Whoever waits, for either direction, is sent away; the descriptor is the caller's, and stays open.
TEST_P(Io, ClosingEndsWaitsForDescriptorsOfOthers) {
  run([&] {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    while (::send(ends[0], "x", 1, MSG_DONTWAIT) == 1) {
    }
    io::poll_fd p(ends[0]);
    weft::thread reads([&] {
      std::error_code ec;
      p.wait_readable(ec);
      EXPECT_EQ(ec, weft::errc::closed);
    });
    weft::thread writes([&] {
      std::error_code ec;
      p.wait_writable(ec);
      EXPECT_EQ(ec, weft::errc::closed);
    });
    EXPECT_TRUE(
        weft::test::eventually([] { return weft::test::how_many_wait_in("IO wait") == 2; }));
    p.close();
    reads.join();
    writes.join();
    EXPECT_GE(::fcntl(ends[0], F_GETFD), 0);
    for (const int fd : ends) EXPECT_EQ(::close(fd), 0);
  });
}

// Nothing can be written until the other end has read.
TEST_P(Io, WaitsForRoom) {
  run([&] {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    char buffer[4096] = {};
    io::poll_fd p(ends[0]);
    p.wait_writable();
    for (const bool with_limit : {false, true}) {
      while (::write(ends[0], buffer, sizeof buffer) > 0) {
      }
      ASSERT_EQ(weft::test::get_errno(), EAGAIN);
      std::error_code ec;
      p.wait_writable(clock::now() + 2ms, ec);
      EXPECT_EQ(ec, std::errc::timed_out);
      std::atomic<bool> read{false};
      weft::thread waits([&] {
        std::error_code e;
        with_limit ? p.wait_writable(clock::now() + 1h, e) : p.wait_writable(e);
        EXPECT_FALSE(e) << e.message();
        EXPECT_TRUE(read) << "there is no room yet";
      });
      EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("IO wait"); }));
      read = true;
      while (::read(ends[1], buffer, sizeof buffer) > 0) {
      }
      waits.join();
      p.wait_writable();  // there still is
      EXPECT_EQ(::write(ends[0], buffer, 1), 1);
    }
    p.close();
    ::close(ends[0]);
    ::close(ends[1]);
  });
}

[[gnu::noinline]] void use_the_frames_again() {
  volatile char deep[3000];
  for (volatile char& c : deep) c = 1;
}

// Its time comes before it waits, while it begins to, or later: in each case nobody uses its frames afterwards.
TEST_P(Io, ShortTimes) {
  run([&] {
    const int event = eventfd(0, EFD_CLOEXEC);
    io::poll_fd p(event);
    for (int i = 0; i < scaled(1000, 200); ++i) {
      std::error_code ec;
      p.wait_readable(clock::now() + i % 50 * 1us, ec);
      EXPECT_EQ(ec, std::errc::timed_out);
      use_the_frames_again();
    }
    ::close(event);
  });
}

TEST_P(Io, TimersOfTheKernel) {
  run([&] {
    const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    itimerspec t{};
    t.it_value.tv_nsec = 2'000'000;
    const auto begin = clock::now();
    ASSERT_EQ(timerfd_settime(fd, 0, &t, nullptr), 0);
    io::poll_fd p(fd);
    p.wait_readable();
    EXPECT_GE(clock::now() - begin, 2ms);
    ::close(fd);
  });
}

// The kernel tells what happens in a folder.
TEST_P(Io, Inotify) {
  run([&] {
    const weft::test::folder dir;
    const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0 && errno == EMFILE) GTEST_SKIP() << "this user has as many of them as it may";
    ASSERT_GE(inotify_add_watch(fd, dir.path().c_str(), IN_CREATE), 0);
    io::poll_fd p(fd);
    std::error_code ec;
    p.wait_readable(clock::now(), ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    for (const std::string name : {"first", "second"}) {
      weft::thread waits([&] { p.wait_readable(); });
      weft::gosched();
      io::write_file(dir / name.c_str(), "");
      waits.join();
      alignas(inotify_event) char events[4096];
      ASSERT_GT(::read(fd, events, sizeof events), 0);
      EXPECT_EQ(reinterpret_cast<const inotify_event*>(events)->name, name);
    }
    ::close(fd);
  });
}

// [DD-4]: while somebody waits for a descriptor nobody is dead. The writer is another process.
TEST_P(Io, WaitingForADescriptorIsNoDeadlock) {
  FILE* other = popen("read line < /dev/null; sleep 0.05; echo x", "r");
  run([&] {
    io::poll_fd p(fileno(other));
    p.wait_readable();
  });
  EXPECT_EQ(std::fgetc(other), 'x');
  pclose(other);
}

// A P that is never idle does not keep those who wait for descriptors waiting.
TEST_P(Io, NobodyStarvesBesideThoseWhoYield) {
  run([&] {
    auto [r, w] = io::pipe();
    std::atomic<bool> got{false};
    weft::thread reads([&, &r = r] {
      char c[1];
      r.read_full(c);
      got = true;
    });
    weft::gosched();
    w.write_all("x");
    weft::thread other([&] {
      while (!got) weft::gosched();
    });
    while (!got) weft::gosched();
    reads.join();
    other.join();
  });
}

}  // namespace
