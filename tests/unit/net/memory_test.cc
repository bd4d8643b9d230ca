// No memory at any point: an error reaches the caller, and no descriptor is left.
//
// Each operation is repeated, and each time a later allocation fails, until it needs no more of them.
#include <atomic>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/context.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/process.h>

#include "support/cancelled_when_it_runs.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"

namespace {

constexpr long kNever = -1;
std::atomic<long> allocations_left{kNever};  // until one fails

void* allocate(std::size_t n) {
  if (allocations_left.load(std::memory_order_relaxed) != kNever &&
      allocations_left.fetch_sub(1, std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  return std::malloc(n);
}

}  // namespace

// Not inlined, or g++ sees a free() of what it thinks operator new has made.
[[gnu::noinline]] void* operator new(std::size_t n) {
  void* p = allocate(n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return allocate(n);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace {

namespace net = weft::net;

class NoMemory : public weft::test::over_procs {
 protected:
  // operation() is tried with a failing allocation further and further on; prepare() comes before each. What it makes
  // is gone when it returns. At least so many of them must have failed.
  template <class Prepare, class Operation>
  void at_every_allocation(const char* what, int at_least, Prepare prepare, Operation operation) {
    constexpr long kMost = 1000;
    operation(prepare());  // what is made once
    const int before = weft::test::open_descriptors();
    for (long n = 0; n < kMost; ++n) {
      auto prepared = prepare();
      bool failed = false;
      allocations_left = n;
      try {
        operation(prepared);
      } catch (const std::bad_alloc&) {
        failed = true;
      } catch (const std::system_error& e) {
        failed = true;
        allocations_left = kNever;
        EXPECT_EQ(e.code(), std::errc::not_enough_memory) << what;
      }
      const bool hit = allocations_left < 0;
      allocations_left = kNever;
      prepared = decltype(prepared)();
      // A program that was started, and is nobody's then, is watched until it ends.
      ASSERT_TRUE(weft::test::eventually([&] { return weft::test::open_descriptors() == before; }))
          << what << ", allocation " << n;
      if (!hit) {
        EXPECT_GE(n, at_least) << what;
        return;
      }
      EXPECT_TRUE(failed) << what << ", allocation " << n;
    }
    ADD_FAILURE() << what << ": no end";
  }

  static constexpr auto kNothing = [] { return 0; };
};

TEST_P(NoMemory, Sockets) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const net::endpoint at = l.local_endpoint();
    const std::string address = at.to_string();
    const auto dial_raw = [&] {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(::connect(fd, at.data(), static_cast<socklen_t>(at.size())), 0);
      return net::tcp_conn::adopt(fd);
    };
    at_every_allocation("accept", 1, dial_raw, [&](const auto&) { l.accept(); });
    at_every_allocation("dial", 1, kNothing, [&](int) { net::dial(address); });
    at_every_allocation("listen", 1, kNothing, [&](int) { net::listen("127.0.0.1:0"); });
    at_every_allocation("listen on all", 1, kNothing, [&](int) { net::listen(":0"); });
    at_every_allocation("udp", 1, kNothing, [&](int) { net::listen_udp("127.0.0.1:0"); });
    at_every_allocation("dial udp", 1, kNothing, [&](int) { net::dial_udp("127.0.0.1:9"); });
    const std::string path = "/tmp/weft_no_memory_" + std::to_string(::getpid());
    ::unlink(path.c_str());
    const auto nothing_left = [&] {
      EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the path is left";
      return 0;
    };
    at_every_allocation("listen unix", 2, nothing_left, [&](int) { net::listen_unix(path); });
    at_every_allocation("unix datagrams", 2, nothing_left,
                        [&](int) { net::listen_unix_datagram(path); });
    nothing_left();
    net::unix_listener u = net::listen_unix(path);
    at_every_allocation("dial unix", 1, kNothing, [&](int) { net::dial_unix(path); });
  });
}

TEST_P(NoMemory, PipesAndPrograms) {
  run([&] {
    at_every_allocation("pipe", 2, kNothing, [](int) { weft::io::pipe(); });
    at_every_allocation("poll_fd", 1, kNothing, [](int) {
      auto [r, w] = weft::io::pipe();
      weft::io::poll_fd p(r.native_handle());
    });
    using weft::process::stream_choice;
    at_every_allocation("program", 3, kNothing, [](int) {
      weft::process::command c("true");
      c.in(stream_choice::pipe()).out(stream_choice::pipe()).err(stream_choice::null());
      auto child = c.start();
      child.wait();
    });
    // Whoever reads one of its streams gives up if nobody can be had for the other, though the program goes on. It says
    // nothing: a reader without memory for that could not tell the caller.
    const auto prepare = [] { return std::make_unique<weft::test::cancelled_when_it_runs>(); };
    at_every_allocation("output of a program", 5, prepare, [](const auto& p) {
      std::error_code ec;
      weft::process::command("sh", {"-c", "echo >&0; exec cat"})
          .in(stream_choice::fd(p->ends[0]))
          .output(p->ctx, ec);
      if (ec != std::errc::operation_canceled) throw std::system_error(ec);
    });
  });
}

// Descriptors of this process that are below that directory.
int open_below(const std::string& directory) {
  const std::string whole = std::filesystem::absolute(directory);
  DIR* d = opendir("/proc/self/fd");
  int n = 0;
  while (const dirent* e = readdir(d)) {
    char target[1024] = {};
    readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
    n += std::string_view(target).starts_with(whole);
  }
  closedir(d);
  return n;
}

TEST_P(NoMemory, Files) {
  run([&] {
    const weft::test::folder dir;
    const std::string path = dir / "file", fifo = dir / "fifo";
    weft::io::write_file(path, "text");
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    at_every_allocation("open", 1, kNothing, [&](int) { weft::io::file::open(path); });
    at_every_allocation("fifo", 2, kNothing, [&](int) { weft::io::file::open(fifo, O_RDWR); });
    at_every_allocation("read", 1, kNothing, [&](int) { weft::io::read_file(path); });
    at_every_allocation("list", 2, kNothing, [&](int) { weft::io::read_dir(dir.path()); });
    EXPECT_EQ(open_below(dir.path()), 0);
  });
}

// The descriptor stays the caller's.
TEST_P(NoMemory, Adoption) {
  run([&] {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    allocations_left = 0;
    std::error_code ec;
    net::unix_conn c = net::unix_conn::adopt(fds[0], ec);
    allocations_left = kNever;
    EXPECT_EQ(ec, std::errc::not_enough_memory);
    EXPECT_FALSE(c);
    c = net::unix_conn::adopt(fds[0], ec);
    EXPECT_FALSE(ec);
    net::unix_conn d = net::unix_conn::adopt(fds[1]);
    c.write_all("x");
    char buffer[1];
    EXPECT_EQ(d.read_some(buffer), 1u);
  });
}

}  // namespace
