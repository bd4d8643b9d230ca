// Serves the files of a directory over HTTP/1.1: one goroutine per connection, code that reads from top to bottom.
//
//     ./weft run examples/file_server/main.cpp --root . --address 127.0.0.1:8080
//
// SIGTERM and SIGINT end it in peace: no new connections, requests that have arrived are answered, answers that are
// on their way are finished; what takes longer than the grace period is cut off. A second signal ends it at once.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unordered_set>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/net.h>
#include <weft/run.h>
#include <weft/semaphore.h>
#include <weft/signal.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "connection.h"

namespace {

using std::chrono::milliseconds;
namespace net = weft::net;

constexpr milliseconds kFirstPause{5}, kLongestPause{1000};  // between attempts to accept

struct arguments {
  std::string address = "127.0.0.1:8080";
  std::string root = ".";
  long connections = 10'000;
  milliseconds grace{10'000};
  http::options http;
};

[[noreturn]] void usage(bool asked_for = false) {
  std::fputs(
      "usage: file_server [--address HOST:PORT] [--root DIRECTORY] [--connections N] [--grace MS]\n"
      "                   [--idle-timeout MS] [--read-timeout MS] [--write-timeout MS] "
      "[--body-limit BYTES]\n",
      asked_for ? stdout : stderr);
  std::exit(asked_for ? 0 : 2);
}

arguments parse_arguments(int argc, char** argv) {
  arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    long number = 0;
    const bool is_number = http::whole_number(std::string_view(argv[i + 1]), number) && number > 0;
    if (name == "--address") {
      a.address = argv[i + 1];
    } else if (name == "--root") {
      a.root = argv[i + 1];
    } else if (!is_number) {
      usage();
    } else if (name == "--connections") {
      a.connections = number;
    } else if (name == "--grace") {
      a.grace = milliseconds(number);
    } else if (name == "--idle-timeout") {
      a.http.idle_timeout = milliseconds(number);
    } else if (name == "--read-timeout") {
      a.http.read_timeout = milliseconds(number);
    } else if (name == "--write-timeout") {
      a.http.write_timeout = milliseconds(number);
    } else if (name == "--body-limit") {
      a.http.most.body = static_cast<std::uint64_t>(number);
    } else {
      usage();
    }
  }
  if (argc % 2 == 0) usage(std::string_view(argv[argc - 1]) == "--help");
  return a;
}

// A connection takes one descriptor, and another while it sends a file.
void raise_descriptor_limit() {
  rlimit r{};
  if (::getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
    r.rlim_cur = r.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &r);
  }
}

class server {
 public:
  explicit server(const arguments& a)
      : listener_(net::listen(a.address)),
        shared_{a.http, http::site(a.root)},
        free_(a.connections) {}

  net::endpoint address() const { return listener_.local_endpoint(); }

  void start() {
    accepting_.go([this] { accept_all(); });
  }

  // False: some had to be cut off.
  bool drain(milliseconds grace) {
    std::error_code ec;
    shared_.draining = true;
    listener_.close(ec);
    free_.release();    // the acceptor may wait for a place
    accepting_.wait();  // whom it has accepted last is counted from here on
    // Each reads what has arrived, and then the end: idle ones end at once, the others after their answer.
    for_all([&ec](net::tcp_conn& c) { c.shutdown_read(ec); });
    if (running_.wait_for(grace)) return true;
    for_all([&ec](net::tcp_conn& c) { c.close(ec); });
    running_.wait();
    return false;
  }

  void report() const {
    std::printf("answered %llu requests on %llu connections\n",
                static_cast<unsigned long long>(shared_.requests),
                static_cast<unsigned long long>(accepted_));
  }

 private:
  // Until the listener is closed. Who finds no place waits in the kernel's queue. What else accept() says is of one
  // connection, or of the net for a while: the next one may be good.
  void accept_all() {
    milliseconds pause{0};
    for (;;) {
      free_.acquire();
      std::error_code ec;
      net::tcp_conn c = listener_.accept(ec);
      if (ec) {
        free_.release();
        if (ec == weft::errc::closed) return;
        std::fprintf(stderr, "accept: %s\n", ec.message().c_str());
        pause = std::clamp(2 * pause, kFirstPause, kLongestPause);
        weft::this_thread::sleep_for(pause);
        continue;
      }
      pause = milliseconds(0);
      running_.go([this, c = std::move(c)]() mutable { serve(c); });
    }
  }

  void serve(net::tcp_conn& c) {
    {
      const std::lock_guard held(mutex_);
      connections_.insert(&c);
      ++accepted_;
    }
    if (!shared_.draining) http::connection(c, shared_).serve();
    {
      const std::lock_guard held(mutex_);
      connections_.erase(&c);
    }
    std::error_code ec;
    c.close(ec);
    free_.release();
  }

  template <class F>
  void for_all(F f) {
    const std::lock_guard held(mutex_);
    for (net::tcp_conn* c : connections_) f(*c);
  }

  net::tcp_listener listener_;
  http::shared_state shared_;
  weft::counting_semaphore<> free_;
  weft::wait_group accepting_;
  weft::wait_group running_;
  weft::mutex mutex_;
  std::unordered_set<net::tcp_conn*> connections_;
  std::uint64_t accepted_ = 0;
};

int run_server(const arguments& a) {
  weft::chan<int> quit(2);
  weft::signal::notify(quit, {SIGINT, SIGTERM});
  server s(a);
  std::printf("serving %s on %s\n", a.root.c_str(), s.address().to_string().c_str());
  std::fflush(stdout);
  s.start();
  quit.recv();
  weft::signal::reset({SIGINT, SIGTERM});  // the next one is final
  const bool in_peace = s.drain(a.grace);
  s.report();
  return in_peace ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse_arguments(argc, argv);
  raise_descriptor_limit();
  return weft::run([&a] {
    try {
      return run_server(a);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "file_server: %s\n", e.what());
      return 1;
    }
  });
}
