// Connections under random closes, deadlines and resets: every byte that arrives is the right one, nobody
// sleeps for good, no descriptor is left.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/net.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "os/test_hooks.h"
#include "support/sockets.h"
#include "support/storm.h"
#include "support/waiting.h"

namespace {

using weft::clock;
using weft::test::pattern_string;
using weft::test::random_source;
namespace net = weft::net;

class NetStorm : public weft::test::storm {
 protected:
  void TearDown() override {
    weft::rt::os::test_hooks.reset();
    storm::TearDown();
  }
};

bool is_expected(const std::error_code& ec) {
  return ec == std::errc::timed_out || ec == weft::errc::closed || ec == std::errc::broken_pipe ||
         ec == std::errc::connection_reset || ec == weft::errc::unexpected_eof ||
         ec == std::errc::no_buffer_space;
}

// Sends its number back for ever, as the client asks: 8 bytes of stream, then as many of the pattern as came.
void serve(net::tcp_conn c) {
  std::error_code ec;
  char buffer[4000];
  while (const std::size_t n = c.read_some(buffer, ec)) {
    c.write_all({buffer, n}, ec);
    if (ec) break;
  }
  EXPECT_TRUE(!ec || is_expected(ec)) << ec.message();
}

struct server {
  net::tcp_listener l = net::listen("127.0.0.1:0");
  weft::wait_group wg;
  std::string address = l.local_endpoint().to_string();

  server() {
    wg.go([this] {
      for (;;) {
        std::error_code ec;
        net::tcp_conn c = l.accept(ec);
        if (ec) {
          EXPECT_EQ(ec, weft::errc::closed);
          return;
        }
        wg.go([c = std::move(c)]() mutable { serve(std::move(c)); });
      }
    });
  }
  ~server() {
    l.close();
    wg.wait();
  }
};

struct client {
  net::tcp_conn c;
  std::uint64_t stream;
  std::uint64_t sent = 0, got = 0;

  // What comes back is what was sent, in order. False: the connection is at its end.
  bool round(random_source& random) {
    std::error_code ec;
    const auto n = static_cast<std::size_t>(1 + random.below(6000));
    if (random.one_in(4)) {
      c.set_deadline(clock::now() + std::chrono::microseconds(random.below(2000)), ec);
    }
    sent += c.write_all(pattern_string(stream, sent, n), ec);
    std::string buffer(n, '\0');
    while (!ec && got < sent) {
      const std::size_t m = c.read_some(buffer, ec);
      EXPECT_EQ(buffer.substr(0, m), pattern_string(stream, got, m)) << "crossed data";
      got += m;
      if (!ec && m == 0) return false;
    }
    if (ec == std::errc::timed_out) {
      c.set_deadline(clock::time_point::max(), ec);
      return !ec;
    }
    EXPECT_TRUE(!ec || is_expected(ec)) << ec.message();
    return !ec;
  }
};

void connect_and_talk(const std::string& address, random_source& random, std::atomic<int>& talks) {
  std::error_code ec;
  client k{net::dial(address, ec), random.next()};
  if (ec) return;  // resets by chance
  if (random.one_in(3)) {
    // Somebody else closes it at any time.
    weft::wait_group wg;
    wg.go([&k, pause = random.below(300)] {
      for (int i = 0; i < pause; ++i) weft::gosched();
      std::error_code ignored;
      k.c.close(ignored);
    });
    while (k.round(random)) ++talks;
    wg.wait();
    return;
  }
  for (int i = random.below(20); i > 0 && k.round(random); --i) ++talks;
  if (random.one_in(2)) k.c.set_linger(0, ec);
}

TEST_P(NetStorm, ClosesDeadlinesResets) {
  std::atomic<int> talks{0};
  int before = 0;
  run([&] {
    server warm;
    random_source random(1);
    connect_and_talk(warm.address, random, talks);
  });
  before = weft::test::open_descriptors();
  run([&] {
    server s;
    weft::wait_group wg;
    for (int i = 0; i < 64; ++i) {
      wg.go([&, i] {
        random_source random(static_cast<std::uint64_t>(i));
        while (blowing()) connect_and_talk(s.address, random, talks);
      });
    }
    wg.wait();
  });
  EXPECT_GT(talks, 0);
  EXPECT_EQ(weft::test::open_descriptors(), before);
}

// The kernel fails by chance: EINTR, EAGAIN, short, ENOBUFS, ECONNRESET; then all but the last two, and nothing
// may be noticed.
TEST_P(NetStorm, SystemCallsFail) {
  std::atomic<int> talks{0};
  weft::rt::os::test_hooks.io_faults.set(31 * 1'000'000 + 3);
  run([&] {
    server s;
    weft::wait_group wg;
    for (int i = 0; i < 16; ++i) {
      wg.go([&, i] {
        random_source random(static_cast<std::uint64_t>(i));
        while (blowing()) connect_and_talk(s.address, random, talks);
      });
    }
    wg.wait();
  });
  weft::rt::os::test_hooks.io_faults.set(7 * 1'000'000 + 2);
  run([&] {
    server s;
    client k{net::dial(s.address), 5};
    for (std::size_t n = 1; n < 20'000; n = n * 3 + 1) {
      k.c.write_all(pattern_string(5, 0, n));
      std::string back(n, '\0');
      k.c.read_full(back);
      ASSERT_EQ(back, pattern_string(5, 0, n));
    }
  });
}

// X13: ten thousand readers, each blocked at a descriptor of its own, all of which are closed; the numbers are used again
// at once.
TEST_P(NetStorm, TenThousandReadersAreClosed) {
  const std::size_t readers = weft::test::scaled<std::size_t>(10'000, 500);
  if (!weft::test::raise_descriptors(readers + 200)) {
    GTEST_SKIP() << "needs " << readers + 200 << " descriptors (ulimit -n)";
  }
  run([&] {
    std::vector<net::udp_conn> all;
    std::vector<int> numbers;
    for (std::size_t i = 0; i < readers; ++i) {
      const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      ASSERT_GE(fd, 0);
      all.push_back(net::udp_conn::adopt(fd));
      numbers.push_back(fd);
    }
    const std::uint64_t others = weft::test::parked_goroutines();
    std::atomic<std::size_t> closed{0};
    weft::wait_group wg;
    for (auto& c : all) {
      wg.go([&] {
        char buffer[1];
        std::error_code ec;
        c.read_some(buffer, ec);
        closed += ec == weft::errc::closed ? 1 : 0;
      });
    }
    EXPECT_TRUE(weft::test::eventually(
        [&] { return weft::test::parked_goroutines() >= others + readers; }));
    std::size_t reused = 0;
    for (std::size_t i = 0; i < readers; ++i) {
      all[i].close();
      int ends[2];  // one has the number that was just given back
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      reused += ends[0] == numbers[i] || ends[1] == numbers[i] ? 1 : 0;
      net::unix_conn a = net::unix_conn::adopt(ends[0]), b = net::unix_conn::adopt(ends[1]);
      a.write_all("x");
      char buffer[1];
      EXPECT_EQ(b.read_some(buffer), 1u);
      EXPECT_EQ(buffer[0], 'x');
    }
    wg.wait();
    EXPECT_EQ(closed, readers);
    EXPECT_GT(reused, 0u);
  });
}

// … and of one descriptor: one of them waits for news, all others for their turn.
TEST_P(NetStorm, TenThousandReadersOfOneAreSentAway) {
  const auto readers = weft::test::scaled<std::uint64_t>(10'000, 500);
  run([&] {
    net::udp_conn c = net::listen_udp("127.0.0.1:0");
    const std::uint64_t others = weft::test::parked_goroutines();
    std::atomic<std::uint64_t> closed{0};
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < readers; ++i) {
      wg.go([&] {
        char buffer[1];
        net::endpoint from;
        std::error_code ec;
        c.recv_from(buffer, from, ec);
        closed += ec == weft::errc::closed ? 1 : 0;
      });
    }
    EXPECT_TRUE(weft::test::eventually(
        [&] { return weft::test::parked_goroutines() >= others + readers; }));
    c.close();  // returns when they are out
    wg.wait();
    EXPECT_EQ(closed, readers);
  });
}

// … and connections, while they are being blocked at.
TEST_P(NetStorm, AllAreClosedAtOnce) {
  const std::size_t pairs = weft::test::scaled<std::size_t>(200, 20);
  while (blowing()) {
    run([&] {
      std::vector<weft::test::tcp_pair> all(pairs);
      for (auto& p : all) p = weft::test::connected();
      std::atomic<int> closed{0};
      weft::wait_group wg;
      for (auto& p : all) {
        wg.go([&] {
          char buffer[1];
          std::error_code ec;
          p.a.read_some(buffer, ec);
          closed += ec == weft::errc::closed;
        });
      }
      weft::gosched();
      for (auto& p : all) {
        p.a.close();
        auto fresh = weft::test::connected();  // has the number that was just given back
        fresh.a.write_all("x");
        char buffer[1];
        fresh.b.read_full(buffer);
      }
      wg.wait();
      EXPECT_EQ(closed, static_cast<int>(pairs));
    });
    for (int i = 0; i < 63; ++i) static_cast<void>(blowing());  // the clock is asked each time
  }
}

}  // namespace
