// Sockets of all kinds, and pipes, whose system calls fail by chance, anywhere: every byte that arrives is the right one, what may pass
// is not noticed, every other error is told once, to whoever made the call, with what it is about; nobody sleeps for good,
// no descriptor is left.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/goroutine_local.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/wait_group.h>

#include "io/calls.h"
#include "os/test_hooks.h"
#include "support/sockets.h"
#include "support/storm.h"

namespace {

using weft::const_buffer;
using weft::mutable_buffer;
using weft::net::endpoint;
using weft::rt::os::test_hooks;
using weft::test::random_source;
namespace calls = weft::rt::calls;
namespace net = weft::net;

// What its caller must be told of, of the faults of this goroutine.
struct ledger {
  std::vector<int> errors;
};
weft::goroutine_local<ledger> own_ledger;
std::atomic<std::uint64_t> told{0}, kept{0}, cut{0};  // faults of either kind, and short calls

bool may_pass(calls::call what, int error) {
  switch (what) {
    case calls::call::accept: return true;
    case calls::call::connect: return error == EINTR;
    default: return error == EINTR || error == EAGAIN;
  }
}

void witness(calls::call what, int /*fd*/, int error) {
  if (error == 0) {
    ++cut;
  } else if (may_pass(what, error)) {
    ++kept;
  } else {
    ++told;
    own_ledger->errors.push_back(error);
  }
}

// Of an operation that has just ended with ec: nothing failed, or what failed is what it says.
void expect_told(const std::error_code& ec) {
  const std::vector<int> errors = std::exchange(own_ledger->errors, {});
  if (errors.empty()) {
    EXPECT_FALSE(ec) << ec.message();
    return;
  }
  EXPECT_EQ(errors.size(), 1u) << "it went on";
  EXPECT_EQ(ec, std::error_code(errors[0], std::system_category())) << ec.message();
}

// f(), the throwing form; `failed` is what it returns if it fails, with "operation address" in the message.
template <class F, class R>
R attempt(const std::string& about, R failed, F f) {
  std::error_code ec;
  R result = std::move(failed);
  try {
    result = f();
  } catch (const std::system_error& e) {
    ec = e.code();
    EXPECT_EQ(std::string(e.what()), about + ": " + ec.message());
  }
  expect_told(ec);
  return result;
}
// The other form: f(ec), which says how far it got.
template <class F>
std::size_t attempt(F f) {
  std::error_code ec;
  const std::size_t n = f(ec);
  expect_told(ec);
  return n;
}

std::string about(const char* operation, const char* network, const endpoint& from,
                  const endpoint& to) {
  std::string s = operation + std::string(" ") + network;
  if (from) s += ' ' + from.to_string();
  if (to) s += (from ? "->" : " ") + to.to_string();
  return s;
}
template <class Socket>
std::string about(const char* operation, const char* network, const Socket& s) {
  return about(operation, network, s.local_endpoint(), s.remote_endpoint());
}
template <class End>
requires(!requires(End & e) { e.local_endpoint(); }) std::string
    about(const char* operation, const char* what, const End& end) {
  return operation + std::string(" ") + what + std::to_string(end.native_handle());
}

// What streams carry, over and over; as a file, too.
class content {
 public:
  static constexpr std::size_t kSize = 30'000;
  explicit content(std::uint64_t stream)
      : bytes_(weft::test::pattern_string(stream, 0, kSize)),
        file_(::memfd_create("content", MFD_CLOEXEC)) {
    EXPECT_EQ(::write(file_, bytes_.data(), kSize), static_cast<ssize_t>(kSize));
  }
  ~content() { ::close(file_); }
  content(const content&) = delete;
  content& operator=(const content&) = delete;

  // From there on, as far as it goes in one piece.
  std::string at(std::uint64_t where, std::size_t n) const {
    return bytes_.substr(where % kSize, n);
  }
  int file() const { return file_; }

 private:
  std::string bytes_;
  int file_;
};

// In pieces, of which some may be empty.
template <class Buffer>
std::array<Buffer, 3> in_parts(Buffer whole, random_source& random) {
  const auto first = static_cast<std::size_t>(random.below(static_cast<int>(whole.size()) + 1));
  const std::size_t second =
      first + static_cast<std::size_t>(random.below(static_cast<int>(whole.size() - first) + 1));
  return {Buffer(whole.data(), first), Buffer((whole + first).data(), second - first),
          whole + second};
}

template <class Conn>
void write_stream(Conn& c, const char* network, const content& data, std::uint64_t size,
                  random_source random) {
  const std::string where = about("write", network, c);
  for (std::uint64_t sent = 0; sent < size;) {
    const auto most = std::min<std::uint64_t>(size - sent, 1u + random.next() % 5000);
    const std::string next = data.at(sent, static_cast<std::size_t>(most));
    const auto parts = in_parts(const_buffer(next), random);
    switch (random.below(5)) {
      case 0: sent += attempt(where, std::size_t{0}, [&] { return c.write_some(next); }); break;
      case 1: sent += attempt(where, std::size_t{0}, [&] { return c.write_some(parts); }); break;
      case 2: sent += attempt([&](auto& ec) { return c.write_all(next, ec); }); break;
      case 3: sent += attempt([&](auto& ec) { return c.write_all(parts, ec); }); break;
      default:
        if constexpr (requires { c.shutdown_write(); }) {
          sent += attempt([&](auto& ec) {
            return c.send_file(data.file(), static_cast<std::int64_t>(sent % content::kSize),
                               next.size(), ec);
          });
        }
    }
  }
  if constexpr (requires { c.shutdown_write(); }) {
    c.shutdown_write();
  } else {
    c.close();
  }
}

template <class Conn>
void read_stream(Conn& c, const char* network, const content& data, std::uint64_t size,
                 random_source random) {
  const std::string where = about("read", network, c);
  std::string buffer;
  for (std::uint64_t got = 0; got < size;) {
    buffer.assign(1u + random.next() % 5000, '\0');
    const std::size_t room = std::min<std::size_t>(buffer.size(), size - got);
    const auto parts = in_parts(mutable_buffer(buffer), random);
    std::size_t n = 0;
    switch (random.below(3)) {
      case 0: n = attempt(where, std::size_t{0}, [&] { return c.read_some(buffer); }); break;
      case 1: n = attempt(where, std::size_t{0}, [&] { return c.read_some(parts); }); break;
      default: n = attempt([&](auto& ec) { return c.read_full({buffer.data(), room}, ec); });
    }
    ASSERT_LE(n, size - got);
    for (std::size_t i = 0; i < n;) {
      const std::string right = data.at(got + i, n - i);
      ASSERT_EQ(buffer.substr(i, right.size()), right) << "at " << got + i;
      i += right.size();
    }
    got += n;
  }
  char more[1];
  std::error_code ec;
  while (c.read_some(more, ec) != 0 || ec) {
    ASSERT_TRUE(ec) << "more than was sent";
    expect_told(ec);
  }
  own_ledger->errors.clear();
}

// Both directions at once.
template <class Conn>
void talk(Conn& a, Conn& b, const char* network, random_source& random) {
  const content to(random.next()), back(random.next());
  const std::uint64_t size = random.next() % (random.one_in(8) ? 1'000'000 : 30'000);
  weft::wait_group wg;
  const auto begin = [&](auto f, Conn& c, const content& data) {
    wg.go([&, f, part = random_source(random.next())] { f(c, network, data, size, part); });
  };
  begin(write_stream<Conn>, a, to);
  begin(read_stream<Conn>, b, to);
  begin(write_stream<Conn>, b, back);
  begin(read_stream<Conn>, a, back);
  wg.wait();
}

void tcp(random_source& random) {
  net::tcp_listener l = net::listen("127.0.0.1:0");
  const std::string address = l.local_endpoint().to_string();
  net::tcp_conn a, b;
  while (!a)
    a = attempt("dial tcp " + address, net::tcp_conn(), [&] { return net::dial(address); });
  b = attempt("accept tcp " + address, net::tcp_conn(), [&] { return l.accept(); });
  ASSERT_TRUE(b);
  ASSERT_EQ(a.local_endpoint(), b.remote_endpoint()) << "there was another connection";
  ASSERT_EQ(a.remote_endpoint(), b.local_endpoint());
  talk(a, b, "tcp", random);
}

// Nobody else in this process, or in another one, has it.
std::string fresh_name() {
  static std::atomic<int> next{0};
  return "@weft_faults_" + std::to_string(::getpid()) + "_" + std::to_string(++next);
}

struct unix_pair {
  net::unix_conn a, b;
  unix_pair() {
    const std::string name = fresh_name();
    net::unix_listener l = net::listen_unix(name);
    while (!a) {
      a = attempt("dial unix " + name, net::unix_conn(), [&] { return net::dial_unix(name); });
    }
    b = attempt("accept unix " + name, net::unix_conn(), [&] { return l.accept(); });
    EXPECT_TRUE(b);
  }
};

void unix_stream(random_source& random) {
  unix_pair p;
  talk(p.a, p.b, "unix", random);
}

void pipes(random_source& random) {
  const content data(random.next());
  const std::uint64_t size = random.next() % (random.one_in(8) ? 1'000'000 : 30'000);
  auto [r, w] = weft::io::pipe();
  weft::wait_group wg;
  wg.go(
      [&, &w = w, part = random_source(random.next())] { write_stream(w, "|", data, size, part); });
  read_stream(r, "|", data, size, random_source(random.next()));
  wg.wait();
}

// Who waits for a descriptor of somebody else's is told when it is ready, and not before.
void polled(random_source& random) {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  {
    weft::io::poll_fd ready(fd);
    for (int i = 0; i < 10; ++i) {
      weft::wait_group wg;
      wg.go([fd, n = random.below(4)] {
        for (int k = 0; k < n; ++k) weft::gosched();
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(fd, &one, sizeof one), 8);
      });
      attempt("poll fd " + std::to_string(fd), 0, [&] { return ready.wait_readable(), 0; });
      std::uint64_t got = 0;
      EXPECT_EQ(::read(fd, &got, sizeof got), 8) << "it was told too early";
      EXPECT_EQ(got, 1u);
      wg.wait();
    }
  }
  ::close(fd);
}

ino_t inode_of(int fd) {
  struct stat st {};
  EXPECT_EQ(::fstat(fd, &st), 0);
  return st.st_ino;
}

// Messages with descriptors, each of which arrives once, with the first byte of what it was sent with.
void descriptors(random_source& random) {
  constexpr int kMessages = 12;
  struct sending {
    std::uint64_t at;
    std::vector<ino_t> with;
  };
  unix_pair p;
  const content data(random.next());
  std::vector<sending> sent(kMessages);
  std::vector<std::string> messages(kMessages);
  std::vector<int> files;
  std::uint64_t size = 0;
  for (int i = 0; i < kMessages; ++i) {
    messages[i] = data.at(size, 1u + random.next() % 3000);
    sent[i].at = size;
    size += messages[i].size();
    for (int k = random.below(4); k > 0; --k) {
      files.push_back(::memfd_create("sent", MFD_CLOEXEC));
      sent[i].with.push_back(inode_of(files.back()));
    }
  }
  weft::wait_group wg;
  wg.go([&] {
    const std::string where = about("write", "unix", p.a);
    const int* next = files.data();
    for (int i = 0; i < kMessages; ++i) {
      const std::span<const int> with(next, sent[i].with.size());
      std::size_t n = 0;
      while (n == 0) {
        n = attempt(where, std::size_t{0}, [&] { return p.a.send_fds(messages[i], with); });
      }
      while (n < messages[i].size()) {
        n += attempt([&](auto& ec) { return p.a.write_all(const_buffer(messages[i]) + n, ec); });
      }
      next += with.size();
    }
  });
  const std::string where = about("read", "unix", p.b);
  std::size_t next = 0;  // message whose descriptors come
  for (std::uint64_t got = 0; got < size;) {
    std::string buffer(1u + random.next() % 2000, '\0');
    int fds[8];
    std::size_t count = 0;
    const std::size_t n =
        attempt(where, std::size_t{0}, [&] { return p.b.recv_fds(buffer, fds, count); });
    for (std::size_t i = 0; i < n;) {
      const std::string right = data.at(got + i, n - i);
      ASSERT_EQ(buffer.substr(i, right.size()), right) << "at " << got + i;
      i += right.size();
    }
    for (std::size_t taken = 0; taken < count; ++next) {
      ASSERT_LT(next, sent.size());
      if (sent[next].with.empty()) continue;
      EXPECT_TRUE(got <= sent[next].at && sent[next].at < got + n) << "with other bytes";
      for (const ino_t inode : sent[next].with) {
        ASSERT_LT(taken, count);
        EXPECT_EQ(inode_of(fds[taken]), inode);
        ::close(fds[taken++]);
      }
    }
    got += n;
  }
  wg.wait();
  for (; next < sent.size(); ++next) EXPECT_TRUE(sent[next].with.empty()) << "lost";
  for (const int fd : files) ::close(fd);
}

// Each message arrives once and whole: one at a time, so that there is room for it.
template <class Socket>
void messages(Socket& a, Socket& b, const char* network, random_source& random) {
  constexpr std::size_t kMost = 3000;
  const endpoint there = b.local_endpoint(), here = a.local_endpoint();
  const std::uint64_t stream = random.next();
  const auto round = [&](int i, auto send, auto receive) {
    const std::string message = weft::test::pattern_string(
        stream, static_cast<std::uint64_t>(i) * kMost, 1u + random.next() % (kMost - 1));
    std::size_t n = 0;
    while (n == 0) {
      n = attempt(about("write", network, here, there), std::size_t{0},
                  [&] { return send(message); });
    }
    ASSERT_EQ(n, message.size());
    std::string buffer(kMost, '\0');
    for (n = 0; n == 0;) {
      n = attempt(about("read", network, b), std::size_t{0}, [&] { return receive(buffer); });
    }
    ASSERT_EQ(buffer.substr(0, n), message);
  };
  for (int i = 0; i < 10; ++i) {
    round(
        i, [&](const std::string& m) { return a.send_to(m, there); },
        [&](std::string& m) {
          endpoint from;
          const std::size_t n = b.recv_from(m, from);
          EXPECT_EQ(from, here);
          return n;
        });
  }
  const auto connect = [&](Socket& s, const endpoint& to) {
    const std::string where = about("connect", network, s.local_endpoint(), to);
    while (!attempt(where, false, [&] { return s.connect(to), true; })) {
    }
    EXPECT_EQ(s.remote_endpoint(), to);
  };
  connect(a, there);
  connect(b, here);
  for (int i = 0; i < 10; ++i) {
    round(
        i, [&](const std::string& m) { return a.write_some(m); },
        [&](std::string& m) { return b.read_some(m); });
    round(
        i, [&](const std::string& m) { return a.write_some(in_parts(const_buffer(m), random)); },
        [&](std::string& m) { return b.read_some(in_parts(mutable_buffer(m), random)); });
  }
}

void udp(random_source& random) {
  net::udp_conn a = net::listen_udp("127.0.0.1:0"), b = net::listen_udp("127.0.0.1:0");
  messages(a, b, "udp", random);
  const std::string address = b.local_endpoint().to_string();
  net::udp_conn c;
  while (!c) {
    c = attempt("dial udp " + address, net::udp_conn(), [&] { return net::dial_udp(address); });
  }
  EXPECT_EQ(c.remote_endpoint(), b.local_endpoint());
}

void unix_messages(random_source& random) {
  net::unix_datagram a = net::listen_unix_datagram(fresh_name());
  net::unix_datagram b = net::listen_unix_datagram(fresh_name());
  messages(a, b, "unixgram", random);
}

class FaultStorm : public weft::test::storm {
 protected:
  static constexpr std::int64_t kAll = 2047, kPassing = 1 | 2 | 4 | 128;  // io/calls.h

  void SetUp() override {
    storm::SetUp();
    told = kept = cut = 0;
    calls::seed_faults(random_source(1000).next());
    calls::watch_faults(witness);
    test_hooks.poller_interrupts.set(3);
  }
  void TearDown() override {
    test_hooks.reset();
    calls::watch_faults(nullptr);
    storm::TearDown();
  }

  // Goroutines that do it again and again, while one call in so many fails.
  template <class F>
  void storm_of(std::int64_t kinds, std::int64_t one_in, F f) {
    const int before = weft::test::open_descriptors();
    test_hooks.io_faults.set(kinds * 1'000'000 + one_in);
    std::atomic<int> rounds{0};
    run([&] {
      weft::wait_group wg;
      for (std::uint64_t i = 0; i < 4; ++i) {
        wg.go([&, i] {
          random_source random(i);
          do {
            f(random);
            ++rounds;
          } while (still_blowing());
        });
      }
      wg.wait();
    });
    test_hooks.io_faults.set(0);
    EXPECT_EQ(weft::test::open_descriptors(), before);
    EXPECT_GT(rounds, 0);
    EXPECT_GT(kept, 0u);
    EXPECT_TRUE(kinds == kAll ? told > 0 : told == 0);
  }

 private:
  // A round is long: the clock is asked each time.
  bool still_blowing() {
    for (unsigned i = 1; i < kRounds; ++i) static_cast<void>(blowing());
    return blowing();
  }
};

TEST_P(FaultStorm, Tcp) { storm_of(kAll, 4, tcp); }
TEST_P(FaultStorm, UnixStream) { storm_of(kAll, 4, unix_stream); }
TEST_P(FaultStorm, Pipes) { storm_of(kAll, 4, pipes); }
TEST_P(FaultStorm, Descriptors) { storm_of(kAll, 4, descriptors); }
TEST_P(FaultStorm, Udp) { storm_of(kAll, 4, udp); }
TEST_P(FaultStorm, UnixMessages) { storm_of(kAll, 4, unix_messages); }

// What may pass, in every other call.
TEST_P(FaultStorm, NothingIsNoticed) {
  storm_of(kPassing, 2, [](random_source& random) {
    switch (random.below(7)) {
      case 0: return tcp(random);
      case 1: return pipes(random);
      case 2: return polled(random);
      case 3: return unix_stream(random);
      case 4: return descriptors(random);
      case 5: return udp(random);
      default: return unix_messages(random);
    }
  });
}

}  // namespace
