// The poller takes no more descriptors, or the disk fails: an error reaches the caller once, and nothing is left, or lost.
#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/io.h>
#include <weft/net.h>
#include <weft/process.h>

#include "io/calls.h"
#include "os/test_hooks.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"

namespace {

using weft::io::file;
using weft::process::stream_choice;
using weft::rt::os::test_hooks;
namespace io = weft::io;
namespace net = weft::net;

class Refusals : public weft::test::over_procs {
 protected:
  void TearDown() override {
    test_hooks.reset();
    over_procs::TearDown();
  }
  weft::test::folder dir_;
};

bool would_block(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

// As where fs.epoll.max_user_watches has been reached.
TEST_P(Refusals, ThePollerIsFull) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::string address = l.local_endpoint().to_string();
    const std::string path = dir_ / "socket";
    net::tcp_conn waits = net::dial(address);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const int before = weft::test::open_descriptors();
    const auto expect_full = [&](const char* what, auto make) {
      std::error_code ec;
      test_hooks.poller_add_error.set(ENOSPC);
      make(ec);
      test_hooks.poller_add_error.set(0);
      EXPECT_EQ(ec, std::errc::no_space_on_device) << what;
      EXPECT_EQ(weft::test::open_descriptors(), before) << what;
    };
    expect_full("accept", [&](auto& ec) { EXPECT_FALSE(l.accept(ec)); });
    expect_full("listen", [](auto& ec) { EXPECT_FALSE(net::listen("127.0.0.1:0", ec)); });
    expect_full("dial", [&](auto& ec) { EXPECT_FALSE(net::dial(address, ec)); });
    expect_full("udp", [](auto& ec) { EXPECT_FALSE(net::listen_udp("127.0.0.1:0", ec)); });
    expect_full("dial udp", [](auto& ec) { EXPECT_FALSE(net::dial_udp("127.0.0.1:9", ec)); });
    expect_full("unix", [&](auto& ec) { EXPECT_FALSE(net::listen_unix(path, ec)); });
    EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the path is left";
    expect_full("pipe", [](auto& ec) { io::pipe(ec); });
    expect_full("poll_fd", [&](auto& ec) { io::poll_fd(ends[0], ec); });
    expect_full("adopt", [&](auto& ec) { EXPECT_FALSE(net::unix_conn::adopt(ends[0], ec)); });
    EXPECT_TRUE(would_block(ends[0])) << "it is not as it was";
    expect_full("program", [](auto& ec) {
      weft::process::command("true").in(stream_choice::pipe()).start(ec);
    });
    char end[1];
    EXPECT_EQ(waits.read_some(end), 0u) << "it was accepted, and not closed";
    for (const int fd : ends) ::close(fd);
  });
}

// A FIFO that cannot be polled is read and written by threads.
TEST_P(Refusals, AFifoThatCannotBePolled) {
  run([&] {
    const std::string path = dir_ / "fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    test_hooks.poller_add_error.set(ENOSPC);
    file f = file::open(path, O_RDWR);
    test_hooks.poller_add_error.set(0);
    EXPECT_TRUE(would_block(f.native_handle()));
    f.write_all("hello");
    std::string five(5, ' ');
    EXPECT_EQ(f.read_full(five), 5u);
    EXPECT_EQ(five, "hello");
    std::error_code ec;
    f.set_deadline(weft::clock::now(), ec);
    EXPECT_EQ(ec, weft::errc::no_deadline);
  });
}

constexpr std::int64_t kShort = 4, kBroken = 32768;  // io/calls.h

void fail_next(std::int64_t kinds, int times) {
  test_hooks.io_faults_left.set(times);
  test_hooks.io_faults.set(kinds * 1'000'000 + 1);
}

// By each of the ways: at once, or by the ring, or a thread.
TEST_P(Refusals, TheDiskFails) {
  for (const bool by_ring : {false, true}) {
    test_hooks.force_miss.set(by_ring ? 1 : 0);
    run([&] {
      file f = file::create(dir_ / "file");
      f.write_all("hello");
      std::error_code ec;
      fail_next(kBroken, 1);
      EXPECT_EQ(f.write_all("lost", ec), 0u);
      EXPECT_EQ(ec, std::errc::io_error);
      f.write_all(" again");
      char buffer[20];
      fail_next(kBroken, 1);
      EXPECT_EQ(f.read_at(buffer, 0, ec), 0u);
      EXPECT_EQ(ec, std::errc::io_error);
      EXPECT_EQ(f.read_at(buffer, 0, ec), 11u);
      EXPECT_EQ(std::string(buffer, 11), "hello again");
      EXPECT_EQ(test_hooks.io_faults_left.get(), 0);
    });
  }
}

// … in the middle: what had been done before counts, and is where it belongs.
TEST_P(Refusals, TheDiskFailsInTheMiddle) {
  weft::rt::calls::seed_faults(1);
  run([&] {
    const std::string text = weft::test::pattern_string(1, 0, 100);
    int parts = 0;
    for (int i = 0; i < 100; ++i) {
      file f = file::create(dir_ / "file");
      std::error_code ec;
      fail_next(kShort + kBroken, 3);  // one may be spent on asking whether it would wait
      const std::size_t n = f.write_all(text, ec);
      test_hooks.io_faults.set(0);
      EXPECT_EQ(n == text.size(), !ec);
      EXPECT_TRUE(!ec || ec == std::errc::io_error) << ec.message();
      EXPECT_EQ(io::read_file(dir_ / "file"), text.substr(0, n));
      parts += n > 0 && n < text.size() ? 1 : 0;
    }
    EXPECT_GT(parts, 0);
  });
}

}  // namespace
