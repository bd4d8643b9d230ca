// <weft/boost.h>: a connection as Asio's streams; and examples/beast_server as a process.
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <future>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <type_traits>
#include <vector>

#include <weft/boost.h>
#include <weft/context.h>
#include <weft/thread.h>
#include <weft/time.h>

#include "examples/http_client.h"
#include "support/fixture.h"
#include "support/program.h"
#include "support/sockets.h"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;  // NOLINT
using boost::system::error_code;
using weft::test::connected;
using weft::test::http_client;
using weft::test::pattern_string;
using weft::test::program;
using stream = weft::asio_stream<weft::net::tcp_conn>;
using reference = weft::asio_stream<weft::net::tcp_conn&>;

static_assert(boost::beast::is_sync_stream<stream>::value);
static_assert(boost::beast::is_sync_stream<reference>::value);
static_assert(boost::beast::is_sync_read_stream<weft::asio_stream<weft::net::unix_conn>>::value);
static_assert(std::is_move_constructible_v<stream>);
static_assert(std::is_same_v<decltype(weft::asio_stream(weft::net::tcp_conn())), stream>);

class BoostStream : public weft::test::over_procs {};

TEST_P(BoostStream, ScattersAndGathers) {
  run([] {
    auto [a, b] = connected();
    reference out(a), in(b);
    const std::string x = "ab", y = "cdef";
    const std::vector<asio::const_buffer> parts{asio::buffer(x), {}, asio::buffer(y)};
    EXPECT_EQ(out.write_some(parts), 6u);
    char first[3], second[8];
    const std::array<asio::mutable_buffer, 3> room{asio::buffer(first), asio::mutable_buffer(),
                                                   asio::buffer(second)};
    EXPECT_EQ(in.read_some(room), 6u);
    EXPECT_EQ(std::string(first, 3) + std::string(second, 3), "abcdef");
    error_code ec = asio::error::access_denied;
    EXPECT_EQ(in.read_some(asio::mutable_buffer(), ec), 0u);
    EXPECT_FALSE(ec);
    EXPECT_EQ(out.write_some(asio::const_buffer(), ec), 0u);
    EXPECT_FALSE(ec);
  });
}

TEST_P(BoostStream, AlgorithmsOfAsio) {
  run([] {
    auto [a, b] = connected();
    stream out(std::move(a)), in(std::move(b));
    const std::string text = pattern_string(1, 0, 300'000);
    weft::thread writes([&] {
      EXPECT_EQ(asio::write(out, asio::buffer(std::string("line\nrest"))), 9u);
      std::vector<asio::const_buffer> many;
      for (std::size_t at = 0; at < text.size(); at += 100)
        many.emplace_back(text.data() + at, 100);
      EXPECT_EQ(asio::write(out, many), text.size());
      out.next_layer().close();
    });
    std::string got;
    EXPECT_EQ(asio::read_until(in, asio::dynamic_buffer(got), '\n'), 5u);
    error_code ec;
    asio::read(in, asio::dynamic_buffer(got), ec);
    EXPECT_EQ(ec, asio::error::eof);
    EXPECT_EQ(got, "line\nrest" + text);
    writes.join();
  });
}

// What another library may say.
const std::error_category& strange() {
  class category final : public std::error_category {
    const char* name() const noexcept override { return "strange"; }
    std::string message(int) const override { return "strange"; }
    std::error_condition default_error_condition(int) const noexcept override {
      return std::errc::file_too_large;
    }
  };
  static const category the_one;
  return the_one;
}

TEST_P(BoostStream, Errors) {
  run([] {
    auto [a, b] = connected();
    stream s(std::move(a));
    error_code ec;
    char buffer[8];
    s.next_layer().set_deadline(weft::clock::now());
    s.read_some(asio::buffer(buffer), ec);
    EXPECT_EQ(ec, asio::error::timed_out);
    s.write_some(asio::buffer("x", 1), ec);
    EXPECT_EQ(ec, asio::error::timed_out);
    s.next_layer().set_deadline(weft::clock::time_point::max());
    b.set_linger(0);
    b.close();
    s.read_some(asio::buffer(buffer), ec);
    EXPECT_EQ(ec, asio::error::connection_reset);
    s.next_layer().close();
    EXPECT_THROW(s.read_some(asio::buffer(buffer)), boost::system::system_error);
    EXPECT_THROW(s.write_some(asio::buffer(buffer)), boost::system::system_error);
    s.read_some(asio::buffer(buffer), ec);
    EXPECT_EQ(ec, asio::error::operation_aborted);
    EXPECT_EQ(weft::to_boost(weft::errc::mismatch).message(),
              make_error_code(weft::errc::mismatch).message());
    EXPECT_EQ(weft::to_boost(std::make_error_code(std::errc::invalid_argument)),
              boost::system::errc::invalid_argument);
    auto [ctx, cancel] = weft::with_cancel(weft::context());
    cancel();
    EXPECT_EQ(weft::to_boost(ctx.err()), asio::error::operation_aborted);
    auto [late, stop] = weft::with_timeout(weft::context(), 0s);
    EXPECT_EQ(weft::to_boost(late.err()), asio::error::timed_out);
    stop();
    EXPECT_EQ(weft::to_boost(weft::errc::server_misbehaving), asio::error::no_recovery);
    // Of a category that Boost does not know, and that tells what it means, or does not.
    EXPECT_EQ(weft::to_boost(std::make_error_code(std::future_errc::no_state)),
              boost::system::errc::io_error);
    EXPECT_EQ(weft::to_boost(std::error_code(1, strange())), boost::system::errc::file_too_large);
    EXPECT_FALSE(weft::to_boost({}));
  });
}

WEFT_OVER_PROCS(BoostStream);

class BeastServer : public weft::test::runtime_test {};

// The server has read what was sent, and closed: a close with unread input would have reset the connection.
bool ends_in_peace(http_client& c) {
  std::error_code ec;
  c.conn.shutdown_write(ec);
  const int fd = c.conn.native_handle();
  const bool over = weft::test::eventually([&] {
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state == TCP_CLOSE;
  });
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return !ec && over && error == 0 && c.ended();
}

// What is wrong with one connection is not with the next.
TEST_F(BeastServer, GoesOnAfterABadAccept) {
  weft::run([] {
    program server(BEAST_SERVER, {"127.0.0.1:0"}, weft::test::kOneBadAccept);
    http_client c(server.dial());
    c.conn.set_deadline(weft::clock::now() + 10s * weft::test::slowness());
    EXPECT_EQ(c.get("/").body, "hello\n");
  });
}

TEST_F(BeastServer, Serves) {
  weft::run([] {
    program server(BEAST_SERVER, {"127.0.0.1:0"});
    http_client c(server.dial());
    EXPECT_EQ(c.get("/").body, "hello\n");
    const std::string text = pattern_string(1, 0, 200'000);
    const auto post = [&](const std::string& body) {
      return c.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                   std::to_string(body.size()) + "\r\n\r\n" + body);
    };
    EXPECT_EQ(post(text).body, text);
    EXPECT_EQ(c.ask("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
                  .body,
              "abc");
    EXPECT_EQ(c.get("/nothing").status, 404);
    c.send(
        "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");  // pipelined
    EXPECT_EQ(c.receive().status, 200);
    EXPECT_EQ(c.receive().status, 404);
    http_client bad(server.dial());
    const std::string unread(32'000, 'x');  // there before the answer
    EXPECT_EQ(bad.ask("nonsense\r\n\r\n" + unread).status, 400);
    EXPECT_TRUE(ends_in_peace(bad));
    http_client large(server.dial());
    EXPECT_EQ(
        large.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n" + unread)
            .status,
        413);
    EXPECT_TRUE(ends_in_peace(large));
    server.dial().write_all("GET / HT");  // truncated
    EXPECT_EQ(http_client(server.dial()).get("/").status, 200);
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
  });
}

TEST_F(BeastServer, SaysWhatIsWrong) {
  weft::run([] {
    const weft::net::tcp_listener taken = weft::net::listen("127.0.0.1:0");
    const std::string address = taken.local_endpoint().to_string();
    const auto r = weft::process::command(BEAST_SERVER, {address}).output();
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_EQ(r.err, "beast_server: listen tcp " + address + ": Address already in use\n");
  });
}

}  // namespace
