// A crowd of connections, all open at once, under random closes, deadlines and resets from both sides: every byte that
// arrives is the right one, nobody sleeps for good, no descriptor is left.
//
// WEFT_NET_CONNECTIONS says how many (300); the full form has 10,000, and minutes. The server is a process of its own, so
// that each needs a descriptor per connection and not two.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/run.h>
#include <weft/signal.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/program.h"
#include "support/sockets.h"
#include "support/storm.h"

namespace {

using weft::clock;
using weft::test::pattern;
using weft::test::pattern_string;
using weft::test::program;
using weft::test::random_source;
namespace net = weft::net;

int wanted_connections() {
  const char* text = std::getenv("WEFT_NET_CONNECTIONS");
  return text != nullptr ? std::atoi(text) : weft::test::scaled(300, 50);
}

bool is_end(const std::error_code& ec) {
  return ec == weft::errc::closed || ec == std::errc::broken_pipe ||
         ec == std::errc::connection_reset ||
         ec == std::errc::not_connected;  // shutdown() of one that was reset
}

// --- the server ----------------------------------------------------------------------------------

std::atomic<int> mistakes{0};

void check(bool right, const char* what, const std::string& details) {
  if (!right) {
    std::fprintf(stderr, "server: %s: %s\n", what, details.c_str());
    ++mistakes;
  }
}

// Sends back what comes; some lose patience and hang up, or reset.
void serve(net::tcp_conn c, std::uint64_t number) {
  random_source random(number);
  const int patience = random.one_in(8) ? random.below(10) : -1;
  char buffer[2000];
  std::error_code ec;
  for (int i = 0; i != patience; ++i) {
    const std::size_t n = c.read_some(buffer, ec);
    if (n == 0) break;
    c.write_all({buffer, n}, ec);
    if (ec) break;
  }
  check(!ec || is_end(ec), "connection", ec.message());
  if (random.one_in(2)) c.set_linger(0, ec);
}

void accept_all(net::tcp_listener& l, weft::wait_group& wg, std::uint64_t& accepted) {
  for (;;) {
    std::error_code ec;
    net::tcp_conn c = l.accept(ec);
    if (ec) return check(ec == weft::errc::closed, "accept", ec.message());
    wg.go([c = std::move(c), n = ++accepted]() mutable { serve(std::move(c), n); });
  }
}

int run_server() {
  weft::chan<int> quit(1);
  weft::signal::notify(quit, {SIGTERM});
  weft::test::raise_descriptors(0);
  net::tcp_listener l = net::listen("0.0.0.0:0");
  const int before = weft::test::open_descriptors();
  std::printf("serving on %s\n", l.local_endpoint().to_string().c_str());
  std::fflush(stdout);
  weft::go([] {
    // The clients' process has gone, without a word.
    auto in = weft::io::pipe_reader::adopt(STDIN_FILENO);
    char c;
    in.read_some({&c, 1});
    ::_exit(3);
  });
  weft::wait_group wg;
  std::uint64_t accepted = 0;
  wg.go([&] { accept_all(l, wg, accepted); });
  quit.recv();
  l.close();
  wg.wait();
  const int after = weft::test::open_descriptors() + 1;  // the listener
  check(after == before, "descriptors",
        std::to_string(before) + " have become " + std::to_string(after));
  std::printf("%llu connections\n", static_cast<unsigned long long>(accepted));
  return mistakes == 0 ? 0 : 1;
}

// --- the clients ---------------------------------------------------------------------------------

// One of very many addresses of this machine: none runs out of ports, however many wait for their end.
std::string some_address(const program& server, random_source& random) {
  return "127." + std::to_string(random.below(250)) + '.' + std::to_string(random.below(250)) +
         '.' + std::to_string(1 + random.below(250)) +
         server.address().substr(server.address().rfind(':'));
}

// None: the server was so quick to reset it that connecting has failed.
net::tcp_conn dial_somewhere(const program& server, random_source& random) {
  std::error_code ec;
  net::tcp_conn c = net::dial(some_address(server, random), ec);
  EXPECT_TRUE(!ec || is_end(ec)) << ec.message();
  return c;
}

struct client {
  net::tcp_conn c;
  std::uint64_t stream;
  std::uint64_t sent = 0, got = 0;

  void send(std::size_t n, std::error_code& ec) {
    sent += c.write_all(pattern_string(stream, sent, n), ec);
  }

  // Until everything has come back, or the end. False: it has ended.
  bool receive(std::error_code& ec) {
    char buffer[3000];
    while (got < sent) {
      const std::size_t n = c.read_some(buffer, ec);
      for (std::size_t i = 0; i < n; ++i) {
        if (buffer[i] != pattern(stream, got + i)) {
          ADD_FAILURE() << "crossed data";
          return false;
        }
      }
      got += n;
      if (n == 0) return false;
    }
    return true;
  }

  // Sends some, and gets it back. False: the connection is at its end.
  bool round(random_source& random) {
    std::error_code ec;
    const bool limited = random.one_in(4);
    if (limited) c.set_deadline(clock::now() + std::chrono::microseconds(random.below(3000)), ec);
    send(static_cast<std::size_t>(1 + random.below(4000)), ec);
    if (!ec && receive(ec)) {
      if (limited) c.set_deadline(clock::time_point::max(), ec);
      return !ec;
    }
    if (ec == std::errc::timed_out && limited) {
      // What is on its way still comes, once the deadline is lifted.
      c.set_deadline(clock::time_point::max(), ec);
      return !ec && receive(ec);
    }
    EXPECT_TRUE(!ec || is_end(ec)) << ec.message();
    return false;
  }

  // In one of several ways.
  void end(random_source& random) {
    std::error_code ec;
    switch (random.below(4)) {
      case 0: c.set_linger(0, ec); break;  // a reset
      case 1:  // what was asked for comes, although no more will be asked
        send(1000, ec);
        if (!ec) c.shutdown_write(ec);
        if (!ec) receive(ec);
        EXPECT_TRUE(!ec || is_end(ec)) << ec.message();
        break;
      case 2: send(3000, ec); break;  // unread data: a reset, too
      default: break;
    }
  }
};

class NetCrowd : public weft::test::storm {
 protected:
  // One connection, from its beginning to its end.
  void live(const program& s, random_source& random) {
    client k{dial_somewhere(s, random), random.next()};
    if (!k.c) return;
    if (random.one_in(4)) {
      weft::wait_group wg;  // somebody else closes it at any time
      wg.go([&k, pause = random.below(200)] {
        for (int i = 0; i < pause; ++i) weft::gosched();
        std::error_code ignored;
        k.c.close(ignored);
      });
      while (k.round(random)) ++rounds_;
      wg.wait();
      return;
    }
    bool alive = true;
    for (int i = random.below(20); i > 0 && alive; --i) {
      alive = k.round(random);
      rounds_ += alive;
    }
    if (alive) k.end(random);
  }

  std::atomic<long> rounds_{0};
};

TEST_P(NetCrowd, AllAtOnce) {
  const int connections = wanted_connections();
  const auto descriptors = static_cast<rlim_t>(connections + 200);
  if (!weft::test::raise_descriptors(descriptors)) {
    GTEST_SKIP() << connections << " connections need " << descriptors
                 << " descriptors (ulimit -Hn)";
  }
  run([&] {
    program server("/proc/self/exe", {"--serve", std::to_string(procs())});
    random_source one(1);
    live(server, one);
    const int before = weft::test::open_descriptors();
    weft::wait_group wg, all_there;
    all_there.add(connections);
    for (int i = 0; i < connections; ++i) {
      wg.go([&, i] {
        random_source random(static_cast<std::uint64_t>(i));
        {
          client first{dial_somewhere(server, random), random.next()};
          all_there.done();
          all_there.wait();
          if (first.c) first.round(random);
        }
        while (blowing()) live(server, random);
      });
    }
    wg.wait();
    EXPECT_EQ(weft::test::open_descriptors(), before);
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
    std::printf("%s%ld exchanges\n", server.output().c_str(), rounds_.load());
  });
}

WEFT_OVER_PROCS(NetCrowd);

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--serve") {
    return weft::run(run_server, {.max_procs = std::atoi(argv[2])});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
