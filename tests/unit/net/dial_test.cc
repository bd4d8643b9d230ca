// Names and their addresses: what the system's resolver answers, and how several addresses of one family are dialled.
#include "net/dial.h"

#include <chrono>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <string>
#include <utility>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/net.h>
#include <weft/thread.h>

#include "os/test_hooks.h"
#include "support/fixture.h"
#include "support/sockets.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::clock;
using weft::net::endpoint;
using weft::rt::os::test_hooks;
using weft::test::full_listener;
using weft::test::refusing_port;
namespace net = weft::net;

class NetDial : public weft::test::over_procs {
 protected:
  void TearDown() override {
    test_hooks.reset();
    over_procs::TearDown();
  }
};

class NetDialOnce : public weft::test::runtime_test {};

net::tcp_conn dial(const std::vector<endpoint>& to, const weft::context& ctx, std::error_code& ec) {
  return net::net_access::make<net::tcp_conn>(net::dial_any(to, ctx, ec).release());
}

// Nobody has dialled it and is waiting: on loopback that shows at once.
bool was_left_alone(const net::tcp_listener& l) {
  pollfd p{l.native_handle(), POLLIN, 0};
  return ::poll(&p, 1, 0) == 0;
}

// Go: net TestDialerPartialDeadline
TEST(Shares, OfTheTimeThatIsLeft) {
  EXPECT_EQ(net::share_of(12s, 1), 12s);
  EXPECT_EQ(net::share_of(12s, 2), 6s);
  EXPECT_EQ(net::share_of(12s, 3), 4s);
  EXPECT_EQ(net::share_of(12s, 7), 2s);  // not less, if there is so much
  EXPECT_EQ(net::share_of(3s, 2), 2s);
  EXPECT_EQ(net::share_of(1s, 2), 1s);
  EXPECT_EQ(net::share_of(-1s, 2), -1s);
}

TEST_P(NetDial, TheNextAddressIfOneFails) {
  run([&] {
    const refusing_port nobody, nobody_either;
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::vector<endpoint> all{endpoint(nobody.address), endpoint(nobody_either.address),
                                    l.local_endpoint()};
    std::error_code ec;
    net::tcp_conn c = dial(all, weft::context(), ec);
    ASSERT_FALSE(ec) << ec.message();
    EXPECT_EQ(l.accept().remote_endpoint(), c.local_endpoint());
    const auto [ctx, cancel] = weft::with_timeout(weft::context(), 1h);
    net::tcp_conn d = dial(all, ctx, ec);
    ASSERT_FALSE(ec) << ec.message();
    EXPECT_EQ(l.accept().remote_endpoint(), d.local_endpoint());
    cancel();
  });
}

// Two seconds of the twenty, which is one part in ten. All others are good, so that it does not matter to which of them a
// slow machine comes; the last has all that is left.
TEST_F(NetDialOnce, AnAddressThatHangsHasItsShare) {
  constexpr auto kShare = 2s;
  weft::run([&] {
    const full_listener hangs;
    net::tcp_listener l = net::listen("127.0.0.1:0");
    std::vector<endpoint> all(10, l.local_endpoint());
    all[0] = endpoint(hangs.address);
    const int before = weft::test::open_descriptors();
    const auto [ctx, cancel] = weft::with_timeout(weft::context(), 10 * kShare);
    const auto began = clock::now();
    std::error_code ec;
    net::tcp_conn c = dial(all, ctx, ec);
    EXPECT_FALSE(ec) << ec.message();
    EXPECT_GE(clock::now() - began, kShare);
    EXPECT_EQ(c.remote_endpoint(), l.local_endpoint());
    EXPECT_EQ(weft::test::open_descriptors(), before + (c ? 1 : 0));
    cancel();
  });
}

// A refusal that comes late: the first SYN found no room, the second, after a second, nobody who listens.
TEST_F(NetDialOnce, IsRefusedWhileItWaits) {
  weft::run([&] {
    full_listener full;
    const int before = weft::test::open_descriptors();
    weft::thread dials([&] {
      try {
        net::dial(full.address);
        ADD_FAILURE() << "it is connected";
      } catch (const std::system_error& e) {
        EXPECT_EQ(e.what(), "dial tcp " + full.address + ": Connection refused");
      }
    });
    EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("IO wait"); }));
    ::close(std::exchange(full.fd, -1));
    dials.join();
    EXPECT_EQ(weft::test::open_descriptors(), before - 1);
  });
}

// All fail: the first says why.
TEST_P(NetDial, TheFirstErrorCounts) {
  run([&] {
    const refusing_port nobody;
    const endpoint refuses(nobody.address);
    std::error_code ec;
    constexpr std::int64_t kNotAvailable = 64'000'001;  // io/calls.h
    test_hooks.io_faults_left.set(1);
    test_hooks.io_faults.set(kNotAvailable);
    EXPECT_FALSE(dial({refuses, refuses}, weft::context(), ec));
    EXPECT_EQ(ec, std::errc::address_not_available);
    EXPECT_EQ(test_hooks.io_faults_left.get(), 0);
  });
}

TEST_P(NetDial, TheFirstErrorCountsOfUdp) {
  run([&] {
    const endpoint below_a_file = endpoint::unix_path("/dev/null/path");
    const endpoint nowhere = endpoint::unix_path("/no/such/path");
    std::error_code ec;
    EXPECT_FALSE(net::dial_any_udp({below_a_file, nowhere}, weft::context(), ec));
    EXPECT_EQ(ec, std::errc::not_a_directory) << ec.message();
    EXPECT_FALSE(net::dial_any_udp({nowhere, below_a_file}, weft::context(), ec));
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory) << ec.message();
    const endpoint good("127.0.0.1:9");
    EXPECT_TRUE(net::dial_any_udp({nowhere, good}, weft::context(), ec));
    EXPECT_FALSE(ec);
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    cancel();
    EXPECT_FALSE(net::dial_any_udp({nowhere, good}, ctx, ec));
    EXPECT_EQ(ec, ctx.err());
  });
}

// Whoever cancels hears of that, as in Go, and no further address is tried.
TEST_P(NetDial, CancelledBetweenAddresses) {
  run([&] {
    const refusing_port nobody;
    const full_listener hangs;
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const endpoint refuses(nobody.address), waits(hangs.address), good = l.local_endpoint();
    const int before = weft::test::open_descriptors();
    for (const auto& all : {std::vector{waits, good}, std::vector{refuses, waits, good}}) {
      for (const auto limit : {0h, 1h}) {
        auto [parent, stop] = weft::with_cancel(weft::context());
        const auto [ctx, cancel] =
            limit == 0h ? weft::with_cancel(parent) : weft::with_timeout(parent, limit);
        std::error_code ec;
        weft::thread dials([&, &ctx = ctx] { EXPECT_FALSE(dial(all, ctx, ec)); });
        EXPECT_TRUE(
            weft::test::eventually([] { return weft::test::somebody_waits_in("IO wait"); }));
        stop();
        dials.join();
        EXPECT_EQ(ec, std::errc::operation_canceled) << ec.message();
        EXPECT_TRUE(was_left_alone(l));
        cancel();
      }
    }
    EXPECT_EQ(weft::test::open_descriptors(), before);
  });
}

// Neither a number that we understand nor in /etc/hosts, and yet no server has to be asked.
constexpr const char* kOldFashioned = "127.1";

// What getaddrinfo() finds.
TEST_P(NetDial, TheSystemsResolverAnswers) {
  run([&] {
    test_hooks.resolver_delay_ms.set(-1);
    weft::chan<std::vector<endpoint>> answer(1);
    weft::go([=] {
      std::error_code ec;
      answer.send(net::resolver::lookup(std::string(kOldFashioned) + ":4711", ec));
    });
    EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("select"); }))
        << "it has not been asked";
    test_hooks.resolver_delay_ms.set(0);
    EXPECT_EQ(answer.recv(), std::vector{endpoint("127.0.0.1:4711")});

    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::string port = std::to_string(l.local_endpoint().port());
    std::error_code ec;
    net::tcp_conn c = net::dial(std::string(kOldFashioned) + ":" + port, ec);
    ASSERT_FALSE(ec) << ec.message();
    EXPECT_EQ(l.accept().remote_endpoint(), c.local_endpoint());
  });
}

// Names of services are the system's to know, as far as it knows any.
TEST_P(NetDial, NamesOfServices) {
  const servent* http = ::getservbyname("http", "tcp");
  const bool is_known = http != nullptr;
  run([&] {
    std::error_code ec;
    const auto found = net::resolver::lookup("127.0.0.1:http", ec);
    if (is_known) {
      EXPECT_EQ(found, std::vector{endpoint("127.0.0.1:80")}) << ec.message();
    } else {
      EXPECT_EQ(ec, std::errc::invalid_argument);
    }
    for (const endpoint& e : net::resolver::lookup("localhost:http", ec)) {
      EXPECT_TRUE(e == endpoint("127.0.0.1:80") || e == endpoint("[::1]:80")) << e.to_string();
    }
    EXPECT_EQ(!ec, is_known) << ec.message();
    net::resolver::lookup("127.0.0.1:no-such-service", ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
  });
}

// A label of a name has 63 letters at most: so that no server has to be asked.
TEST_P(NetDial, NoSuchHost) {
  run([&] {
    const std::string nobody = std::string(64, 'x') + ".invalid:80";
    std::error_code ec;
    EXPECT_TRUE(net::resolver::lookup(nobody, ec).empty());
    EXPECT_EQ(ec, weft::errc::no_such_host) << ec.message();
    EXPECT_FALSE(net::dial(nobody, ec));
    EXPECT_EQ(ec, weft::errc::no_such_host) << ec.message();
    try {
      net::dial(nobody);
      ADD_FAILURE() << "it is there";
    } catch (const std::system_error& e) {
      EXPECT_EQ(e.what(), "dial tcp " + nobody + ": no such host");
    }
  });
}

WEFT_OVER_PROCS(NetDial);

}  // namespace
