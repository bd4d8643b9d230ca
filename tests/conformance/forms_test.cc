// Every call of net.h, file.h, process.h and signal.h has two forms, one that throws and one that sets an error code; and
// what may take long has them with a context, too. Those that other tests have no use for.
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/process.h>
#include <weft/signal.h>

#include "support/cancelled_when_it_runs.h"
#include "support/files.h"
#include "support/fixture.h"
#include "support/sockets.h"

namespace {

namespace io = weft::io;
namespace net = weft::net;
using net::endpoint;

class Forms : public weft::test::over_procs {};

weft::context cancelled() {
  const auto [ctx, cancel] = weft::with_cancel(weft::context());
  cancel();
  return ctx;
}

// What f throws, or an empty text.
template <class F>
std::string thrown_by(F f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.what();
  }
  return {};
}

// An address at which nobody listens, for as long as this lives.
class nobody {
 public:
  nobody() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const endpoint any("127.0.0.1:0");
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (::bind(fd_, any.data(), static_cast<socklen_t>(any.size())) == 0 &&
        ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
      at = endpoint::from(reinterpret_cast<sockaddr*>(&bound), size);
    }
  }
  ~nobody() { ::close(fd_); }
  nobody(const nobody&) = delete;
  nobody& operator=(const nobody&) = delete;
  endpoint at;

 private:
  int fd_;
};

TEST_P(Forms, DiallingAnAddress) {
  run([] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const endpoint there = l.local_endpoint();
    const weft::context ctx;
    std::error_code ec = std::make_error_code(std::errc::io_error);
    EXPECT_EQ(net::dial(there).remote_endpoint(), there);
    EXPECT_EQ(net::dial(there, ctx).remote_endpoint(), there);
    EXPECT_EQ(net::dial(there, ec).remote_endpoint(), there);
    EXPECT_FALSE(ec);
    EXPECT_EQ(net::dial(there, ctx, ec).remote_endpoint(), there);
    EXPECT_FALSE(ec);
    const nobody refuses;
    EXPECT_FALSE(net::dial(refuses.at, ec));
    EXPECT_EQ(ec, std::errc::connection_refused);
    const std::string refused = "dial tcp " + refuses.at.to_string() + ": Connection refused";
    EXPECT_EQ(thrown_by([&] { net::dial(refuses.at); }), refused);
    EXPECT_EQ(thrown_by([&] { net::dial(refuses.at, ctx); }), refused);
    EXPECT_EQ(thrown_by([&] { net::dial(there, cancelled()); }),
              "dial tcp " + there.to_string() + ": context canceled");
    EXPECT_EQ(thrown_by([&] { net::dial(endpoint::unix_path("/x")); }),
              "dial tcp /x: mismatched address type");
  });
}

TEST_P(Forms, DiallingForMessages) {
  run([] {
    net::udp_conn there = net::listen_udp("127.0.0.1:0");
    const std::string address = there.local_endpoint().to_string();
    const weft::context ctx;
    std::error_code ec = std::make_error_code(std::errc::io_error);
    EXPECT_EQ(net::dial_udp(address, ctx).remote_endpoint(), there.local_endpoint());
    EXPECT_EQ(net::dial_udp(address, ctx, ec).remote_endpoint(), there.local_endpoint());
    EXPECT_FALSE(ec);
    EXPECT_FALSE(net::dial_udp(address, cancelled(), ec));
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_EQ(thrown_by([&] { net::dial_udp(address, cancelled()); }),
              "dial udp " + address + ": context canceled");
  });
}

TEST_P(Forms, WhereASocketIs) {
  run([] {
    auto [a, b] = weft::test::connected();
    std::error_code ec = std::make_error_code(std::errc::io_error);
    EXPECT_EQ(a.local_endpoint(ec), b.remote_endpoint());
    EXPECT_FALSE(ec);
    EXPECT_EQ(a.remote_endpoint(ec), b.local_endpoint());
    EXPECT_FALSE(ec);
    a.close();
    EXPECT_EQ(a.remote_endpoint(ec), b.local_endpoint());
    EXPECT_FALSE(ec);
    net::udp_conn u = net::listen_udp("127.0.0.1:0");
    EXPECT_FALSE(u.remote_endpoint(ec));
    EXPECT_EQ(ec, std::errc::not_connected);
    net::tcp_listener l = net::listen("127.0.0.1:0");
    EXPECT_NE(l.local_endpoint(ec).port(), 0);
    EXPECT_FALSE(ec);
    const auto is_nowhere = [](const auto& handle) {
      std::error_code why;
      return !handle.local_endpoint() && !handle.local_endpoint(why) && why == weft::errc::closed;
    };
    EXPECT_TRUE(is_nowhere(net::tcp_conn()));
    EXPECT_TRUE(is_nowhere(net::tcp_listener()));
    EXPECT_TRUE(is_nowhere(net::unix_listener()));
    EXPECT_FALSE(net::tcp_conn().remote_endpoint(ec));
    EXPECT_EQ(ec, weft::errc::closed);
  });
}

TEST_P(Forms, KeepAlive) {
  run([] {
    auto [a, b] = weft::test::connected();
    const auto option = [fd = a.native_handle()](int name) {
      int value = -1;
      socklen_t size = sizeof value;
      ::getsockopt(fd, IPPROTO_TCP, name, &value, &size);
      return value;
    };
    std::error_code ec;
    a.set_keepalive(7, 8, 4, ec);
    a.set_keepalive(20, ec);
    EXPECT_FALSE(ec);
    EXPECT_EQ(option(TCP_KEEPIDLE), 20);
    EXPECT_EQ(option(TCP_KEEPINTVL), 15);
    EXPECT_EQ(option(TCP_KEEPCNT), 9);
    a.set_keepalive(21, 5, ec);
    EXPECT_FALSE(ec);
    EXPECT_EQ(option(TCP_KEEPIDLE), 21);
    EXPECT_EQ(option(TCP_KEEPINTVL), 5);
    net::tcp_conn().set_keepalive(20, ec);
    EXPECT_EQ(ec, weft::errc::closed);
  });
}

TEST_P(Forms, WritingAFile) {
  run([] {
    const weft::test::folder dir;
    std::error_code ec = std::make_error_code(std::errc::io_error);
    io::write_file(dir / "some", "text", ec);
    EXPECT_FALSE(ec);
    EXPECT_EQ(io::read_file(dir / "some"), "text");
    io::write_file(dir / "no/such/folder", "text", ec);
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
  });
}

TEST_P(Forms, Signals) {
  namespace signal = weft::signal;
  run([] {
    const weft::chan<int> c(1);
    std::error_code ec = std::make_error_code(std::errc::io_error);
    const auto worked = [&] { return !std::exchange(ec, make_error_code(std::errc::io_error)); };
    const auto action = [] {
      struct sigaction now = {};
      sigaction(SIGWINCH, nullptr, &now);
      return now.sa_handler;
    };
    signal::notify(c, ec);
    EXPECT_TRUE(worked());
    ::raise(SIGWINCH);
    EXPECT_EQ(c.recv(), SIGWINCH);
    signal::stop(c, ec);
    EXPECT_TRUE(worked());
    EXPECT_EQ(action(), SIG_DFL);
    signal::ignore({SIGWINCH}, ec);
    EXPECT_TRUE(worked());
    EXPECT_EQ(action(), SIG_IGN);
    signal::reset({SIGWINCH}, ec);
    EXPECT_TRUE(worked());
    EXPECT_EQ(action(), SIG_DFL);
    signal::ignore(ec);
    EXPECT_TRUE(worked());
    EXPECT_EQ(action(), SIG_IGN);
    signal::reset(ec);
    EXPECT_TRUE(worked());
    EXPECT_EQ(action(), SIG_DFL);
    signal::ignore({SIGKILL}, ec);  // left alone
    EXPECT_TRUE(worked());
    signal::notify(nullptr, ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
  });
}

TEST_P(Forms, ProgramsThatAreKilled) {
  using weft::process::command;
  run([] {
    const command sleeps("sleep", {"1000"});
    std::error_code ec;
    EXPECT_EQ(thrown_by([&] { sleeps.run(cancelled()); }), "run sleep: context canceled");
    EXPECT_EQ(thrown_by([&] { sleeps.output(cancelled()); }), "run sleep: context canceled");
    const auto nothing = sleeps.output(cancelled(), ec);  // it was not started
    EXPECT_EQ(nothing.exit_code, -1);
    EXPECT_EQ(nothing.signal, 0);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    const weft::test::cancelled_when_it_runs it;
    const auto killed = command("sh", {"-c", "echo >&0; exec sleep 1000"})
                            .in(weft::process::stream_choice::fd(it.ends[0]))
                            .output(it.ctx, ec);
    EXPECT_EQ(killed.signal, SIGKILL);
    EXPECT_EQ(ec, std::errc::operation_canceled);
    EXPECT_TRUE(command("true").run(weft::context()).ok());
    EXPECT_EQ(command("echo", {"x"}).output(weft::context()).out, "x\n");
    EXPECT_EQ(command("echo", {"x"}).output(weft::context(), ec).out, "x\n");
    EXPECT_FALSE(ec);
  });
}

WEFT_OVER_PROCS(Forms);

}  // namespace
