// Addresses, UDP, Unix sockets, names.
#include <atomic>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/sockets.h"
#include "support/waiting.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::clock;
using weft::net::endpoint;
namespace net = weft::net;

TEST(Endpoint, TextBothWays) {
  for (const char* text : {"127.0.0.1:80", "255.255.255.255:65535", "[::1]:0", "[2001:db8::1]:443",
                           "[::]:1", "0.0.0.0:0", "[fe80::1%lo]:9"}) {
    EXPECT_EQ(endpoint(text).to_string(), text);
  }
  const endpoint e("192.0.2.7:4711");
  EXPECT_EQ(e.address(), "192.0.2.7");
  EXPECT_EQ(e.port(), 4711);
  EXPECT_TRUE(e.is_v4());
  EXPECT_EQ(e.with_port(5).to_string(), "192.0.2.7:5");
  EXPECT_TRUE(endpoint("[::1]:1").is_v6());
  EXPECT_EQ(endpoint(":8080").to_string(), "[::]:8080");
  EXPECT_FALSE(endpoint());
  EXPECT_EQ(endpoint().to_string(), "");
  EXPECT_EQ(endpoint::unix_path("/tmp/x").address(), "/tmp/x");
  EXPECT_EQ(endpoint::unix_path("@hidden").address(), "@hidden");
  EXPECT_TRUE(endpoint::unix_path("/tmp/x").is_unix());
}

TEST(Endpoint, OfTheFamiliesThatThereAre) {
  const auto from = [](auto address, std::size_t size = 0) {
    return endpoint::from(reinterpret_cast<const sockaddr*>(&address),
                          size == 0 ? sizeof address : size);
  };
  sockaddr_nl other{};
  other.nl_family = AF_NETLINK;
  EXPECT_FALSE(from(other));
  sockaddr_in v4{};
  EXPECT_FALSE(from(v4));  // AF_UNSPEC
  v4.sin_family = AF_INET;
  EXPECT_TRUE(from(v4).is_v4());
  EXPECT_FALSE(from(v4, sizeof v4 - 1));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  EXPECT_TRUE(from(v6).is_v6());
  EXPECT_FALSE(from(v6, sizeof v4));
  const sa_family_t unnamed = AF_UNIX;
  EXPECT_TRUE(from(unnamed).is_unix());
  EXPECT_FALSE(from(unnamed, 1));
  EXPECT_FALSE(endpoint::from(nullptr, sizeof v4));
}

TEST(Endpoint, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"127.0.0.1", "missing port"},  {"::1:80", "too many colons"},
      {"[::1:80", "missing ']'"},     {"[::1]", "missing port"},
      {"1.2.3.4:", "invalid port"},   {"1.2.3.4:65536", "invalid port"},
      {"1.2.3.4:8x", "invalid port"}, {"1.2.3.4:-1", "invalid port"},
      {"example.com:80", "numeric"},  {"1.2.3:80", "numeric"},
      {"[::g]:80", "numeric"},        {"", "missing port"},
      {"a]b:80", "bracket"},          {"1.2.3.4:99999999999999999999", "invalid port"},
  };
  for (const auto& [text, what] : wrong) {
    try {
      const endpoint e(text);
      ADD_FAILURE() << text;
    } catch (const std::system_error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
      EXPECT_EQ(e.code(), std::errc::invalid_argument);
    }
    std::error_code ec;
    EXPECT_FALSE(endpoint::parse(text, ec));
    EXPECT_EQ(ec, std::errc::invalid_argument);
  }
  std::error_code ec;
  endpoint::unix_path(std::string(200, 'x'), ec);
  EXPECT_EQ(ec, std::errc::filename_too_long);
}

class NetKinds : public weft::test::over_procs {};

std::string scratch(const char* name) {
  return "/tmp/weft_" + std::to_string(::getpid()) + "_" + name;
}

TEST_P(NetKinds, Udp) {
  run([&] {
    net::udp_conn a = net::listen_udp("127.0.0.1:0");
    net::udp_conn b = net::listen_udp(":0");  // both families
    const endpoint to_b = endpoint("127.0.0.1:0").with_port(b.local_endpoint().port());
    char buffer[100];
    endpoint from;
    for (int i = 0; i < 20; ++i) {
      const std::string text(static_cast<std::size_t>(i), 'x');
      a.send_to(text, to_b);
      EXPECT_EQ(b.recv_from(buffer, from), text.size());
      EXPECT_EQ(from, a.local_endpoint());
      b.send_to("back", from);
      EXPECT_EQ(a.recv_from(buffer, from), 4u);
    }
    net::udp_conn c = net::dial_udp(to_b.to_string());
    c.write_all("hello");
    EXPECT_EQ(b.recv_from({buffer, 2}, from), 2u);  // the rest is lost
    b.connect(from);
    b.write_all("you");
    EXPECT_EQ(c.read_some(buffer), 3u);
    EXPECT_EQ(c.remote_endpoint(), to_b);
  });
}

// Every address is those of both families, however it is written; but with an address of IPv4 it is one of IPv4.
// Go: net.Listen of "[::]:0"
TEST_P(NetKinds, ListensForBothFamilies) {
  run([&] {
    std::error_code ec;
    if (!net::listen("[::1]:0", ec)) GTEST_SKIP() << "no IPv6 here: " << ec.message();
    for (const char* every : {":0", "[::]:0", "0.0.0.0:0"}) {
      net::tcp_listener l = net::listen(every);
      net::udp_conn u = net::listen_udp(every);
      const bool v6 = every[0] != '0';
      EXPECT_EQ(l.local_endpoint().is_v6(), v6) << every;
      EXPECT_EQ(u.local_endpoint().is_v6(), v6) << every;
      for (const char* here : {"127.0.0.1:0", "[::1]:0"}) {
        if (!v6 && endpoint(here).is_v6()) continue;
        const net::tcp_conn c = net::dial(endpoint(here).with_port(l.local_endpoint().port()), ec);
        ASSERT_FALSE(ec) << every << " from " << here << ": " << ec.message();
        EXPECT_EQ(l.accept().remote_endpoint(), c.local_endpoint());
        net::udp_conn d = net::listen_udp(here);
        d.send_to("hello", endpoint(here).with_port(u.local_endpoint().port()));
        u.set_read_deadline(clock::now() + 20s * weft::test::slowness());
        char buffer[10];
        endpoint from;
        EXPECT_EQ(u.recv_from(buffer, from, ec), 5u) << every << " from " << here;
        EXPECT_EQ(from, d.local_endpoint());
      }
    }
  });
}

bool may_broadcast(int fd) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, SOL_SOCKET, SO_BROADCAST, &value, &size), 0);
  return value != 0;
}

// Go: net setDefaultSockopts
TEST_P(NetKinds, UdpMayBroadcast) {
  run([&] {
    const net::udp_conn l = net::listen_udp("127.0.0.1:0");
    EXPECT_TRUE(may_broadcast(l.native_handle()));
    EXPECT_TRUE(may_broadcast(net::listen_udp(":0").native_handle()));
    EXPECT_TRUE(may_broadcast(net::dial_udp(l.local_endpoint().to_string()).native_handle()));
    const net::unix_datagram u = net::listen_unix_datagram("@" + scratch("narrow"));
    EXPECT_FALSE(may_broadcast(u.native_handle()));
    const net::tcp_listener t = net::listen("127.0.0.1:0");
    EXPECT_FALSE(may_broadcast(t.native_handle()));
  });
}

// 222: also where a message never has to wait; and what has failed has not been sent.
TEST_P(NetKinds, UdpMessagesAndTheirDeadline) {
  run([&] {
    net::udp_conn a = net::listen_udp("127.0.0.1:0");
    net::udp_conn b = net::listen_udp("127.0.0.1:0");
    const endpoint there = b.local_endpoint();
    std::error_code ec;
    for (const auto d : {-1h, 0h}) {
      for (int again = 0; again < 3; ++again) {
        a.set_write_deadline(clock::now() + d);
        EXPECT_EQ(a.send_to("late", there, ec), 0u);
        EXPECT_EQ(ec, std::errc::timed_out);
        EXPECT_EQ(a.send_to("late", there, ec), 0u) << "it stays";
        EXPECT_EQ(ec, std::errc::timed_out);
      }
    }
    a.set_write_deadline(clock::now() + 1h);
    EXPECT_EQ(a.send_to("in time", there), 7u);
    char buffer[10];
    endpoint from;
    EXPECT_EQ(b.recv_from(buffer, from), 7u) << "the first that has arrived";
    const auto soon = clock::now() + 5ms;
    a.set_write_deadline(soon);
    do {
      a.send_to("x", there, ec);
      weft::gosched();
    } while (!ec && clock::now() < soon + 10s * weft::test::slowness());
    EXPECT_EQ(ec, std::errc::timed_out);
    EXPECT_GE(clock::now(), soon);
  });
}

TEST_P(NetKinds, UnixStreams) {
  run([&] {
    const std::string path = scratch("stream");
    for (const std::string& at : {path, "@" + path}) {
      net::unix_listener l = net::listen_unix(at);
      weft::thread serves([&] {
        net::unix_conn c = l.accept();
        char buffer[10];
        while (const std::size_t n = c.read_some(buffer)) c.write_all({buffer, n});
      });
      net::unix_conn c = net::dial_unix(at);
      c.write_all("hello");
      char five[5];
      c.read_full(five);
      EXPECT_EQ(std::string(five, 5), "hello");
      EXPECT_EQ(c.remote_endpoint().address(), at);
      c.close();
      serves.join();
      std::error_code ec;
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      cancel();
      EXPECT_FALSE(net::dial_unix(at, ctx, ec));  // though nobody would have to wait
      EXPECT_EQ(ec, ctx.err());
      net::listen_unix(at, ec);
      EXPECT_EQ(ec, std::errc::address_in_use);
      l.close();
      net::dial_unix(at, ec);
      EXPECT_TRUE(ec);
    }
    struct stat s;
    EXPECT_NE(::stat(path.c_str(), &s), 0) << "the path is left";
  });
}

TEST_P(NetKinds, UnixDatagrams) {
  run([&] {
    net::unix_datagram a = net::listen_unix_datagram(scratch("a"));
    net::unix_datagram b = net::listen_unix_datagram("@" + scratch("b"));
    a.send_to("hello", endpoint::unix_path("@" + scratch("b")));
    char buffer[10];
    endpoint from;
    EXPECT_EQ(b.recv_from(buffer, from), 5u);
    EXPECT_EQ(from, a.local_endpoint());
    b.send_to("x", from);
    EXPECT_EQ(a.recv_from(buffer, from), 1u);
  });
}

// Go: net.Dial("unixgram", …)
TEST_P(NetKinds, DialsUnixDatagrams) {
  run([&] {
    const std::string path = scratch("dialled");
    for (const std::string& at : {path, "@" + path}) {
      net::unix_datagram l = net::listen_unix_datagram(at);
      std::error_code ec;
      const auto [ctx, cancel] = weft::with_cancel(weft::context());
      net::unix_datagram dialled[] = {net::dial_unix_datagram(at), net::dial_unix_datagram(at, ec),
                                      net::dial_unix_datagram(at, ctx),
                                      net::dial_unix_datagram(at, ctx, ec)};
      EXPECT_FALSE(ec) << ec.message();
      for (auto& d : dialled) {
        EXPECT_EQ(d.remote_endpoint().address(), at);
        d.write_all("hello");
        char buffer[10];
        endpoint from = d.remote_endpoint();
        EXPECT_EQ(l.recv_from(buffer, from), 5u);
        EXPECT_FALSE(from) << "it has no name";
      }
      cancel();
      EXPECT_FALSE(net::dial_unix_datagram(at, ctx, ec));  // though nobody would have to wait
      EXPECT_EQ(ec, ctx.err());
      l.close();
      try {
        dialled[0].write_all("nobody");
        ADD_FAILURE() << "it was sent to nobody";
      } catch (const std::system_error& e) {
        EXPECT_EQ(std::string(e.what()), "write unixgram ->" + at + ": Connection refused");
      }
    }
  });
}

TEST_P(NetKinds, DialsUnixDatagramsInVain) {
  run([&] {
    const int before = weft::test::open_descriptors();
    const std::string nowhere = scratch("no_such_path"), too_long(200, 'x');
    std::error_code ec;
    EXPECT_FALSE(net::dial_unix_datagram(nowhere, ec));
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
    EXPECT_FALSE(net::dial_unix_datagram(nowhere, weft::context(), ec));
    EXPECT_EQ(ec, std::errc::no_such_file_or_directory);
    EXPECT_FALSE(net::dial_unix_datagram(too_long, ec));
    EXPECT_EQ(ec, std::errc::filename_too_long);
    const auto fails_with = [&](const std::string& what, auto dial) {
      try {
        dial();
        ADD_FAILURE() << "it was dialled";
      } catch (const std::system_error& e) {
        EXPECT_EQ(e.what(), "dial unixgram " + nowhere + ": " + what);
      }
    };
    fails_with("No such file or directory", [&] { net::dial_unix_datagram(nowhere); });
    const auto [ctx, cancel] = weft::with_cancel(weft::context());
    fails_with("No such file or directory",
               [&, ctx = ctx] { net::dial_unix_datagram(nowhere, ctx); });
    cancel();
    fails_with(ctx.err().message(), [&, ctx = ctx] { net::dial_unix_datagram(nowhere, ctx); });
    const std::string stream = scratch("a_stream");
    const net::unix_listener l = net::listen_unix(stream);
    EXPECT_FALSE(net::dial_unix_datagram(stream, ec));
    EXPECT_EQ(ec, std::errc::wrong_protocol_type);
    EXPECT_EQ(weft::test::open_descriptors(), before + 1);
  });
}

// Who is dialled to a queue that is full waits until there is room.
TEST_P(NetKinds, DialledToAFullQueue) {
  run([&] {
    net::unix_datagram to = net::listen_unix_datagram("@" + scratch("room"));
    net::unix_datagram from = net::dial_unix_datagram("@" + scratch("room"));
    int sent = 0;
    while (::send(from.native_handle(), "x", 1, MSG_DONTWAIT) == 1) ++sent;
    EXPECT_GT(sent, 0);
    std::error_code ec;
    from.set_write_deadline(clock::now() + 5ms);
    EXPECT_EQ(from.write_some("x", ec), 0u);
    EXPECT_EQ(ec, std::errc::timed_out);
    from.set_write_deadline(clock::time_point::max());
    weft::thread sends([&] {
      std::error_code e;
      from.write_all("", e);
      EXPECT_FALSE(e) << e.message();
      from.write_all("x", e);
      EXPECT_FALSE(e) << e.message();
    });
    EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("IO wait"); }));
    to.set_read_deadline(clock::now() + 20s * weft::test::slowness());
    char buffer[10];
    for (int i = 0; i < sent + 2; ++i) {
      EXPECT_EQ(to.read_some(buffer, ec), i == sent ? 0u : 1u);
      if (ec) break;
    }
    EXPECT_FALSE(ec) << ec.message();
    if (ec) from.close();
    sends.join();
  });
}

// f(sender, receiver), of either family, connected to each other.
template <class F>
void with_datagrams(const F& f) {
  const auto both = [&](auto a, auto b) {
    a.connect(b.local_endpoint());
    b.connect(a.local_endpoint());
    b.set_read_deadline(clock::now() + 20s * weft::test::slowness());
    f(a, b);
  };
  both(net::listen_udp("127.0.0.1:0"), net::listen_udp("127.0.0.1:0"));
  both(net::listen_unix_datagram("@" + scratch("sends")),
       net::listen_unix_datagram("@" + scratch("receives")));
}

// Nothing is a message, too. Go: net.Conn.Write of no bytes
TEST_P(NetKinds, EmptyMessages) {
  run([&] {
    with_datagrams([](auto& a, auto& b) {
      const weft::const_buffer none[3];
      const std::span<const weft::const_buffer> parts(none), no_parts;
      std::error_code ec;
      int sent = 0;
      for (const auto& ps : {parts, no_parts}) {
        EXPECT_EQ(a.write_some(ps), 0u);
        EXPECT_EQ(a.write_all(ps, ec), 0u);
        EXPECT_FALSE(ec) << ec.message();
        sent += 2;
      }
      EXPECT_EQ(a.write_some("", ec), 0u);
      EXPECT_FALSE(ec) << ec.message();
      EXPECT_EQ(a.write_all(""), 0u);
      sent += 2;
      a.write_all("end");
      char buffer[10];
      endpoint from;
      int got = 0;
      while (b.recv_from(buffer, from) == 0) {
        EXPECT_EQ(from, a.local_endpoint());
        ++got;
      }
      EXPECT_EQ(got, sent);
      a.set_write_deadline(clock::now());
      a.write_all("", ec);
      EXPECT_EQ(ec, std::errc::timed_out);
      a.close();
      a.write_some("", ec);
      EXPECT_EQ(ec, weft::errc::closed);
    });
  });
}

// However many parts it has, it is one message, or none.
TEST_P(NetKinds, MessagesOfManyParts) {
  run([&] {
    with_datagrams([](auto& a, auto& b) {
      constexpr std::size_t kMost = 1024;  // IOV_MAX
      std::string text(kMost + 1, ' ');
      for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
      std::string got(text.size(), ' ');
      std::vector<weft::const_buffer> out;
      std::vector<weft::mutable_buffer> in;
      for (std::size_t i = 0; i < text.size(); ++i) {
        out.emplace_back(&text[i], 1);
        out.emplace_back();  // these count for nothing
        in.emplace_back(&got[i], 1);
        in.emplace_back();
      }
      const std::span<const weft::const_buffer> all_out(out);
      const std::span<const weft::mutable_buffer> all_in(in);
      for (const std::size_t n : {std::size_t{17}, std::size_t{100}, kMost}) {
        EXPECT_EQ(a.write_some(all_out.first(2 * n)), n);
        EXPECT_EQ(a.write_all(all_out.first(2 * n)), n);
        for (int i = 0; i < 2; ++i) {
          got.assign(text.size(), ' ');
          EXPECT_EQ(b.read_some(all_in.first(2 * kMost)), n);
          EXPECT_EQ(got, text.substr(0, n) + std::string(text.size() - n, ' '));
        }
      }
      std::error_code ec;
      EXPECT_EQ(a.write_some(all_out, ec), 0u);
      EXPECT_EQ(ec, std::errc::message_size) << ec.message();
      EXPECT_EQ(a.write_all(all_out, ec), 0u);
      EXPECT_EQ(ec, std::errc::message_size) << ec.message();
      a.write_all("whole");
      EXPECT_EQ(b.read_some(all_in, ec), 0u);
      EXPECT_EQ(ec, std::errc::message_size) << ec.message();
      EXPECT_EQ(b.read_some(all_in.first(2 * kMost)), 5u) << "it is still there";
      EXPECT_EQ(got.substr(0, 5), "whole");
    });
  });
}

// A queue that is full: whoever sends to it waits for room, though Linux has no news of it for those who are not
// connected to it.
TEST_P(NetKinds, UnixDatagramsToAFullQueue) {
  run([&] {
    net::unix_datagram to = net::listen_unix_datagram("@" + scratch("to"));
    const endpoint there = to.local_endpoint();
    net::unix_datagram from[2];
    for (std::size_t i = 0; i < 2; ++i) {
      from[i] = net::listen_unix_datagram("@" + scratch(i == 0 ? "from0" : "from1"));
    }
    const auto fill = [&](const net::unix_datagram& s) {
      int sent = 0;
      while (::sendto(s.native_handle(), "x", 1, MSG_DONTWAIT, there.data(), there.size()) == 1)
        ++sent;
      return sent;
    };
    const int sent = fill(from[0]);
    EXPECT_GT(sent, 0);
    std::error_code ec;
    from[0].set_write_deadline(weft::clock::now() + 5ms);
    EXPECT_EQ(from[0].send_to("x", there, ec), 0u);
    EXPECT_EQ(ec, std::errc::timed_out);  // deadlines end it
    from[0].set_write_deadline(weft::clock::time_point::max());
    // The second has nothing in the queue yet.
    const std::uint64_t others = weft::test::waiting_goroutines();
    weft::wait_group senders;
    for (auto& f : from) {
      senders.go([&] {
        std::error_code e;
        for (int i = 0; i < 50 && !e; ++i) f.send_to("x", there, e);
        EXPECT_FALSE(e) << e.message();
      });
    }
    EXPECT_TRUE(
        weft::test::eventually([=] { return weft::test::waiting_goroutines() >= others + 2; }));
    char buffer[10];
    endpoint who;
    to.set_read_deadline(weft::clock::now() + 20s * weft::test::slowness());
    int got = 0;
    while (got < sent + 100 && to.recv_from(buffer, who, ec) == 1) ++got;
    EXPECT_EQ(got, sent + 100) << ec.message();
    if (ec) from[0].close(), from[1].close();
    senders.wait();
    if (ec) return;
    // … and so does closing.
    EXPECT_GT(fill(from[1]), 0);
    weft::thread sends([&] {
      std::error_code e;
      from[0].send_to("x", there, e);
      EXPECT_EQ(e, weft::errc::closed);
    });
    weft::gosched();
    from[0].close();
    sends.join();
  });
}

// Where it is connected to changes at once, for whoever asks, and for messages of whoever fails.
TEST_P(NetKinds, ConnectsWhileOthersLook) {
  run([&] {
    net::unix_datagram peers[2];
    std::string names[2];
    for (std::size_t i = 0; i < 2; ++i) {
      names[i] = "@" + scratch("") + std::string(60, static_cast<char>('a' + i));
      peers[i] = net::listen_unix_datagram(names[i]);
    }
    net::unix_datagram c = net::listen_unix_datagram("@" + scratch("c"));
    c.connect(endpoint::unix_path(names[0]));
    c.set_read_deadline(weft::clock::now());
    std::atomic<bool> over{false};
    weft::thread looks([&] {
      while (!over) {
        const std::string at = c.remote_endpoint().address();
        EXPECT_TRUE(at == names[0] || at == names[1]) << at;
        try {
          char buffer[10];
          c.read_some(buffer);
        } catch (const std::system_error& e) {
          const std::string text = e.what();
          EXPECT_TRUE(text.find(names[0]) != text.npos || text.find(names[1]) != text.npos) << text;
        }
        weft::gosched();
      }
    });
    for (int i = 0; i < weft::test::scaled(10'000, 500); ++i) {
      c.connect(endpoint::unix_path(names[i % 2]));
      if (i % 16 == 0) weft::gosched();
    }
    over = true;
    looks.join();
  });
}

// Closed twice, in either form: the second time it says so, and what it was.
template <class T>
void expect_closed_once(T it, const std::string& what) {
  std::error_code ec;
  it.close(ec);
  EXPECT_EQ(ec, std::error_code()) << what;
  EXPECT_EQ(it.native_handle(), -1);
  it.close(ec);
  EXPECT_EQ(ec, weft::errc::closed) << what;
  EXPECT_EQ(ec.message(), "use of closed network connection");
  try {
    it.close();
    ADD_FAILURE() << what << " can be closed again";
  } catch (const std::system_error& e) {
    EXPECT_EQ(std::string(e.what()), "close " + what + ": use of closed network connection");
    EXPECT_EQ(e.code(), weft::errc::closed);
  }
  EXPECT_TRUE(it) << "it is still something";
}

// 228
TEST_P(NetKinds, TheSecondCloseIsAnError) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::string at = l.local_endpoint().to_string();
    net::tcp_conn c = net::dial(at);
    const std::string from = c.local_endpoint().to_string();
    expect_closed_once(std::move(c), "tcp " + from + "->" + at);
    expect_closed_once(l.accept(), "tcp " + at + "->" + from);
    expect_closed_once(std::move(l), "tcp " + at);
    net::udp_conn u = net::listen_udp("127.0.0.1:0");
    const std::string here = u.local_endpoint().to_string();
    expect_closed_once(std::move(u), "udp " + here);
    const std::string path = scratch("twice");
    net::unix_listener ul = net::listen_unix(path);
    expect_closed_once(net::dial_unix(path), "unix ->" + path);
    expect_closed_once(ul.accept(), "unix " + path + "->");  // that side has no name
    expect_closed_once(std::move(ul), "unix " + path);
    EXPECT_NE(::access(path.c_str(), F_OK), 0) << "the path is left";
    expect_closed_once(net::listen_unix_datagram("@" + path), "unixgram @" + path);
    std::error_code ec;
    net::unix_conn().close(ec);  // nothing was ever opened
    EXPECT_EQ(ec, weft::errc::closed);
  });
}

bool would_block(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

// A socket as another library makes it: its calls block.
int blocking_socket(int type, const endpoint& at) {
  const int fd = ::socket(at.family(), type | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(fd, at.data(), static_cast<socklen_t>(at.size())), 0);
  EXPECT_TRUE(would_block(fd));
  return fd;
}

TEST_P(NetKinds, AdoptsUnixListeners) {
  run([&] {
    const int before = weft::test::open_descriptors();
    const std::string path = scratch("adopted");
    const int fd = blocking_socket(SOCK_STREAM, endpoint::unix_path(path));
    ASSERT_EQ(::listen(fd, 5), 0);
    std::error_code ec;
    net::tcp_listener::adopt(fd, ec);
    EXPECT_EQ(ec, weft::errc::mismatch);  // and it stays ours
    net::unix_listener l = net::unix_listener::adopt(fd);
    ASSERT_FALSE(would_block(fd));
    EXPECT_EQ(l.native_handle(), fd);
    EXPECT_EQ(l.local_endpoint().address(), path);
    l.set_deadline(clock::now() + 1ms);
    l.accept(ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    l.set_deadline(clock::time_point::max());
    net::unix_conn c;
    weft::thread accepts([&] { c = l.accept(); });
    weft::gosched();
    net::unix_conn d = net::dial_unix(path);
    accepts.join();
    d.write_all("hello");
    char five[5];
    EXPECT_EQ(c.read_full(five), 5u);
    l.close();
    c.close();
    d.close();
    EXPECT_EQ(weft::test::open_descriptors(), before) << "it was ours to close";
    EXPECT_EQ(::unlink(path.c_str()), 0) << "the path is whose it was";
  });
}

// Messages, of either family.
template <class Datagrams>
void expect_adopted(const endpoint& at, const endpoint& other) {
  const int before = weft::test::open_descriptors();
  const int fd = blocking_socket(SOCK_DGRAM, at);
  Datagrams a = Datagrams::adopt(fd);
  ASSERT_FALSE(would_block(fd));
  Datagrams b = Datagrams::adopt(blocking_socket(SOCK_DGRAM, other));
  std::error_code ec;
  char buffer[10];
  endpoint from;
  a.set_read_deadline(clock::now() + 1ms);
  a.recv_from(buffer, from, ec);
  EXPECT_EQ(ec, std::errc::timed_out);
  a.set_read_deadline(clock::time_point::max());
  weft::thread receives([&] { EXPECT_EQ(a.recv_from(buffer, from), 5u); });
  weft::gosched();
  EXPECT_EQ(b.send_to("hello", a.local_endpoint()), 5u);
  receives.join();
  EXPECT_EQ(from, b.local_endpoint());
  const int stream = ::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  Datagrams::adopt(stream, ec);
  EXPECT_EQ(ec, weft::errc::mismatch);
  ::close(stream);
  a.close();
  b.close();
  EXPECT_EQ(weft::test::open_descriptors(), before) << "it was ours to close";
}

TEST_P(NetKinds, AdoptsDatagrams) {
  run([&] {
    const endpoint any("127.0.0.1:0");
    expect_adopted<net::udp_conn>(any, any);
    expect_adopted<net::unix_datagram>(endpoint::unix_path("@" + scratch("one")),
                                       endpoint::unix_path("@" + scratch("other")));
  });
}

struct raw_pair {
  raw_pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0); }
  int ends[2] = {-1, -1};
};

// X13: what was meant for the one that had the number reaches nobody: its data, its deadline, its close.
TEST_P(NetKinds, ANumberIsUsedAgain) {
  run([&] {
    int reused = 0;
    for (weft::test::budget b(500); b.next();) {
      const raw_pair first, second;
      const int number = first.ends[0];
      net::unix_conn old = net::unix_conn::adopt(number);
      net::unix_conn writes = net::unix_conn::adopt(first.ends[1]);
      EXPECT_EQ(old.native_handle(), number);
      const auto deadline = clock::now() + b.round() % 20 * 50us;
      old.set_read_deadline(deadline);
      weft::wait_group wg;
      wg.go([&] {
        char buffer[10];
        std::error_code ec;
        while (old.read_some(buffer, ec) != 0) {
        }
        EXPECT_TRUE(ec == weft::errc::closed || ec == std::errc::timed_out) << ec.message();
      });
      wg.go([&] {
        std::error_code ec;
        for (int i = 0; i < 3; ++i) writes.write_all("old", ec);  // nobody may be there any more
      });
      weft::gosched();
      old.close();
      // That number, unless somebody else has it by now.
      net::unix_conn fresh =
          net::unix_conn::adopt(::fcntl(second.ends[0], F_DUPFD_CLOEXEC, number));
      ::close(second.ends[0]);
      net::unix_conn other = net::unix_conn::adopt(second.ends[1]);
      reused += fresh.native_handle() == number ? 1 : 0;
      EXPECT_EQ(old.native_handle(), -1);
      std::atomic<bool> wrote{false};
      wg.go([&] {
        char buffer[10];
        std::error_code ec;
        const std::size_t n = fresh.read_some(buffer, ec);
        EXPECT_FALSE(ec) << ec.message();
        EXPECT_EQ(std::string(buffer, n), "new");
        EXPECT_TRUE(wrote);
      });
      EXPECT_TRUE(weft::test::eventually([&] { return clock::now() > deadline + 100us; }));
      wrote = true;
      other.write_all("new");
      wg.wait();
    }
    EXPECT_GT(reused, 0);
  });
}

// Bytes and descriptors of one stream, in turn: what a read left undone says nothing to the next one.
TEST_P(NetKinds, ReadsInTwoWays) {
  run([&] {
    const raw_pair p;
    net::unix_conn a = net::unix_conn::adopt(p.ends[0]);
    net::unix_conn b = net::unix_conn::adopt(p.ends[1]);
    std::error_code ec;
    char c = 0;
    b.set_read_deadline(clock::now() + 20ms);
    b.read_some({&c, 1}, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    b.set_read_deadline(clock::time_point::max());
    weft::thread receives([&] {
      std::size_t count = 0;
      char first = 0;
      EXPECT_EQ(b.recv_fds({&first, 1}, std::span<int>(), count), 1u);
      EXPECT_EQ(first, 'a');
    });
    EXPECT_TRUE(weft::test::eventually([] { return weft::test::somebody_waits_in("IO wait"); }));
    a.write_all("ab");
    receives.join();
    b.set_read_deadline(clock::now() + 10s * weft::test::slowness());
    EXPECT_EQ(b.read_some({&c, 1}, ec), 1u) << ec.message();
    EXPECT_EQ(c, 'b');
  });
}

TEST_P(NetKinds, PassesDescriptors) {
  run([&] {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    net::unix_conn a = net::unix_conn::adopt(fds[0]);
    net::unix_conn b = net::unix_conn::adopt(fds[1]);
    const int before = weft::test::open_descriptors();
    {
      auto [r, w] = weft::io::pipe();
      const int passed[] = {w.native_handle(), w.native_handle()};
      a.write_all("before");
      a.send_fds("!", passed);
      char buffer[100];
      std::size_t count = 0;
      std::size_t n = 0;
      int got[1] = {-1};
      while (n < 7) {
        std::size_t here = 0;
        n += b.recv_fds({buffer + n, sizeof buffer - n}, got, here);
        count += here;
      }
      EXPECT_EQ(std::string(buffer, n), "before!");
      ASSERT_EQ(count, 1u);  // the second had no room
      weft::io::pipe_writer copy = weft::io::pipe_writer::adopt(got[0]);
      copy.write_all("through");
      EXPECT_EQ(r.read_some(buffer), 7u);
    }
    EXPECT_EQ(weft::test::open_descriptors(), before);
  });
}

TEST_P(NetKinds, Names) {
  run([&] {
    std::error_code ec;
    EXPECT_EQ(net::resolver::lookup("127.0.0.1:80"), std::vector{endpoint("127.0.0.1:80")});
    EXPECT_EQ(net::resolver::lookup("[::1]:80"), std::vector{endpoint("[::1]:80")});
    EXPECT_FALSE(net::resolver::lookup("localhost:80", ec).empty());
    net::resolver::lookup("no-such-name.invalid:80", ec);
    EXPECT_TRUE(ec);
    net::resolver::lookup("localhost", ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
    net::resolver::lookup("localhost:99999", ec);
    EXPECT_EQ(ec, std::errc::invalid_argument);
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    cancel();
    net::resolver::lookup("localhost:80", ctx, ec);
    EXPECT_EQ(ec, std::errc::operation_canceled);
  });
}

// Services that this machine knows, of TCP, whose ports anybody may have.
std::vector<std::pair<std::string, std::uint16_t>> known_services() {
  std::vector<std::pair<std::string, std::uint16_t>> all;
  setservent(1);
  while (const servent* s = getservent()) {
    const std::uint16_t port = ntohs(static_cast<std::uint16_t>(s->s_port));
    if (s->s_proto == std::string("tcp") && port >= 1024) all.emplace_back(s->s_name, port);
  }
  endservent();
  return all;
}

// A port may have a name, also where there is no host. Go: net.LookupPort
TEST_P(NetKinds, NamesOfPorts) {
  const auto services = known_services();
  if (services.empty()) GTEST_SKIP() << "/etc/services has none";
  run([&] {
    const auto [name, port] = services.front();
    const std::string number = ":" + std::to_string(port);
    EXPECT_EQ(net::resolver::lookup(":" + name), net::resolver::lookup(number));
    EXPECT_EQ(net::resolver::lookup("127.0.0.1:" + name),
              std::vector{endpoint("127.0.0.1" + number)});
    std::error_code ec;
    bool listened = false;
    for (std::size_t i = 0; i < services.size() && !listened; ++i) {
      const net::tcp_listener l = net::listen(":" + services[i].first, ec);
      if (ec == std::errc::address_in_use) continue;  // another program's
      ASSERT_FALSE(ec) << services[i].first << ": " << ec.message();
      EXPECT_EQ(l.local_endpoint().port(), services[i].second);
      listened = true;
    }
    EXPECT_TRUE(listened);
    for (const char* unknown : {":no-such-service", ":99999", ":", ":-1", ":+99999", ": 4711"}) {
      net::listen(unknown, ec);
      EXPECT_EQ(ec, std::errc::invalid_argument) << unknown;
      net::listen_udp(unknown, ec);
      EXPECT_EQ(ec, std::errc::invalid_argument) << unknown;
      net::resolver::lookup(unknown, ec);
      EXPECT_EQ(ec, std::errc::invalid_argument) << unknown;
    }
  });
}

}  // namespace
