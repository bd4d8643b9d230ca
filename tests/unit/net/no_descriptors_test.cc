// What the network does in a process that has no descriptor left. Without sysmon, who opens files now and then, and would
// leave a descriptor to somebody else when it closes them.
#include <atomic>
#include <csignal>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <weft/chan.h>
#include <weft/net.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/signal.h>
#include <weft/thread.h>

#include "os/test_hooks.h"
#include "support/fixture.h"

namespace {

namespace net = weft::net;

class NoDescriptors : public weft::test::over_procs {
 protected:
  static void SetUpTestSuite() { weft::rt::os::test_hooks.no_sysmon.set(1); }
};

// The real thing: the process has no descriptor left.
TEST_P(NoDescriptors, RealExhaustion) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    net::tcp_conn c = net::dial(l.local_endpoint().to_string());
    // UBSan looks at the type of each category once, and needs a pipe for it.
    EXPECT_NE(std::error_code(), std::errc::too_many_files_open);
    rlimit old{};
    getrlimit(RLIMIT_NOFILE, &old);
    std::vector<int> taken;
    rlimit few = old;
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
    std::error_code ec;
    net::dial("127.0.0.1:1", ec);
    EXPECT_EQ(ec, std::errc::too_many_files_open);
    std::atomic<bool> accepted{false};
    weft::thread accepts([&] {
      EXPECT_TRUE(l.accept());
      accepted = true;
    });
    weft::gosched();
    EXPECT_FALSE(accepted);
    for (int fd : taken) ::close(fd);
    accepts.join();
    setrlimit(RLIMIT_NOFILE, &old);
  });
}

// Descriptors that were sent, and that this process may not have.
TEST_P(NoDescriptors, PassedDescriptorsAreNotLostSilently) {
  run([&] {
    EXPECT_NE(std::error_code(), std::errc::too_many_files_open);  // as above
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    net::unix_conn a = net::unix_conn::adopt(ends[0]), b = net::unix_conn::adopt(ends[1]);
    const int sent[] = {0, 1, 2};
    a.send_fds("text", sent);
    const int next = ::dup(0);
    ::close(next);
    rlimit old{};
    getrlimit(RLIMIT_NOFILE, &old);
    rlimit few = old;
    few.rlim_cur = static_cast<rlim_t>(next) + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    int got[3];
    std::size_t count = 0;
    char text[4];
    std::error_code ec;
    const std::size_t n = b.recv_fds(text, got, count, ec);
    setrlimit(RLIMIT_NOFILE, &old);
    EXPECT_EQ(ec, std::errc::too_many_files_open);
    EXPECT_EQ(std::string(text, n), "text");
    EXPECT_LE(count, 1u);  // the runtime may have needed it
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(::close(got[i]), 0);
  });
}

WEFT_OVER_PROCS(NoDescriptors);

// Once in a process: from then on it has what it needs.
class NoDescriptorsYet : public weft::test::runtime_test {};

TEST_F(NoDescriptorsYet, ForSignals) {
  weft::run([&] {
    EXPECT_NE(std::error_code(), std::errc::too_many_files_open);  // as above
    const weft::chan<int> c(1);
    EXPECT_THROW(weft::signal::notify(c, {SIGKILL}), std::system_error);  // likewise, at exceptions
    rlimit old{};
    getrlimit(RLIMIT_NOFILE, &old);
    rlimit few = old;
    few.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &few);
    std::error_code ec;
    weft::signal::notify(c, {SIGUSR1}, ec);
    EXPECT_THROW(weft::signal::notify(c, {SIGUSR1}), std::system_error);
    setrlimit(RLIMIT_NOFILE, &old);
    EXPECT_EQ(ec, std::errc::too_many_files_open);
    weft::signal::notify(c, {SIGUSR1}, ec);
    EXPECT_FALSE(ec);
    ::raise(SIGUSR1);
    EXPECT_EQ(c.recv(), SIGUSR1);
    weft::signal::stop(c);
  });
}

}  // namespace
