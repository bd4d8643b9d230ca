// What accept(), the resolver and writers do when the system fails, or does less than it was asked for.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "gmp/sched.h"
#include "os/clock.h"
#include "os/test_hooks.h"
#include "poll/poller.h"
#include "support/fixture.h"
#include "support/sockets.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::net::endpoint;
using weft::rt::os::test_hooks;
using weft::test::test_clock;
namespace net = weft::net;

class NetFaults : public weft::test::over_procs {
 protected:
  void TearDown() override {
    test_hooks.reset();
    over_procs::TearDown();
  }
};

// 229
TEST_P(NetFaults, AbortedConnectionsAreSkipped) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    net::tcp_conn c = net::dial(l.local_endpoint().to_string());
    test_hooks.accept_aborted_count.set(5);
    EXPECT_TRUE(l.accept());
    EXPECT_EQ(test_hooks.accept_aborted_count.get(), 0);
  });
}

// So many calls fail in this way (io/calls.h), then none.
void fail_next(std::int64_t kind, int times = 1) {
  test_hooks.io_faults_left.set(times);
  test_hooks.io_faults.set(kind * 1'000'000 + 1);
}

TEST_P(NetFaults, AcceptGoesOnWhateverMayPass) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    for (const std::int64_t kind : {1, 2, 8, 128, 256, 512, 2048}) {
      net::tcp_conn c = net::dial(l.local_endpoint().to_string());
      fail_next(kind, 2);
      net::tcp_conn accepted = l.accept();
      EXPECT_EQ(accepted.remote_endpoint(), c.local_endpoint());
      EXPECT_EQ(test_hooks.io_faults_left.get(), 0) << kind;
    }
  });
}

// What is wrong with one connection, or with the net, reaches the caller once; the next one is there. Go does so, too.
TEST_P(NetFaults, AcceptSaysWhatHasFailed) {
  const struct {
    std::int64_t kind;
    int error;
  } all[] = {{4096, EPROTO}, {8192, EPERM}, {16384, ENETDOWN}};
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    for (const auto& f : all) {
      net::tcp_conn c = net::dial(l.local_endpoint().to_string());
      fail_next(f.kind);
      std::error_code ec;
      EXPECT_FALSE(l.accept(ec));
      EXPECT_EQ(ec, std::error_code(f.error, std::system_category()));
      EXPECT_EQ(l.accept().remote_endpoint(), c.local_endpoint());
    }
  });
}

// A TCP connection is under way then, and one waits until it is there, or is not; of everything else nothing has
// happened.
TEST_P(NetFaults, AnInterruptedConnectIsCompleted) {
  run([&] {
    const std::string name = "@weft_interrupted_" + std::to_string(::getpid());
    net::tcp_listener tcp = net::listen("127.0.0.1:0");
    net::unix_listener path = net::listen_unix(name);
    net::unix_datagram messages = net::listen_unix_datagram(name + "_1");
    net::unix_datagram sends = net::listen_unix_datagram(name + "_2");
    net::udp_conn udp = net::listen_udp("127.0.0.1:0");
    const std::string address = tcp.local_endpoint().to_string();
    fail_next(1);
    EXPECT_EQ(net::dial(address).remote_endpoint(), tcp.local_endpoint());
    EXPECT_TRUE(tcp.accept());
    fail_next(1, 2);
    EXPECT_TRUE(net::dial_unix(name));
    EXPECT_TRUE(path.accept());
    fail_next(1, 2);
    EXPECT_EQ(net::dial_udp(udp.local_endpoint().to_string()).remote_endpoint(),
              udp.local_endpoint());
    fail_next(1, 2);
    sends.connect(messages.local_endpoint());
    EXPECT_EQ(sends.remote_endpoint(), messages.local_endpoint());
    EXPECT_EQ(test_hooks.io_faults_left.get(), 0);
    tcp.close();
    fail_next(1);
    std::error_code ec;
    EXPECT_FALSE(net::dial(address, ec));
    EXPECT_EQ(ec, std::errc::connection_refused);
  });
}

// Once, and nothing is left behind.
TEST_P(NetFaults, ConnectSaysWhatHasFailed) {
  const struct {
    std::int64_t kind;
    int error;
  } all[] = {{16, ECONNRESET}, {32, ECONNREFUSED}, {64, EADDRNOTAVAIL}, {1024, EAGAIN}};
  run([&] {
    const std::string name = "@weft_refused_" + std::to_string(::getpid());
    net::tcp_listener tcp = net::listen("127.0.0.1:0");
    net::unix_listener path = net::listen_unix(name);
    net::udp_conn udp = net::listen_udp("127.0.0.1:0");
    const std::string address = tcp.local_endpoint().to_string();
    const int before = weft::test::open_descriptors();
    for (const auto& f : all) {
      const auto expect_failure = [&](const std::string& about, auto connect) {
        fail_next(f.kind);
        try {
          connect();
          ADD_FAILURE() << "it goes on";
        } catch (const std::system_error& e) {
          EXPECT_EQ(e.code(), std::error_code(f.error, std::system_category()));
          EXPECT_EQ(e.what(), about + ": " + e.code().message());
        }
        EXPECT_EQ(test_hooks.io_faults_left.get(), 0);
        connect();
      };
      expect_failure("dial tcp " + address, [&] { net::dial(address); });
      expect_failure("dial unix " + name, [&] { net::dial_unix(name); });
      const std::string there = udp.local_endpoint().to_string();
      expect_failure("dial udp " + there, [&] { net::dial_udp(there); });
      net::udp_conn c = net::listen_udp("127.0.0.1:0");
      expect_failure("connect udp " + c.local_endpoint().to_string() + "->" + there,
                     [&] { c.connect(udp.local_endpoint()); });
    }
    EXPECT_EQ(weft::test::open_descriptors(), before);
  });
}

TEST_P(NetFaults, WithoutDescriptorsAcceptWaitsAndGoesOn) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    net::tcp_conn c = net::dial(l.local_endpoint().to_string());
    test_hooks.accept_emfile_count.set(2);
    EXPECT_TRUE(l.accept());
    EXPECT_EQ(test_hooks.accept_emfile_count.get(), 0);
    // Its deadline and a close end the pause, too.
    net::tcp_conn d = net::dial(l.local_endpoint().to_string());
    test_hooks.accept_emfile_count.set(1'000'000);
    std::error_code ec;
    l.set_deadline(weft::clock::now() + 2ms);
    l.accept(ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    l.set_deadline(weft::clock::time_point::max());
    weft::thread waits([&] {
      std::error_code e;
      l.accept(e);
      EXPECT_EQ(e, weft::errc::closed);
    });
    weft::gosched();
    l.close();
    waits.join();
  });
}

// At once, after 5 ms, after 10 more, after 20 more: not as often as it can.
TEST_P(NetFaults, WithoutDescriptorsAcceptPauses) {
  const auto expect_pauses = [](auto listener) {
    std::error_code ec;
    test_hooks.accept_emfile_count.set(1000);
    listener.set_deadline(weft::clock::now() + 60ms);
    listener.accept(ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(test_hooks.accept_emfile_count.get(), 990);
  };
  run([&] {
    expect_pauses(net::listen("127.0.0.1:0"));
    expect_pauses(net::listen_unix("@weft_pauses_" + std::to_string(::getpid())));
  });
}

// Whoever sends to a full queue of somebody else, with whom it is not connected, tries now and then. The kernel's news,
// which comes with every try, would make it try all the time.
TEST_P(NetFaults, AFullQueueIsNotBesieged) {
  run([&] {
    const std::string name = "@weft_full_" + std::to_string(::getpid());
    net::unix_datagram to = net::listen_unix_datagram(name);
    net::unix_datagram fills = net::listen_unix_datagram(name + "_1");
    net::unix_datagram waits = net::listen_unix_datagram(name + "_2");
    const endpoint there = to.local_endpoint();
    while (::sendto(fills.native_handle(), "x", 1, MSG_DONTWAIT, there.data(), there.size()) == 1) {
    }
    test_hooks.sends_refused.set(0);
    std::error_code ec;
    const auto began = test_clock::now();
    weft::thread sends([&] { waits.send_to("x", there, ec); });
    EXPECT_TRUE(weft::test::eventually([] { return test_hooks.sends_refused.get() > 0; }));
    waits.set_write_deadline(weft::clock::now() + 50ms);
    sends.join();
    EXPECT_EQ(ec, std::errc::timed_out);
    // After 0.05 ms, 0.1, 0.2 … 6.4 ms, then every 10 ms.
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(test_clock::now() - began);
    EXPECT_LE(test_hooks.sends_refused.get(), 10 + took.count() / 10);
  });
}

// While somebody of the resolver's is still on his way to the hook, it must not be reset: he would ask the real one, on a
// network that may not answer. Whoever sleeps has looked at it, or has nothing to do.
void await_resolver() {
  test_hooks.resolver_delay_ms.set(1);
  constexpr int kLooks = 5;
  int quiet = 0;
  EXPECT_TRUE(weft::test::eventually_hogging([&] {
    quiet = weft::test::others_sleep() ? quiet + 1 : 0;
    return quiet == kLooks;
  }));
}

constexpr std::int64_t kOftenShort = 4'000'005;  // every fifth call (io/calls.h)

// What several goroutines write to one stream, each in one call, arrives in one piece, however little the kernel takes
// at a time.
template <class Writer, class Reader>
void expect_whole_messages(Writer& to, Reader& from) {
  constexpr int kWriters = 8;
  constexpr std::size_t kSize = 200;
  const int each = weft::test::scaled(1000, 50);
  test_hooks.io_faults.set(kOftenShort);
  weft::wait_group writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.go([&, i] {
      const std::string message(kSize, static_cast<char>('a' + i));
      for (int n = 0; n < each; ++n) to.write_all(message);
    });
  }
  std::string got(kSize, '\0');
  int torn = 0;
  for (int n = 0; n < kWriters * each; ++n) {
    from.read_full(got);
    torn += got != std::string(kSize, got[0]);
  }
  writers.wait();
  EXPECT_EQ(torn, 0);
}

TEST_P(NetFaults, MessagesOfSeveralWritersStayWhole) {
  run([&] {
    auto [a, b] = weft::test::connected();
    expect_whole_messages(a, b);
    auto [r, w] = weft::io::pipe();
    expect_whole_messages(w, r);
  });
}

TEST_P(NetFaults, TheResolverIsSlow) {
  run([&] {
    std::error_code ec;
    auto [ctx, cancel] = weft::with_timeout(weft::context(), 2ms);
    test_hooks.resolver_delay_ms.set(-1);  // not before the limit, however slow the machine is
    net::resolver::lookup("slow.test:80", ctx, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    cancel();
    test_hooks.resolver_delay_ms.set(20);
    const auto found = net::resolver::lookup("slow.test:80");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].to_string(), "127.0.0.1:80");
    // Others go on meanwhile, and many may ask at once.
    std::vector<weft::thread> all;
    for (int i = 0; i < 40; ++i) {
      all.emplace_back([] { EXPECT_EQ(net::resolver::lookup("slow.test:80").size(), 1u); });
    }
    for (auto& t : all) t.join();
    await_resolver();
  });
}

// Whoever has asked may leave at any time: there is no answer before all have left. Then it is nobody's, and the next one
// gets his own.
TEST_P(NetFaults, AsksTheResolverAndLeaves) {
  test_hooks.resolver_delay_ms.set(-1);
  run([&] {
    const auto expect_cancelled = [](auto ask) {
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      weft::thread asks([&, &ctx = ctx] {
        try {
          ask(ctx);
          ADD_FAILURE() << "it goes on";
        } catch (const std::system_error& e) {
          EXPECT_EQ(e.code(), std::errc::operation_canceled);
          EXPECT_NE(std::string(e.what()).find("slow.test:80: context canceled"), std::string::npos)
              << e.what();
        }
      });
      EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("select"); }));
      cancel();
      asks.join();
    };
    expect_cancelled([](const weft::context& ctx) { net::resolver::lookup("slow.test:80", ctx); });
    expect_cancelled([](const weft::context& ctx) { net::dial("slow.test:80", ctx); });
    expect_cancelled([](const weft::context& ctx) { net::dial_udp("slow.test:80", ctx); });
    test_hooks.resolver_delay_ms.set(1);
    EXPECT_EQ(net::resolver::lookup("slow.test:81"), std::vector{endpoint("127.0.0.1:81")});
    await_resolver();
  });
}

// What /etc/hosts knows nobody has to be asked for.
TEST_P(NetFaults, TheResolverIsNotAskedForHosts) {
  std::ifstream hosts("/etc/hosts");
  const std::string text{std::istreambuf_iterator<char>(hosts), {}};
  if (text.find("localhost") == text.npos) GTEST_SKIP() << "/etc/hosts does not know localhost";
  test_hooks.resolver_delay_ms.set(-1);  // whoever asks gets no answer
  run([&] {
    for (const char* name : {"localhost:80", "LocalHost:80"}) {
      const auto found = net::resolver::lookup(name);
      ASSERT_FALSE(found.empty());
      EXPECT_TRUE(found[0].address() == "127.0.0.1" || found[0].address() == "::1")
          << found[0].to_string();
    }
  });
}

std::uint32_t looks_for_news() {
  return weft::rt::sched.poll_looks.load(std::memory_order_relaxed);
}

// Whether the hook does it: all of these waits would last, but for a stray poller_break(). Nobody else waits meanwhile.
void expect_interruptions() {
  constexpr int kWaits = 20;
  test_hooks.poller_interrupts.set(1);
  int interrupted = 0;
  for (int i = 0; i < kWaits; ++i) {
    weft::rt::poll_news news[weft::rt::kMostNews];
    const std::int64_t until = weft::rt::nanotime() + 50'000'000;
    weft::rt::poller_wait(news, until);
    interrupted += weft::rt::nanotime() < until;
  }
  EXPECT_GT(interrupted, kWaits / 2);
}

// A signal of the program's may meet whoever waits for news, at any time: nothing is lost, nor early.
TEST_P(NetFaults, TheWaitForNewsIsInterrupted) {
  run([&] {
    test_hooks.poller_interrupts.set(2);
    const std::uint32_t looks_before = looks_for_news();
    auto [a, b] = weft::test::connected();
    weft::thread echoes([&b = b] {
      char byte[1];
      while (b.read_some(byte) != 0) b.write_all(byte);
    });
    for (int i = 0; i < weft::test::scaled(200, 20); ++i) {
      char byte[1];
      a.write_all("x");
      ASSERT_EQ(a.read_some(byte), 1u);
    }
    std::error_code ec;
    char byte[1];
    const auto t = weft::clock::now() + 3ms;
    a.set_read_deadline(t);
    a.read_some(byte, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(weft::clock::now(), t);
    a.close();
    echoes.join();
    EXPECT_GE(looks_for_news() - looks_before, 2u);  // so that one of them was
    expect_interruptions();
  });
}

TEST_P(NetFaults, WithoutEpollPwait2) {
  test_hooks.deny_epoll_pwait2.set(1);
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const auto t = weft::clock::now() + 3ms;
    l.set_deadline(t);
    std::error_code ec;
    l.accept(ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(weft::clock::now(), t);
  });
}

}  // namespace
