// TLS with OpenSSL on goroutines.
//
//     tls                             both ends: a server that echoes, and clients that check what comes back
//     tls serve ADDRESS CERTIFICATE   an echo server; its certificate, made now, is written to that file
//     tls connect ADDRESS CERTIFICATE sends its standard input to a server that shows that certificate
//
// Build it with CMake, or: LDFLAGS='-lssl -lcrypto' ./weft run examples/tls/main.cpp
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/run.h>
#include <weft/signal.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "certificate.h"
#include "tls_stream.h"

namespace {

namespace net = weft::net;

constexpr std::size_t kPiece = 10'000;
constexpr std::chrono::milliseconds kFirstPause{5},
    kLongestPause{1000};  // between attempts to accept

void echo(net::tcp_conn c, SSL_CTX* context) {
  try {
    tls::stream s = tls::stream::server(std::move(c), context);
    char buffer[4096];
    while (const std::size_t n = s.read_some(buffer)) s.write_all({buffer, n});
    s.shutdown();
  } catch (const std::exception& e) {  // of one client only
    std::fprintf(stderr, "tls: %s\n", e.what());
  }
}

// Until the listener is closed. What else accept() says is of one connection, or of the net for a while.
void accept_all(net::tcp_listener& l, SSL_CTX* context, weft::wait_group& clients) {
  std::chrono::milliseconds pause{0};
  for (;;) {
    std::error_code ec;
    net::tcp_conn c = l.accept(ec);
    if (ec == weft::errc::closed) return;
    if (ec) {
      std::fprintf(stderr, "accept: %s\n", ec.message().c_str());
      pause = std::clamp(2 * pause, kFirstPause, kLongestPause);
      weft::this_thread::sleep_for(pause);
      continue;
    }
    pause = std::chrono::milliseconds(0);
    clients.go([c = std::move(c), context]() mutable { echo(std::move(c), context); });
  }
}

// Sends a piece, and reads as much as comes back: who only sends does not see that the other side waits for the same.
bool exchange(tls::stream& s, std::string_view piece, std::string& back) {
  s.write_all(piece);
  char buffer[3000];
  for (const std::size_t wanted = back.size() + piece.size(); back.size() < wanted;) {
    const std::size_t n = s.read_some(buffer);
    if (n == 0) return false;
    back.append(buffer, n);
  }
  return true;
}

bool talk(tls::stream& s, const std::string& text) {
  std::string back;
  for (std::size_t at = 0; at < text.size(); at += kPiece) {
    if (!exchange(s, std::string_view(text).substr(at, kPiece), back)) return false;
  }
  s.shutdown();
  char end[1];
  return back == text && s.read_some(end) == 0;
}

int serve(const char* address, const char* path) {
  weft::chan<int> quit(1);
  weft::signal::notify(quit, {SIGINT, SIGTERM});
  const tls::key k = tls::make_key();
  const tls::certificate cert = tls::make_certificate(k.get());
  const tls::shared_settings context = tls::make_server_context(k.get(), cert.get());
  tls::write_certificate(path, cert.get());
  net::tcp_listener l = net::listen(address);
  std::printf("serving on %s\n", l.local_endpoint().to_string().c_str());
  std::fflush(stdout);
  weft::wait_group clients;
  clients.go([&] { accept_all(l, context.get(), clients); });
  quit.recv();
  l.close();
  clients.wait();
  return 0;
}

int connect(const char* address, const char* path) {
  const tls::certificate cert = tls::read_certificate(path);
  const tls::shared_settings context = tls::make_client_context(cert.get());
  tls::stream s = tls::stream::client(net::dial(address), context.get(), "localhost");
  char piece[kPiece];
  std::string back;
  while (const std::size_t n = std::fread(piece, 1, sizeof piece, stdin)) {
    back.clear();
    if (!exchange(s, {piece, n}, back)) return 1;
    std::fwrite(back.data(), 1, back.size(), stdout);
  }
  s.shutdown();
  return 0;
}

int both_ends() {
  const tls::key k = tls::make_key();
  const tls::certificate cert = tls::make_certificate(k.get());
  const tls::shared_settings server = tls::make_server_context(k.get(), cert.get());
  net::tcp_listener l = net::listen("127.0.0.1:0");
  const std::string address = l.local_endpoint().to_string();
  weft::wait_group all;
  all.go([&] { accept_all(l, server.get(), all); });

  const tls::shared_settings trusting = tls::make_client_context(cert.get());
  weft::chan<bool> results(0);
  constexpr int kClients = 20;
  for (int i = 0; i < kClients; ++i) {
    weft::go([&, i] {
      tls::stream s = tls::stream::client(net::dial(address), trusting.get(), "localhost");
      results.send(s.version() == "TLSv1.3" &&
                   talk(s, std::string(100'000, static_cast<char>('a' + i))));
    });
  }
  int good = 0;
  for (int i = 0; i < kClients; ++i) good += *results.recv() ? 1 : 0;
  std::printf("%d of %d clients had their bytes back\n", good, kClients);

  const auto refusal = [&](SSL_CTX* context, const char* host) -> std::string {
    try {
      tls::stream::client(net::dial(address), context, host);
      return "not refused";
    } catch (const tls::error& e) {
      return e.what();
    }
  };
  const tls::shared_settings suspicious = tls::make_client_context(nullptr);
  std::printf("a stranger's certificate: %s\n", refusal(suspicious.get(), "localhost").c_str());
  std::printf("another name: %s\n", refusal(trusting.get(), "example.com").c_str());
  l.close();
  all.wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::run([&] {
    try {
      if (argc == 4 && std::strcmp(argv[1], "serve") == 0) return serve(argv[2], argv[3]);
      if (argc == 4 && std::strcmp(argv[1], "connect") == 0) return connect(argv[2], argv[3]);
      if (argc == 1) return both_ends();
      std::fputs("usage: tls [serve ADDRESS CERTIFICATE | connect ADDRESS CERTIFICATE]\n", stderr);
      return 2;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "tls: %s\n", e.what());
      return 1;
    }
  });
}
