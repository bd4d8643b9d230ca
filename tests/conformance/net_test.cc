// Go's package net over goroutines: connections, deadlines, closing, errors. [NP-10], [NP-11], [FD-1] to [FD-7]
//
// Numbers in comments are rows of Go's own tests.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <numeric>
#include <span>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/seed.h"
#include "support/sockets.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::clock;
using weft::test::connected;
using weft::test::eventually;
using weft::test::full_listener;
using weft::test::pattern_string;
using weft::test::refusing_port;
using weft::test::scaled;
namespace net = weft::net;

class Net : public weft::test::over_procs {};

std::string text_of(const std::system_error& e) { return e.what(); }

// Blocks in f on a goroutine of its own; the error it ends with.
template <class F>
weft::chan<std::error_code> blocked_in(F f) {
  weft::chan<std::error_code> ended(1);
  weft::chan<int> begun;
  weft::go([=]() mutable {
    std::error_code ec;
    begun.send(1);
    f(ec);
    ended.send(ec);
  });
  begun.recv();
  weft::gosched();
  return ended;
}

// --- data ----------------------------------------------------------------------------------------

TEST_P(Net, EveryByteArrives) {
  run([&] {
    auto [a, b] = connected();
    const std::size_t total = static_cast<std::size_t>(scaled(2'000'000, 100'000));
    weft::thread writes([&, &a = a] {
      std::size_t at = 0, step = 1;
      while (at < total) {
        const std::size_t n = std::min(step, total - at);
        a.write_all(pattern_string(7, at, n));
        at += n;
        step = step * 3 % 100'003 + 1;
      }
      a.shutdown_write();
    });
    std::string buffer(70'000, '\0');
    std::size_t at = 0;
    while (const std::size_t n = b.read_some(buffer)) {
      ASSERT_EQ(buffer.substr(0, n), pattern_string(7, at, n));
      at += n;
    }
    EXPECT_EQ(at, total);
    writes.join();
  });
}

TEST_P(Net, RequestAndAnswer) {
  run([&] {
    auto [a, b] = connected();
    weft::thread serves([&b = b] {
      char buffer[100];
      while (const std::size_t n = b.read_some(buffer)) b.write_all({buffer, n});
    });
    char buffer[100];
    for (int i = 0; i < scaled(2000, 100); ++i) {
      const std::string text = std::to_string(i);
      a.write_all(text);
      ASSERT_EQ(a.read_full({buffer, text.size()}), text.size());
      ASSERT_EQ(std::string(buffer, text.size()), text);
    }
    a.close();
    serves.join();
  });
}

TEST_P(Net, PlainThreadsMayUseConnections) {
  net::tcp_listener l = net::listen("127.0.0.1:0");
  std::thread server([&] {
    net::tcp_conn c = l.accept();
    char buffer[10];
    while (const std::size_t n = c.read_some(buffer)) c.write_all({buffer, n});
  });
  net::tcp_conn c = net::dial(l.local_endpoint().to_string());
  for (int i = 0; i < 20; ++i) {
    c.write_all("hello");
    char buffer[5];
    c.read_full(buffer);
    EXPECT_EQ(std::string(buffer, 5), "hello");
  }
  c.set_read_deadline(clock::now() + 1ms);
  char buffer[5];
  std::error_code ec;
  c.read_some(buffer, ec);
  EXPECT_EQ(ec, std::errc::timed_out);
  c.close();
  server.join();
}

TEST_P(Net, SeveralBuffersInOneCall) {
  run([&] {
    auto [a, b] = connected();
    std::vector<std::string> texts;
    std::string all;
    for (std::size_t i = 0; i < 3000; ++i) {
      texts.push_back(pattern_string(i, 0, i % 97));
      all += texts.back();
    }
    std::vector<weft::const_buffer> parts(texts.begin(), texts.end());
    weft::thread writes([&, &a = a] {
      EXPECT_EQ(a.write_all(std::span<const weft::const_buffer>(parts)), all.size());
    });
    std::string got(all.size(), '\0');
    b.read_full(got);
    EXPECT_EQ(got, all);
    writes.join();
  });
}

// 235
TEST_P(Net, ManyReadersShareOneConnection) {
  run([&] {
    auto [a, b] = connected();
    const int n = scaled(20'000, 1000);
    std::atomic<int> bytes{0}, ones{0};
    weft::wait_group wg;
    for (int i = 0; i < 8; ++i) {
      wg.go([&, &b = b] {
        char buffer[7];
        while (const std::size_t got = b.read_some(buffer)) {
          bytes += static_cast<int>(got);
          ones += static_cast<int>(std::count(buffer, buffer + got, 'x'));
        }
      });
    }
    weft::wait_group writers;
    for (int i = 0; i < 4; ++i) {
      writers.go([&, &a = a] {
        for (int k = 0; k < n / 4; ++k) a.write_all("x");
      });
    }
    writers.wait();
    a.close();
    wg.wait();
    EXPECT_EQ(bytes, n / 4 * 4);
    EXPECT_EQ(ones, n / 4 * 4);
  });
}

// Asked for the descriptor by several while it is used, and closed: the number, and -1 from then on.
template <class Reader, class Writer>
void expect_its_number(Reader& r, Writer& w) {
  const std::size_t total = static_cast<std::size_t>(scaled(40'000, 4000));
  std::atomic<int> number{-1}, answers{0};
  std::atomic<bool> closing{false}, closed{false};
  weft::wait_group asking, wg;
  for (int i = 0; i < 4; ++i) {
    asking.go([&] {
      while (!closed) {
        const int n = r.native_handle();
        int first = -1;
        EXPECT_TRUE(n < 0 ? closing.load()
                          : number.compare_exchange_strong(first, n) || first == n);
        EXPECT_GE(w.native_handle(), 0);
        ++answers;
        weft::gosched();
      }
      EXPECT_EQ(r.native_handle(), -1);
    });
  }
  wg.go([&] {
    for (std::size_t at = 0; at < total;) {
      const std::size_t n = std::min<std::size_t>(at % 70 + 1, total - at);
      w.write_all(pattern_string(3, at, n));
      at += n;
    }
  });
  std::atomic<std::size_t> got{0};
  std::error_code ec;
  wg.go([&] {
    char buffer[100];
    while (const std::size_t n = r.read_some(buffer, ec)) {
      EXPECT_EQ(std::string(buffer, n), pattern_string(3, got, n));
      got += n;
    }
  });
  EXPECT_TRUE(eventually([&] { return got == total && answers > 0; }));
  closing = true;
  r.close();
  closed = true;
  wg.wait();
  asking.wait();
  EXPECT_EQ(ec, weft::errc::closed);
  EXPECT_EQ(got, total);
}

// 235: os TestFdRace
TEST_P(Net, AskedForTheDescriptorMeanwhile) {
  run([&] {
    auto [a, b] = connected();
    expect_its_number(b, a);
    auto [r, w] = weft::io::pipe();
    expect_its_number(r, w);
  });
}

// 230
TEST_P(Net, ReadingNothingReturnsAtOnce) {
  run([&] {
    auto [a, b] = connected();
    EXPECT_EQ(b.read_some(weft::mutable_buffer()), 0u);
    a.write_all("x");
    EXPECT_EQ(b.read_some(weft::mutable_buffer()), 0u);
    EXPECT_EQ(a.write_some(weft::const_buffer()), 0u);
  });
}

TEST_P(Net, TheEndOfAStream) {
  run([&] {
    auto [a, b] = connected();
    a.write_all("abc");
    a.shutdown_write();
    char buffer[10];
    EXPECT_EQ(b.read_some(buffer), 3u);
    EXPECT_EQ(b.read_some(buffer), 0u);  // the end came with the data: no more news of it
    EXPECT_EQ(b.read_some(buffer), 0u);
    std::error_code ec;
    EXPECT_EQ(b.read_full(buffer, ec), 0u);
    EXPECT_EQ(ec, weft::errc::unexpected_eof);
    b.write_all("still");  // only one half is closed
    char five[5];
    EXPECT_EQ(a.read_full(five), 5u);
    b.shutdown_read();
    EXPECT_EQ(b.read_some(buffer), 0u);
  });
}

// The end, a reset or urgent data that comes right behind a short read is not missed.
TEST_P(Net, NothingIsMissedBehindAShortRead) {
  run([&] {
    for (int i = 0; i < scaled(200, 20); ++i) {
      auto [a, b] = connected();
      char buffer[10];
      a.write_all("1");
      ASSERT_EQ(b.read_some(buffer), 1u);
      std::error_code ec;
      switch (i % 4) {
        case 0:
          a.write_all("2");
          a.close();
          ASSERT_EQ(b.read_some(buffer), 1u);
          ASSERT_EQ(b.read_some(buffer), 0u);
          break;
        case 1:
          a.set_linger(0);
          a.close();
          b.read_some(buffer, ec);
          ASSERT_EQ(ec, std::errc::connection_reset);
          break;
        case 2:
          ::send(a.native_handle(), "ab", 2, MSG_OOB);  // b is out of band, and splits the stream
          a.write_all("c");
          ASSERT_EQ(b.read_full({buffer, 2}), 2u);
          ASSERT_EQ(std::string(buffer, 2), "ac");
          break;
        default:
          b.shutdown_read();
          ASSERT_EQ(b.read_some(buffer), 0u);
          break;
      }
    }
  });
}

// As far as one system call gets, over the borders of buffers.
TEST_P(Net, SomeOfSeveralBuffers) {
  run([&] {
    auto [a, b] = connected();
    const weft::const_buffer out[] = {"", "ab", "", "cde", "f"};
    EXPECT_EQ(a.write_some(out), 6u);
    char first[1], second[3], third[10];
    const weft::mutable_buffer in[] = {{}, first, second, {}, third};
    EXPECT_EQ(b.read_some(in), 6u);
    EXPECT_EQ(std::string(first, 1) + std::string(second, 3) + std::string(third, 2), "abcdef");
    // More parts than go into one call.
    const std::vector<weft::const_buffer> many(100, weft::const_buffer("x"));
    const std::size_t n = a.write_some(many);
    EXPECT_GT(n, 0u);
    std::string got(n, '\0');
    b.read_full(got);
    EXPECT_EQ(got, std::string(n, 'x'));
    std::vector<weft::mutable_buffer> nothing(100);
    EXPECT_EQ(b.read_some(nothing), 0u);  // no room
    nothing.emplace_back(third);
    a.write_all("y");
    EXPECT_EQ(b.read_some(nothing), 1u);
    // What was read short is waited for, and the end is seen.
    weft::thread writes([&, &a = a] {
      a.write_all("z");
      a.close();
    });
    EXPECT_EQ(b.read_some(in), 1u);
    EXPECT_EQ(b.read_some(in), 0u);
    writes.join();
    std::error_code ec;
    b.set_deadline(clock::now());
    b.read_some(in, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    b.write_some(out, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    auto [r, w] = weft::io::pipe();
    EXPECT_EQ(w.write_some(out), 6u);  // pipes take several, too
    EXPECT_EQ(r.read_some(in), 6u);
    EXPECT_EQ(std::string(first, 1) + std::string(second, 3) + std::string(third, 2), "abcdef");
    EXPECT_EQ(w.write_all(std::span<const weft::const_buffer>(many)), many.size());
    w.close();
    got.assign(many.size(), '\0');
    r.read_full(got);
    EXPECT_EQ(got, std::string(many.size(), 'x'));
    EXPECT_EQ(r.read_some(in), 0u);
  });
}

TEST_P(Net, SendFile) {
  run([&] {
    char name[] = "/tmp/weft_net_XXXXXX";
    const int file = mkstemp(name);
    ASSERT_GE(file, 0);
    ::unlink(name);
    const std::string text = pattern_string(3, 0, 500'000);
    ASSERT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    auto [a, b] = connected();
    weft::thread sends([&, &a = a] {
      EXPECT_EQ(a.send_file(file, 1000, text.size()), text.size() - 1000);  // as much as there is
      a.close();
    });
    std::string got(text.size() - 1000, '\0');
    b.read_full(got);
    EXPECT_EQ(got, text.substr(1000));
    sends.join();
    // A file that can be read, but that the kernel does not send.
    const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(map, 0);
    std::string read(3 << 15, '\0');  // of the first pages, where nothing changes
    ASSERT_EQ(::pread(map, read.data(), read.size(), 8), static_cast<ssize_t>(read.size()));
    auto [e, f] = connected();
    weft::thread copies([&, &e = e] {
      EXPECT_EQ(e.send_file(map, 8, read.size()), read.size());
      e.close();
    });
    std::string copy(read.size(), 'x');
    f.read_full(copy);
    EXPECT_TRUE(copy == read);
    copies.join();
    std::error_code no;
    EXPECT_EQ(f.send_file(map, -1, 8, no), 0u);
    EXPECT_EQ(no, std::errc::invalid_argument);
    ::close(map);
    // To somebody who has gone: an error and no signal.
    auto [c, d] = connected();
    d.set_linger(0);
    d.close();
    std::error_code ec;
    while (ec != std::errc::broken_pipe) c.send_file(file, 0, text.size(), ec);
    ::close(file);
  });
}

// --- deadlines -----------------------------------------------------------------------------------

// call(ec) never ends before the time that set(t) has set, nor wildly late: sooner or later in time, as a busy machine may
// take longer for a while.
template <class Set, class Call>
void expect_growing_timeouts(Set set, Call call) {
  for (const auto d : {100us, 1000us, 5000us, 20000us}) {
    clock::duration late{};
    EXPECT_TRUE(eventually([&] {
      std::error_code ec;
      const auto t = clock::now() + d;
      set(t);
      call(ec);
      late = clock::now() - t;
      EXPECT_EQ(ec, std::errc::timed_out);
      EXPECT_GE(late, 0s);
      call(ec);  // it stays
      EXPECT_EQ(ec, std::errc::timed_out);
      return late < 20ms * weft::test::slowness();
    })) << std::chrono::duration_cast<std::chrono::microseconds>(late).count()
        << " us after " << d.count();
  }
}

// 222, 224
TEST_P(Net, ReadsAndAcceptsTimeOut) {
  run([&] {
    auto [a, b] = connected();
    net::tcp_listener l = net::listen("127.0.0.1:0");
    net::udp_conn u = net::listen_udp("127.0.0.1:0");
    char buffer[10];
    net::endpoint from;
    for (const auto d : {-1h, 0h}) {
      for (int again = 0; again < 3; ++again) {
        std::error_code ec;
        a.set_read_deadline(clock::now() + d);
        a.read_some(buffer, ec);
        EXPECT_EQ(ec, std::errc::timed_out);
        EXPECT_EQ(ec.message(), "i/o timeout");
        l.set_deadline(clock::now() + d);
        l.accept(ec);
        EXPECT_EQ(ec, std::errc::timed_out);
        u.set_deadline(clock::now() + d);
        u.recv_from(buffer, from, ec);
        EXPECT_EQ(ec, std::errc::timed_out);
      }
    }
    expect_growing_timeouts([&, &a = a](clock::time_point t) { a.set_read_deadline(t); },
                            [&, &a = a](std::error_code& ec) { a.read_some(buffer, ec); });
    expect_growing_timeouts([&](clock::time_point t) { l.set_deadline(t); },
                            [&](std::error_code& ec) { l.accept(ec); });
    expect_growing_timeouts([&](clock::time_point t) { u.set_deadline(t); },
                            [&](std::error_code& ec) { u.recv_from(buffer, from, ec); });
    a.set_read_deadline(clock::now() + 1h);
    b.write_all("x");
    EXPECT_EQ(a.read_some(buffer), 1u);  // it can be moved away again
  });
}

// What the kernel keeps for a connection in that direction, at most: it does not grow then.
void limit_buffers(const net::tcp_conn& from, const net::tcp_conn& to) {
  const int room = 1 << 16;
  ASSERT_EQ(::setsockopt(from.native_handle(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  ASSERT_EQ(::setsockopt(to.native_handle(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
}

// 222, 224
TEST_P(Net, WritesTimeOut) {
  run([&] {
    auto [a, b] = connected();
    limit_buffers(a, b);
    const std::string much(1 << 20, 'x');  // never fits
    std::error_code ec;
    std::size_t sent = 0;
    a.set_write_deadline(clock::now() + 10ms);
    while (!ec) sent += a.write_all(much, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    expect_growing_timeouts([&, &a = a](clock::time_point t) { a.set_write_deadline(t); },
                            [&, &a = a](std::error_code& e) { sent += a.write_all(much, e); });
    a.set_write_deadline(clock::time_point::max());
    a.set_deadline(clock::time_point::max());
    weft::thread drains([&, &b = b] {
      std::string buffer(1 << 16, '\0');
      std::size_t got = 0;
      while (const std::size_t n = b.read_some(buffer)) got += n;
      EXPECT_EQ(got, sent + 1);
    });
    a.write_all("y");
    a.close();
    drains.join();
  });
}

// call(ec) is ended by what go_on() does, and not by a deadline that was cleared before.
template <class Object, class Call, class GoOn>
void expect_no_timeout(Object& o, Call call, GoOn go_on) {
  constexpr auto kSoon = 2ms;
  o.set_deadline(clock::now() + kSoon);
  o.set_deadline(clock::time_point::max());
  auto ended = blocked_in(call);
  weft::this_thread::sleep_for(2 * kSoon);  // sleep-ok: the time that must not matter
  if (const auto early = ended.try_recv()) {
    ADD_FAILURE() << "there was nothing to go on with: " << early->message();
  } else {
    go_on();
    EXPECT_EQ(ended.recv(), std::error_code());
  }
}

// 223
TEST_P(Net, ADeadlineThatIsClearedNeverComes) {
  run([&] {
    auto [a, b] = connected();
    limit_buffers(a, b);
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const net::endpoint there = l.local_endpoint();
    const std::string much(1 << 20, 'x');  // more than the kernel keeps
    std::string got(much.size(), '\0');
    char buffer[10];
    for (int i = 0; i < 5; ++i) {
      expect_no_timeout(
          a, [&, &a = a](std::error_code& ec) { a.read_some(buffer, ec); },
          [&b = b] { b.write_all("x"); });
      net::tcp_conn c;
      expect_no_timeout(
          l, [&](std::error_code& ec) { EXPECT_TRUE(l.accept(ec)); },
          [&] { c = net::dial(there); });
      // Where it has timed out before there is no room left.
      std::error_code ec;
      a.set_write_deadline(clock::now() + 2ms);
      const std::size_t before = a.write_all(much, ec);
      EXPECT_EQ(ec, std::errc::timed_out);
      expect_no_timeout(
          a, [&, &a = a](std::error_code& e) { a.write_all(much, e); },
          [&, &b = b] {
            b.read_full({got.data(), before});
            b.read_full(got);
          });
    }
  });
}

// 227, 226
TEST_P(Net, ADeadlineInThePastEndsABlockedRead) {
  run([&] {
    auto [a, b] = connected();
    for (int i = 0; i < scaled(50, 5); ++i) {
      char buffer[10];
      auto ended = blocked_in([&, &a = a](std::error_code& ec) { a.read_some(buffer, ec); });
      a.set_read_deadline(clock::now() - 1s);
      EXPECT_EQ(*ended.recv(), std::errc::timed_out);
      a.set_read_deadline(clock::time_point::max());
    }
    // [FD-6]: what has arrived does not override it
    b.write_all("x");
    a.set_read_deadline(clock::now() - 1s);
    char buffer[10];
    std::error_code ec;
    EXPECT_EQ(a.read_some(buffer, ec), 0u);
    EXPECT_EQ(ec, std::errc::timed_out);
  });
}

// 225: a stream that never ends is read, a little at a time, until a deadline of any size. What is always there does not
// put it off. [FD-6]
TEST_P(Net, VariousDeadlinesUnderTraffic) {
  run([&] {
    auto [a, b] = connected();
    weft::thread writes([&a = a] {
      const std::string much(1 << 16, 'x');
      std::error_code ec;
      while (!ec) a.write_all(much, ec);
      EXPECT_TRUE(ec == std::errc::connection_reset || ec == std::errc::broken_pipe)
          << ec.message();
    });
    char some[100];
    // Until so long from now, which is ended in time sooner or later; returns how much there was in the meantime.
    const auto read_for = [&, &b = b](std::chrono::nanoseconds d) {
      std::size_t got = 0;
      clock::duration late{};
      EXPECT_TRUE(eventually([&] {
        std::error_code ec;
        b.set_deadline(clock::time_point::max());
        b.read_full(some);  // and more is on its way
        const auto t = clock::now() + d;
        b.set_deadline(t);
        for (got = 0; !ec;) got += b.read_some(some, ec);
        late = clock::now() - t;
        EXPECT_EQ(ec, std::errc::timed_out);
        EXPECT_GE(late, 0s);
        EXPECT_EQ(b.read_some(some, ec), 0u) << "it stays";
        EXPECT_EQ(ec, std::errc::timed_out);
        return late < 20ms * weft::test::slowness();
      })) << d.count();
      return got;
    };
    EXPECT_EQ(read_for(-1ns), 0u);
    for (const int ns :
         {1, 2, 5, 50, 100, 200, 500, 750, 1000, 5000, 25'000, 250'000, 500'000, 1'000'000}) {
      read_for(std::chrono::nanoseconds(ns));
    }
    // The thread may be set aside for as long as that before it reads at all.
    EXPECT_TRUE(eventually([&] { return read_for(5ms) > 0; }));
    b.close();
    writes.join();
  });
}

// 225, 226
TEST_P(Net, DeadlinesChangeUnderTraffic) {
  run([&] {
    auto [a, b] = connected();
    std::atomic<bool> over{false};
    weft::wait_group wg;
    wg.go([&, &a = a] {
      std::error_code ec;
      while (!over) {
        a.write_some("traffic", ec);
        weft::gosched();
      }
      a.shutdown_write(ec);
    });
    for (int i = 0; i < 3; ++i) {
      wg.go([&, i, &a = a, &b = b] {
        for (int k = 0; !over; ++k) {
          const auto t = clock::now() + std::chrono::microseconds((k * 37 + i * 11) % 300) - 50us;
          std::error_code ec;
          b.set_read_deadline(t, ec);  // it may be closed already
          a.set_write_deadline(k % 7 == 0 ? clock::time_point::max() : t, ec);
          weft::gosched();
        }
      });
    }
    std::string buffer(1000, '\0');
    int reads = 0, timeouts = 0;
    const auto until = clock::now() + 50ms;
    while (clock::now() < until || reads == 0) {
      std::error_code ec;
      b.read_some(buffer, ec);
      weft::gosched();
      ++(ec ? timeouts : reads);
      if (ec) {
        ASSERT_EQ(ec, std::errc::timed_out);
      }
    }
    over = true;
    b.close();
    wg.wait();
  });
}

// 226: deadlines that are moved away again and again, in one direction while the other is blocked.
TEST_P(Net, DeadlinesThatMoveAwayNeverCome) {
  run([&] {
    auto [a, b] = connected();
    limit_buffers(a, b);
    limit_buffers(b, a);
    // Until the other side goes; why it ends.
    const auto goes_on = [](auto set_deadline, auto call) {
      std::error_code ec;
      while (!ec) {
        set_deadline(clock::now() + 1h);
        if (call(ec) == 0) break;
      }
      EXPECT_TRUE(!ec || ec == std::errc::connection_reset || ec == std::errc::broken_pipe)
          << ec.message();
    };
    char in[1];
    weft::thread reads([&, &b = b] {
      goes_on([&b](auto t) { b.set_read_deadline(t); },
              [&](std::error_code& ec) { return b.read_some(in, ec); });
    });
    // So much that it blocks most of the time.
    const std::string much(1 << 17, 'x');
    weft::thread writes([&, &b = b] {
      goes_on([&b](auto t) { b.set_write_deadline(t); },
              [&](std::error_code& ec) { return b.write_all(much, ec); });
      std::error_code gone;
      b.shutdown_write(gone);
    });
    std::string some(much.size() / 2, '\0');
    std::error_code ec;
    for (int i = 0; i < scaled(1000, 100) && !ec; ++i) {
      a.write_all("x", ec);
      if (!ec) a.read_full(some, ec);
    }
    EXPECT_EQ(ec, std::error_code());
    a.close();
    reads.join();
    writes.join();
  });
}

// 226: each is earlier than the one before, and several set them at once; so the timers are put in order all the time.
TEST_P(Net, SteadilyEarlierDeadlines) {
  constexpr int kGoroutines = 8;
  constexpr std::size_t kConns = 10;
  run([&] {
    std::vector<weft::test::tcp_pair> conns(kConns);
    for (auto& c : conns) c = connected();
    const auto start = clock::now();
    const int tries = scaled(100, 5);
    weft::wait_group wg;
    for (int i = 0; i < kGoroutines; ++i) {
      wg.go([&, i] {
        for (int j = tries; j > 0; --j) {
          for (std::size_t k = 0; k < kConns; ++k) {
            const auto earlier = i * j * static_cast<int>(k) * 1s;
            conns[k].a.set_read_deadline(start + 2h + earlier);
            conns[k].a.set_write_deadline(start + 1h + earlier);
          }
        }
      });
    }
    // Meanwhile none of them comes.
    for (auto& c : conns) {
      char buffer[4];
      c.a.write_all("ping");
      EXPECT_EQ(c.b.read_full(buffer), 4u);
      c.b.write_all("pong");
      EXPECT_EQ(c.a.read_full(buffer), 4u);
    }
    wg.wait();
    // The earliest of all do, for everybody.
    std::vector<weft::chan<std::error_code>> ended;
    for (auto& c : conns) {
      ended.push_back(blocked_in([&c](std::error_code& ec) {
        char buffer[1];
        c.a.read_some(buffer, ec);
      }));
    }
    for (std::size_t k = kConns; k-- > 0;) {
      conns[k].a.set_read_deadline(clock::now() + std::chrono::milliseconds(k));
    }
    for (auto& e : ended) EXPECT_EQ(*e.recv(), std::errc::timed_out);
    for (auto& c : conns) EXPECT_EQ(c.a.write_some("x"), 1u);  // whose deadline is far away
  });
}

// --- closing -------------------------------------------------------------------------------------

// 228, 232
TEST_P(Net, ClosingEndsWhatIsBlocked) {
  run([&] {
    for (int i = 0; i < scaled(50, 5); ++i) {
      auto [a, b] = connected();
      net::tcp_listener l = net::listen("127.0.0.1:0");
      net::udp_conn u = net::listen_udp("127.0.0.1:0");
      char buffer[10];
      net::endpoint from;
      auto read = blocked_in([&, &a = a](std::error_code& ec) { a.read_some(buffer, ec); });
      auto accept = blocked_in([&](std::error_code& ec) { l.accept(ec); });
      auto recv = blocked_in([&](std::error_code& ec) { u.recv_from(buffer, from, ec); });
      const std::string much(8 << 20, 'x');
      auto write = blocked_in([&, &a = a](std::error_code& ec) {
        while (!ec) a.write_all(much, ec);
      });
      l.close();
      u.close();
      a.close();
      EXPECT_EQ(*read.recv(), weft::errc::closed);
      EXPECT_EQ(*accept.recv(), weft::errc::closed);
      EXPECT_EQ(*recv.recv(), weft::errc::closed);
      EXPECT_EQ(*write.recv(), weft::errc::closed);
      std::error_code ec;
      a.close(ec);
      EXPECT_EQ(ec, weft::errc::closed);
      EXPECT_EQ(ec.message(), "use of closed network connection");
      a.read_some(buffer, ec);
      EXPECT_EQ(ec, weft::errc::closed);
      EXPECT_EQ(a.native_handle(), -1);
    }
  });
}

TEST_P(Net, AConnectionThatIsMovedFromIsClosed) {
  run([&] {
    auto [a, b] = connected();
    net::tcp_conn c = std::move(a);
    std::error_code ec;
    char buffer[4];
    a.read_some(buffer, ec);  // NOLINT: the subject
    EXPECT_EQ(ec, weft::errc::closed);
    EXPECT_FALSE(a);
    EXPECT_TRUE(c);
    c = net::tcp_conn();
    EXPECT_EQ(b.read_some(buffer), 0u);
    auto [d, e] = connected();
    auto [f, g] = connected();
    d = std::move(f);
    EXPECT_FALSE(f);  // NOLINT: the subject
    EXPECT_EQ(e.read_some(buffer), 0u);
    d.write_all("text");
    EXPECT_EQ(g.read_some(buffer), 4u);
  });
}

TEST_P(Net, DescriptorsAreGivenBack) {
  run([&] {
    { auto p = connected(); }
    const int before = weft::test::open_descriptors();
    for (int i = 0; i < scaled(200, 20); ++i) {
      auto [a, b] = connected();
      a.write_all("x");
    }
    EXPECT_EQ(weft::test::open_descriptors(), before);
  });
}

// --- dialling ------------------------------------------------------------------------------------

// 231
TEST_P(Net, Dialling) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::string address = l.local_endpoint().to_string();
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    net::tcp_conn c = net::dial(address, ctx);
    net::tcp_conn s = l.accept();
    cancel();  // afterwards: nothing happens to it
    c.write_all("x");
    char buffer[4];
    EXPECT_EQ(s.read_some(buffer), 1u);
    EXPECT_EQ(c.remote_endpoint(), l.local_endpoint());
    EXPECT_EQ(c.local_endpoint(), s.remote_endpoint());
    std::error_code ec;
    net::dial(address, ctx, ec);  // cancelled before
    EXPECT_EQ(ec, std::errc::operation_canceled);
    const refusing_port nobody;
    net::dial(nobody.address, ec);
    EXPECT_EQ(ec, std::errc::connection_refused);
  });
}

// 231
TEST_P(Net, DiallingIsCancelledAndTimesOut) {
  run([&] {
    full_listener l;
    std::error_code ec;
    const int before = weft::test::open_descriptors();
    {
      auto [ctx, cancel] = weft::with_timeout(weft::context(), 5ms);
      net::dial(l.address, ctx, ec);
      EXPECT_EQ(ec, std::errc::timed_out);
      cancel();
    }
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    auto ended = blocked_in([&, &ctx = ctx](std::error_code& e) { net::dial(l.address, ctx, e); });
    cancel();
    EXPECT_EQ(*ended.recv(), std::errc::operation_canceled);
    EXPECT_EQ(weft::test::open_descriptors(), before);
  });
}

// 231: cancelled at any moment: there is a connection that works, or there is none, and nothing is left of it.
TEST_P(Net, CancellingRacesWithDialling) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const full_listener full;
    const auto is_quiet = [before = weft::test::open_descriptors()] {
      return weft::test::open_descriptors() == before;
    };
    weft::thread serves([&] {
      std::error_code ec;
      for (;;) {
        net::tcp_conn c = l.accept(ec);
        if (ec == weft::errc::closed) break;
        c.write_all("!", ec);  // somebody may have lost interest
      }
    });
    const std::string port = std::to_string(l.local_endpoint().port());
    const std::string addresses[] = {"127.0.0.1:" + port, ":" + port, full.address};
    weft::test::random_source random(static_cast<std::uint64_t>(procs()));
    for (weft::test::budget b(600); b.next();) {
      const std::string& address = addresses[random.below(3)];
      auto [ctx, cancel] = weft::with_cancel(weft::context());
      weft::thread cancels([n = random.below(40), &cancel = cancel] {
        for (int i = 0; i < n; ++i) weft::test::give_way();
        cancel();
      });
      for (int i = random.below(10); i > 0; --i) weft::gosched();
      std::error_code ec;
      net::tcp_conn c = net::dial(address, ctx, ec);
      EXPECT_EQ(bool(c), !ec);
      if (ec) {
        EXPECT_EQ(ec, std::errc::operation_canceled) << ec.message();
      } else {
        EXPECT_NE(address, full.address);
        char buffer[2];
        EXPECT_EQ(c.read_some(buffer), 1u);
      }
      cancels.join();
    }
    EXPECT_TRUE(eventually(is_quiet)) << "a descriptor is left";
    l.close();
    serves.join();
  });
}

// The IPv6 address of "localhost" refuses, or the IPv4 one: the other is tried.
TEST_P(Net, TwoFamilies) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::string port = std::to_string(l.local_endpoint().port());
    net::tcp_conn c = net::dial(":" + port);
    EXPECT_TRUE(c.remote_endpoint().is_v4());
    net::tcp_conn s = l.accept();
    std::error_code ec;
    net::tcp_listener six;
    std::unique_ptr<refusing_port> four;
    do {  // a port at which nobody listens in the other
      four = std::make_unique<refusing_port>();
      six = net::listen("[::1]:" + std::to_string(net::endpoint(four->address).port()), ec);
    } while (ec == std::errc::address_in_use);
    if (!ec) {
      net::tcp_conn d = net::dial(":" + std::to_string(six.local_endpoint().port()));
      EXPECT_TRUE(d.remote_endpoint().is_v6());
    }
    net::tcp_listener both = net::listen(":0");
    net::tcp_conn e = net::dial("127.0.0.1:" + std::to_string(both.local_endpoint().port()));
    EXPECT_EQ(both.accept().remote_endpoint(), e.local_endpoint());  // shown as IPv4
  });
}

// The first family hangs: after 300 ms the second is tried beside it, wins, and the first leaves nothing behind. RFC 8305
TEST_P(Net, TheSecondFamilyAfterAHeadStart) {
  constexpr auto kHeadStart = 300ms;
  run([&] {
    std::error_code ec;
    std::unique_ptr<full_listener> hangs;
    net::tcp_listener six;
    do {  // a port that is free in both
      hangs = std::make_unique<full_listener>();
      six = net::listen("[::1]:" + std::to_string(net::endpoint(hangs->address).port()), ec);
    } while (ec == std::errc::address_in_use);
    if (ec) GTEST_SKIP() << "no IPv6 here: " << ec.message();
    const int before = weft::test::open_descriptors();
    const auto start = clock::now();
    net::tcp_conn c = net::dial(":" + std::to_string(six.local_endpoint().port()));
    EXPECT_GE(clock::now() - start, kHeadStart);
    EXPECT_LT(clock::now() - start, kHeadStart + 10s * weft::test::slowness());
    EXPECT_EQ(c.remote_endpoint(), six.local_endpoint());
    EXPECT_EQ(six.accept().remote_endpoint(), c.local_endpoint());
    c.close();
    EXPECT_TRUE(eventually([&] { return weft::test::open_descriptors() == before; }));
  });
}

// --- messages ------------------------------------------------------------------------------------

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return text_of(e);
  }
  return "no error";
}

TEST_P(Net, ErrorsNameTheOperationAndTheAddresses) {
  run([&] {
    auto [a, b] = connected();
    const std::string ends =
        a.local_endpoint().to_string() + "->" + a.remote_endpoint().to_string() + ": ";
    char buffer[4];
    a.set_deadline(clock::now() - 1s);
    EXPECT_EQ(message_of([&, &a = a] { a.read_some(buffer); }), "read tcp " + ends + "i/o timeout");
    EXPECT_EQ(message_of([&a = a] { a.write_all("x"); }), "write tcp " + ends + "i/o timeout");
    a.close();
    EXPECT_EQ(message_of([&, &a = a] { a.read_some(buffer); }),
              "read tcp " + ends + "use of closed network connection");
    EXPECT_EQ(message_of([&a = a] { a.close(); }),
              "close tcp " + ends + "use of closed network connection");
    net::udp_conn u = net::listen_udp("127.0.0.1:0");
    const net::endpoint there("192.0.2.1:7");
    u.set_deadline(clock::now() - 1s);
    const std::string here = u.local_endpoint().to_string();
    EXPECT_EQ(message_of([&] { u.send_to("x", there); }),
              "write udp " + here + "->192.0.2.1:7: i/o timeout");
    u.close();
    EXPECT_EQ(message_of([&] { u.connect(there); }),
              "connect udp " + here + "->192.0.2.1:7: use of closed network connection");
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const std::string at = l.local_endpoint().to_string();
    EXPECT_EQ(message_of([&] { net::listen(at); }),
              "listen tcp " + at + ": Address already in use");
    l.close();
    const refusing_port nobody;
    EXPECT_EQ(message_of([&] { net::dial(nobody.address); }),
              "dial tcp " + nobody.address + ": Connection refused");
    EXPECT_EQ(message_of([&] { l.accept(); }),
              "accept tcp " + at + ": use of closed network connection");
    EXPECT_EQ(message_of([] { net::dial("nowhere"); }),
              "dial tcp nowhere: missing port in address: Invalid argument");
    EXPECT_EQ(message_of([] { net::listen("1.2.3.4:99999"); }).substr(0, 25),
              "listen tcp 1.2.3.4:99999:");
  });
}

TEST_P(Net, ErrorsOfAdoptionNameTheDescriptor) {
  run([] {
    const std::string bad = " fd -1: Bad file descriptor";
    EXPECT_EQ(message_of([] { net::tcp_conn::adopt(-1); }), "adopt tcp socket" + bad);
    EXPECT_EQ(message_of([] { net::tcp_listener::adopt(-1); }), "adopt tcp listener" + bad);
    EXPECT_EQ(message_of([] { net::udp_conn::adopt(-1); }), "adopt udp socket" + bad);
    EXPECT_EQ(message_of([] { net::unix_conn::adopt(-1); }), "adopt unix socket" + bad);
    EXPECT_EQ(message_of([] { net::unix_listener::adopt(-1); }), "adopt unix listener" + bad);
    EXPECT_EQ(message_of([] { net::unix_datagram::adopt(-1); }),
              "adopt unix datagram socket" + bad);
    EXPECT_EQ(message_of([] { weft::io::pipe_reader::adopt(-1); }), "adopt" + bad);
    EXPECT_EQ(message_of([] { weft::io::pipe_writer::adopt(-1); }), "adopt" + bad);
    EXPECT_EQ(message_of([] { weft::io::file::adopt(-1); }), "adopt" + bad);
    EXPECT_EQ(message_of([] { weft::io::poll_fd(-1); }), "poll" + bad);
  });
}

// [FD-7]: an error, no signal
TEST_P(Net, WritingToNobodyIsAnError) {
  run([&] {
    auto [a, b] = connected();
    b.set_linger(0);
    b.close();
    std::error_code ec;
    while (!ec) a.write_all("x", ec);
    EXPECT_TRUE(ec == std::errc::broken_pipe || ec == std::errc::connection_reset) << ec.message();
    while (ec != std::errc::broken_pipe) a.write_all("x", ec);
    const auto expect_errors = [&](auto& c) {
      const weft::const_buffer parts[] = {"a", "b"};
      const auto expect = [&](auto write) {
        EXPECT_EQ(write(), 0u);
        EXPECT_EQ(ec, std::errc::broken_pipe) << ec.message();
      };
      expect([&] { return c.write_all("x", ec); });
      expect([&] { return c.write_some("x", ec); });
      expect([&] { return c.write_all(std::span(parts), ec); });
      expect([&] { return c.write_some(std::span(parts), ec); });
    };
    expect_errors(a);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    net::unix_conn u = net::unix_conn::adopt(ends[0]);
    ::close(ends[1]);
    expect_errors(u);
    const int passed[] = {u.native_handle()};
    EXPECT_EQ(u.send_fds("x", passed, ec), 0u);
    EXPECT_EQ(ec, std::errc::broken_pipe);
  });
}

// --- listening -----------------------------------------------------------------------------------

// Each has some of the connections: the kernel chooses by their addresses, so that of so many neither gets none.
TEST_P(Net, ListenersShareAPort) {
  constexpr int kMostDials = 1000;
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0", {.reuse_port = true});
    net::tcp_listener m = net::listen(l.local_endpoint().to_string(), {.reuse_port = true});
    EXPECT_EQ(l.local_endpoint(), m.local_endpoint());
    std::atomic<int> by_l{0}, by_m{0};
    weft::wait_group wg;
    const auto serve = [&wg](net::tcp_listener& from, std::atomic<int>& count) {
      wg.go([&] {
        std::error_code ec;
        while (net::tcp_conn c = from.accept(ec)) ++count;
        EXPECT_EQ(ec, weft::errc::closed);
      });
    };
    serve(l, by_l);
    serve(m, by_m);
    const std::string address = l.local_endpoint().to_string();
    for (int dialled = 1; dialled <= kMostDials && (by_l == 0 || by_m == 0); ++dialled) {
      net::tcp_conn c = net::dial(address);
      EXPECT_TRUE(eventually([&] { return by_l + by_m == dialled; }));
    }
    EXPECT_GT(by_l, 0);
    EXPECT_GT(by_m, 0);
    l.close();
    m.close();
    wg.wait();
  });
}

int somaxconn() {
  int most = -1;
  std::ifstream("/proc/sys/net/core/somaxconn") >> most;
  return most;
}

// An address may be used again at once, and the queue is as long as the system allows, or shorter if asked for.
TEST_P(Net, DefaultsOfAListener) {
  run([&] {
    for (const int backlog : {0, 7}) {
      net::tcp_listener l = net::listen("127.0.0.1:0", {.backlog = backlog});
      int reuse = 0;
      socklen_t size = sizeof reuse;
      ASSERT_EQ(::getsockopt(l.native_handle(), SOL_SOCKET, SO_REUSEADDR, &reuse, &size), 0);
      EXPECT_EQ(reuse, 1);
      tcp_info info{};
      size = sizeof info;
      if (weft::test::emulated()) continue;  // an emulator knows nothing of TCP_INFO
      ASSERT_EQ(::getsockopt(l.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
      // Of a listener: the length of its queue.
      EXPECT_EQ(info.tcpi_sacked, static_cast<unsigned>(backlog == 0 ? somaxconn() : backlog));
    }
  });
}

TEST_P(Net, DefaultsOfAConnection) {
  run([&] {
    auto [a, b] = connected();
    for (const net::tcp_conn* c : {&a, &b}) {
      const auto option = [c](int level, int name) {
        int value = -1;
        socklen_t size = sizeof value;
        ::getsockopt(c->native_handle(), level, name, &value, &size);
        return value;
      };
      EXPECT_EQ(option(6 /* TCP */, 1 /* NODELAY */), 1);
      EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
      EXPECT_EQ(option(6, 4 /* KEEPIDLE */), 15);
      EXPECT_EQ(option(6, 5 /* KEEPINTVL */), 15);
      EXPECT_EQ(option(6, 6 /* KEEPCNT */), 9);
    }
    a.set_nodelay(false);
    a.set_keepalive(0);
  });
}

bool would_block(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

// A socket as another library makes it: its calls block. Bound to a port of this machine.
int blocking_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const net::endpoint any("127.0.0.1:0");
  EXPECT_EQ(::bind(fd, any.data(), static_cast<socklen_t>(any.size())), 0);
  return fd;
}

TEST_P(Net, AdoptsDescriptors) {
  run([&] {
    net::tcp_listener l = net::listen("127.0.0.1:0");
    const net::endpoint there = l.local_endpoint();
    const int fd = blocking_socket();
    ASSERT_EQ(::connect(fd, there.data(), static_cast<socklen_t>(there.size())), 0);
    net::tcp_conn a = l.accept();
    ASSERT_TRUE(would_block(fd));
    net::tcp_conn c = net::tcp_conn::adopt(fd);
    ASSERT_FALSE(would_block(fd));
    EXPECT_EQ(c.native_handle(), fd);
    EXPECT_EQ(c.remote_endpoint(), there);
    EXPECT_EQ(c.local_endpoint(), a.remote_endpoint());
    std::error_code ec;
    char buffer[4];
    c.set_read_deadline(clock::now() + 1ms);
    c.read_some(buffer, ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    c.set_read_deadline(clock::time_point::max());
    auto ended = blocked_in([&](std::error_code& e) { EXPECT_EQ(c.read_some(buffer, e), 1u); });
    a.write_all("x");
    EXPECT_EQ(ended.recv(), std::error_code());
    net::udp_conn::adopt(fd, ec);
    EXPECT_EQ(ec, weft::errc::mismatch);
    net::tcp_conn::adopt(-1, ec);
    EXPECT_EQ(ec, std::errc::bad_file_descriptor);
    net::tcp_conn::adopt(0, ec);  // not a socket
    EXPECT_TRUE(ec);
    c.close();
    EXPECT_EQ(a.read_some(buffer), 0u) << "it was ours to close";
  });
}

TEST_P(Net, AdoptsListeners) {
  run([&] {
    const int before = weft::test::open_descriptors();
    const int fd = blocking_socket();
    ASSERT_EQ(::listen(fd, 5), 0);
    ASSERT_TRUE(would_block(fd));
    net::tcp_listener l = net::tcp_listener::adopt(fd);
    ASSERT_FALSE(would_block(fd));
    std::error_code ec;
    l.set_deadline(clock::now() + 1ms);
    l.accept(ec);
    EXPECT_EQ(ec, std::errc::timed_out);
    l.set_deadline(clock::time_point::max());
    net::tcp_conn c;
    auto ended = blocked_in([&](std::error_code& e) { c = l.accept(e); });
    net::tcp_conn d = net::dial(l.local_endpoint());
    EXPECT_EQ(ended.recv(), std::error_code());
    EXPECT_EQ(c.remote_endpoint(), d.local_endpoint());
    l.close();
    c.close();
    d.close();
    EXPECT_EQ(weft::test::open_descriptors(), before) << "it was ours to close";
    net::tcp_listener::adopt(-1, ec);
    EXPECT_EQ(ec, std::errc::bad_file_descriptor);
  });
}

}  // namespace
