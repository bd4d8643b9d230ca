// HTTP with Boost.Beast on goroutines: Beast's synchronous functions, one goroutine per connection, no io_context.
//
//     CXXFLAGS=-O1 ./weft run examples/beast_server/main.cpp 127.0.0.1:8080
//     curl -d hello http://127.0.0.1:8080/echo
#include <algorithm>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <weft/boost.h>
#include <weft/chan.h>
#include <weft/net.h>
#include <weft/run.h>
#include <weft/signal.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using stream = weft::asio_stream<weft::net::tcp_conn>;
using request = http::request<http::string_body>;
using response = http::response<http::string_body>;

constexpr std::size_t kMostBody = 1 << 20;
constexpr auto kPatience = std::chrono::seconds(30);
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{1000};

response answer(const request& r) {
  response a{http::status::ok, r.version()};
  a.set(http::field::server, "weft and Beast");
  a.set(http::field::content_type, "text/plain");
  a.keep_alive(r.keep_alive());
  if (r.target() == "/" && r.method() == http::verb::get) {
    a.body() = "hello\n";
  } else if (r.target() == "/echo" && r.method() == http::verb::post) {
    a.body() = r.body();
  } else {
    a.result(http::status::not_found);
    a.body() = "nothing here\n";
  }
  a.prepare_payload();
  return a;
}

// A close with unread input resets the connection, and the client may lose our answer: so it is told that no more will
// come, and has a moment to read and to close.
void say_goodbye(weft::net::tcp_conn& c) {
  constexpr std::size_t kMostIgnored = 256 * 1024;
  std::error_code ec;
  c.shutdown_write(ec);
  c.set_deadline(weft::clock::now() + std::chrono::seconds(1));
  char part[16 * 1024];
  for (std::size_t ignored = 0; !ec && ignored < kMostIgnored;) {
    const std::size_t n = c.read_some(part, ec);
    if (n == 0) return;
    ignored += n;
  }
}

void serve(stream s) {
  beast::flat_buffer buffer;
  beast::error_code ec;
  for (bool more = true; more && !ec;) {
    s.next_layer().set_deadline(weft::clock::now() + kPatience);
    http::request_parser<http::string_body> parser;
    parser.body_limit(kMostBody);
    http::read(s, buffer, parser, ec);
    if (ec == http::error::end_of_stream) return;
    response a;
    if (ec) {
      const bool large = ec == http::error::body_limit;
      a.result(large ? http::status::payload_too_large : http::status::bad_request);
      a.body() = ec.message() + "\n";
      a.keep_alive(false);
      a.prepare_payload();
      ec = {};
    } else {
      a = answer(parser.get());
    }
    more = a.keep_alive();
    http::write(s, a, ec);
  }
  if (!ec) say_goodbye(s.next_layer());
}

// Until the listener is closed. What else accept() says is of one connection, or of the net for a while.
void accept_all(weft::net::tcp_listener& listener) {
  std::chrono::milliseconds pause{0};
  for (;;) {
    std::error_code ec;
    weft::net::tcp_conn c = listener.accept(ec);
    if (ec == weft::errc::closed) return;
    if (ec) {
      std::fprintf(stderr, "accept: %s\n", ec.message().c_str());
      pause = std::clamp(2 * pause, kFirstPause, kLongestPause);
      weft::this_thread::sleep_for(pause);
      continue;
    }
    pause = std::chrono::milliseconds(0);
    weft::go([c = std::move(c)]() mutable { serve(stream(std::move(c))); });
  }
}

int run_server(const char* address) {
  weft::chan<int> quit(1);
  weft::signal::notify(quit, {SIGINT, SIGTERM});
  weft::net::tcp_listener listener = weft::net::listen(address);
  std::printf("serving on %s\n", listener.local_endpoint().to_string().c_str());
  std::fflush(stdout);
  weft::wait_group acceptor;
  acceptor.go([&listener] { accept_all(listener); });
  quit.recv();
  listener.close();
  acceptor.wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::run([&] {
    try {
      return run_server(argc > 1 ? argv[1] : "127.0.0.1:8080");
    } catch (const std::exception& e) {
      std::fprintf(stderr, "beast_server: %s\n", e.what());
      return 1;
    }
  });
}
