// examples/file_server as a process, with clients of all kinds.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <weft/go.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "examples/http_client.h"
#include "support/fixture.h"
#include "support/program.h"
#include "support/sockets.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::dial_with_little_room;
using weft::test::http_client;
using weft::test::pattern_string;
using weft::test::program;
using weft::test::response;
namespace net = weft::net;

constexpr std::size_t kLarge = 4096 * 1024;  // more than the kernel takes from a sender in advance

class FileServer : public weft::test::runtime_test {
 protected:
  FileServer() {
    files_.write("index.html", "<p>hello</p>\n");
    files_.write("large.bin", pattern_string(1, 0, kLarge));
    files_.write("with space.txt", "space\n");
    files_.write(".secret", "secret\n");
    std::filesystem::create_directory(files_.path("sub"));
    files_.write("sub/index.html", "sub\n");
    for (int i = 0; i < 10; ++i) {
      files_.write(std::to_string(i) + ".txt", "number " + std::to_string(i) + "\n");
    }
  }

  template <class F>
  void run(F&& f) {
    weft::run(std::forward<F>(f), {.max_procs = 2});
  }

  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--address", "127.0.0.1:0", "--root", files_.path()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  weft::test::temporary_directory files_;
};

TEST_F(FileServer, Answers) {
  run([&] {
    program server(FILE_SERVER, arguments());
    http_client c(server.dial());
    response r = c.get("/");
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.body, "<p>hello</p>\n");
    EXPECT_EQ(r.field("Content-Length"), "13");
    EXPECT_EQ(r.field("Content-Type"), "text/html; charset=utf-8");
    EXPECT_EQ(r.field("Date").size(), 29u);
    const std::string modified = r.field("Last-Modified");
    EXPECT_EQ(c.get("/with%20space.txt?query").body, "space\n");
    r = c.ask("HEAD /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.field("Content-Length"), std::to_string(kLarge));
    EXPECT_EQ(c.get("/large.bin").body, pattern_string(1, 0, kLarge));
    EXPECT_EQ(c.get("/nothing").status, 404);
    EXPECT_EQ(c.get("/", "If-Modified-Since: " + modified + "\r\n").status, 304);
    r = c.get("/sub");
    EXPECT_EQ(r.status, 301);
    EXPECT_EQ(r.field("Location"), "/sub/");
    EXPECT_EQ(c.get("/sub/").body, "sub\n");
    r = c.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345");
    EXPECT_EQ(r.status, 405);
    EXPECT_EQ(r.field("Allow"), "GET, HEAD");
    EXPECT_EQ(c.ask("GET http://x/sub/ HTTP/1.1\r\nHost: x\r\n\r\n").body, "sub\n");
    // HTTP/1.0 ends with the answer, unless it asks for more.
    r = c.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(r.field("Connection"), "keep-alive");
    r = c.ask("GET / HTTP/1.0\r\n\r\n");
    EXPECT_EQ(r.field("Connection"), "close");
    EXPECT_TRUE(c.ended());
  });
}

// What is wrong with one connection is not with the next.
TEST_F(FileServer, GoesOnAfterABadAccept) {
  run([&] {
    program server(FILE_SERVER, arguments({"--connections", "1"}), weft::test::kOneBadAccept);
    http_client c(server.dial());
    c.conn.set_deadline(weft::clock::now() + 10s * weft::test::slowness());
    EXPECT_EQ(c.get("/").status, 200);
  });
}

TEST_F(FileServer, Parts) {
  run([&] {
    program server(FILE_SERVER, arguments());
    http_client c(server.dial());
    const auto part = [&](const std::string& range) {
      return c.get("/large.bin", "Range: bytes=" + range + "\r\n");
    };
    response r = part("1000-1009");
    EXPECT_EQ(r.status, 206);
    EXPECT_EQ(r.body, pattern_string(1, 1000, 10));
    EXPECT_EQ(r.field("Content-Range"), "bytes 1000-1009/" + std::to_string(kLarge));
    EXPECT_EQ(part("-7").body, pattern_string(1, kLarge - 7, 7));
    EXPECT_EQ(part(std::to_string(kLarge - 3) + "-").body, pattern_string(1, kLarge - 3, 3));
    EXPECT_EQ(part(std::to_string(kLarge - 3) + "-99999999").body,
              pattern_string(1, kLarge - 3, 3));
    EXPECT_EQ(part(std::to_string(kLarge) + "-").status, 416);
    EXPECT_EQ(part("0-1,5-6").status, 200);  // several: all of it
    EXPECT_EQ(part("9-2").status, 200);
    r = c.get("/large.bin", "Range: bytes=0-4\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    EXPECT_EQ(r.status, 200);
  });
}

TEST_F(FileServer, StaysInItsDirectory) {
  std::filesystem::create_symlink("/etc/passwd", files_.path("link"));
  std::filesystem::create_directory_symlink("/etc", files_.path("etc"));
  ::mkfifo(files_.path("fifo").c_str(), 0600);
  run([&] {
    program server(FILE_SERVER, arguments());
    http_client c(server.dial());
    EXPECT_EQ(c.get("/../../../../etc/passwd").status, 404);
    EXPECT_EQ(c.get("/%2e%2e/%2e%2e/%2e%2e/etc/passwd").status, 404);
    EXPECT_EQ(c.get("/sub/..%2f..%2fetc/passwd").status, 404);
    EXPECT_EQ(c.get("//etc/passwd").status, 404);
    EXPECT_EQ(c.get("/link").status, 403);
    EXPECT_EQ(c.get("/etc/passwd").status, 404);
    EXPECT_EQ(c.get("/fifo").status, 403);
    EXPECT_EQ(c.get("/.secret").status, 404);
    EXPECT_EQ(c.get("/%00index.html").status, 400);
    EXPECT_EQ(c.get("/%zz").status, 400);
    EXPECT_EQ(c.get("//sub").status, 404);  // no redirection to a machine of that name
    EXPECT_EQ(c.get("/index.html/").status, 404);
    EXPECT_EQ(c.get("/" + std::string(300, 'x')).status, 404);
    EXPECT_EQ(c.get("/").status, 200);
  });
}

TEST_F(FileServer, Pipelines) {
  run([&] {
    program server(FILE_SERVER, arguments());
    http_client c(server.dial());
    std::string all;
    constexpr int kRequests = 400;  // more than the buffers hold
    const auto name = [](int i) { return std::to_string(i * 7 % 11); };
    for (int i = 0; i < kRequests; ++i) {
      all += "GET /" + name(i) + ".txt HTTP/1.1\r\nHost: x\r\n\r\n";
      if (i % 50 == 0)
        all +=
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n" + std::string(3000, 'G');
    }
    weft::wait_group wg;
    wg.go([&] { c.send(all); });
    for (int i = 0; i < kRequests; ++i) {
      const response r = c.receive();
      const bool exists = i * 7 % 11 < 10;
      ASSERT_EQ(r.status, exists ? 200 : 404) << i;
      ASSERT_EQ(r.body, exists ? "number " + name(i) + "\n" : "Not Found\n") << i;
      if (i % 50 == 0) {
        ASSERT_EQ(c.receive().status, 405);
      }
    }
    wg.wait();
    // Byte by byte, a large head among them.
    const std::string slow =
        "GET /3.txt HTTP/1.1\r\nHost: x\r\nX: " + std::string(3000, 'x') + "\r\n\r\n";
    for (const char byte : slow) c.send({&byte, 1});
    EXPECT_EQ(c.receive().body, "number 3\n");
  });
}

TEST_F(FileServer, RefusesWhatIsWrongOrTooMuch) {
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n";
  const std::pair<std::string, int> cases[] = {
      {"GET /" + std::string(5000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
      {std::string(100'000, 'a'), 414},
      {get + "X: " + std::string(20'000, 'a') + "\r\n\r\n", 431},
      {get +
           [] {
             std::string s;
             for (int i = 0; i < 5000; ++i) s += "A: b\r\n";
             return s;
           }() +
           "\r\n",
       431},
      {get + "Content-Length: 9999999\r\n\r\n", 413},
      {get + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {get + "Content-Length: -1\r\n\r\n", 400},
      {get + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {get + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {get + "Transfer-Encoding: chunked\r\n\r\n", 411},
      {get + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {get + "Host: y\r\n\r\n", 400},
      {get + "X : y\r\n\r\n", 400},
      {get + "X: y\r\n folded\r\n\r\n", 400},
      {get + "nonsense\r\n\r\n", 400},
      {get + std::string("X: a\0b\r\n\r\n", 10), 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\n\n", 400},
      {"GET  HTTP/1.1\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"\x16\x03\x01\x02\r\n\r\n", 400},
      {"GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400},
  };
  run([&] {
    program server(FILE_SERVER, arguments());
    for (const auto& [text, status] : cases) {
      http_client c(server.dial());
      const response r = c.ask(text);
      EXPECT_EQ(r.status, status) << text.substr(0, 60);
      EXPECT_EQ(r.field("Connection"), "close");
      EXPECT_TRUE(c.ended()) << text.substr(0, 60);
    }
    // Truncated: no answer, and the connection is closed.
    const std::string whole = get + "Content-Length: 5\r\n\r\n1234";
    for (std::size_t n = 0; n + 10 < whole.size(); n += 7) {
      http_client c(server.dial());
      c.send(whole.substr(0, n));
      c.conn.shutdown_write();
      EXPECT_TRUE(c.ended());
    }
    EXPECT_EQ(http_client(server.dial()).get("/").status, 200);
  });
}

TEST_F(FileServer, SlowClientsAreCutOff) {
  run([&] {
    {
      program server(FILE_SERVER, arguments({"--read-timeout", "50"}));
      http_client c(server.dial());
      c.send("GET / HTTP/1.1\r\nHos");
      EXPECT_EQ(c.receive().status, 408);
      EXPECT_TRUE(c.ended());
    }
    {
      program server(FILE_SERVER, arguments({"--idle-timeout", "50"}));
      http_client c(server.dial());
      EXPECT_TRUE(c.ended());
    }
    // One who does not read has the only place, which the next one gets.
    program server(FILE_SERVER, arguments({"--connections", "1", "--write-timeout", "200"}));
    http_client c(dial_with_little_room(server.address()));
    c.send("GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(http_client(server.dial()).get("/").status, 200);
    EXPECT_LT(c.receive().body.size(), kLarge);
  });
}

// A little every millisecond, a head or a body, does not keep a place.
TEST_F(FileServer, DrippingClientsAreCutOff) {
  run([&] {
    program server(FILE_SERVER, arguments({"--read-timeout", "100"}));
    for (const auto& [begin, status] : std::initializer_list<std::pair<const char*, int>>{
             {"GET / HTTP/1.1\r\nHost: x\r\nX: ", 408},
             {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", 405}}) {
      http_client c(server.dial());
      std::atomic<bool> ended{false};
      c.send(begin);
      weft::thread drips([&] {
        for (int i = 0; i < 4000 && !ended; ++i) {
          c.send("xxx");
          weft::this_thread::sleep_for(1ms);  // sleep-ok: it is slow on purpose
        }
        EXPECT_TRUE(ended) << "it was allowed to go on";
        std::error_code ec;
        c.conn.shutdown_write(ec);
      });
      EXPECT_EQ(c.receive().status, status);
      EXPECT_TRUE(c.ended());
      ended = true;
      drips.join();
    }
  });
}

// What the server will not read any more does not cost the client its answer.
TEST_F(FileServer, RefusalsAreNotResets) {
  run([&] {
    program server(FILE_SERVER, arguments());
    const std::string body(100'000, 'x');
    for (const auto& [begin, status] : std::initializer_list<std::pair<const char*, int>>{
             {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", 413},
             {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200}}) {
      http_client c(server.dial());
      EXPECT_EQ(c.ask(begin + body).status, status);
      std::error_code ec;
      char byte[1];
      EXPECT_EQ(c.conn.read_some(byte, ec), 0u);
      EXPECT_FALSE(ec) << ec.message();
    }
    // Nobody waits for a body whose sender waits for leave.
    http_client c(server.dial());
    const response r =
        c.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_EQ(r.status, 405);
    EXPECT_EQ(r.field("Connection"), "close");
    EXPECT_TRUE(c.ended());
  });
}

TEST_F(FileServer, ManySlowReadersDoNotDisturb) {
  const int readers = weft::test::scaled(1000, 50);
  if (!weft::test::raise_descriptors(static_cast<rlim_t>(2 * readers + 100))) {
    GTEST_SKIP() << "needs " << 2 * readers + 100 << " descriptors (ulimit -n)";
  }
  run([&] {
    program server(FILE_SERVER, arguments());
    const int before = server.descriptors(files_.path());
    const std::string expected = pattern_string(1, 0, kLarge);
    const std::string end = expected.substr(kLarge - 100);
    std::atomic<int> begun{0}, wrong{0};
    weft::wait_group wg, may_go_on;
    may_go_on.add();
    for (int i = 0; i < readers; ++i) {
      wg.go([&, i] {
        http_client c(dial_with_little_room(server.address()));
        c.send("GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
        char first[16];
        c.conn.read_full(first);
        ++begun;
        may_go_on.wait();
        if (i % 200 != 0) return;  // gone without a word
        std::string all(first, sizeof first);
        char part[5000];
        std::error_code ec;
        while (const std::size_t n = c.conn.read_some(part, ec)) {
          all.append(part, n);
          if (all.size() >= kLarge && all.ends_with(end)) break;
        }
        wrong += all.substr(all.find("\r\n\r\n") + 4) != expected;
      });
    }
    EXPECT_TRUE(weft::test::eventually([&] { return begun == readers; }));
    // Each holds its file: nobody has got all of it.
    EXPECT_EQ(server.descriptors(files_.path()), before + 2 * readers);
    {
      http_client fast(server.dial());
      for (int i = 0; i < 200; ++i) ASSERT_EQ(fast.get("/").status, 200);
    }
    may_go_on.done();
    wg.wait();
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(
        weft::test::eventually([&] { return server.descriptors(files_.path()) == before; }));
  });
}

TEST_F(FileServer, EndsInPeace) {
  run([&] {
    program server(FILE_SERVER, arguments({"--grace", "60000"}));
    http_client idle(server.dial()), half(server.dial());
    EXPECT_EQ(idle.get("/").status, 200);
    half.send("GET / HTTP/1.1\r\n");
    std::vector<http_client> busy;
    for (int i = 0; i < 5; ++i) {
      busy.emplace_back(dial_with_little_room(server.address()));
      busy.back().send(
          "GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
      char first[1];
      busy.back().conn.read_full(first);
    }
    server.signal(SIGTERM);
    EXPECT_TRUE(idle.ended());
    EXPECT_TRUE(half.ended());
    std::error_code ec;
    net::dial(server.address(), ec);
    EXPECT_EQ(ec, std::errc::connection_refused);
    for (http_client& c : busy) {
      const response r = c.receive();
      EXPECT_EQ(r.body, pattern_string(1, 0, kLarge));
      // What had arrived already is answered as the last one.
      EXPECT_EQ(c.receive().field("Connection"), "close");
      EXPECT_TRUE(c.ended());
    }
    EXPECT_EQ(server.wait().exit_code, 0);
    EXPECT_EQ(server.output(), "answered 11 requests on 7 connections\n");
  });
}

TEST_F(FileServer, GraceHasAnEnd) {
  run([&] {
    program server(FILE_SERVER, arguments({"--grace", "50"}));
    http_client c(dial_with_little_room(server.address()));
    c.send("GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    char first[1];
    c.conn.read_full(first);
    server.signal(SIGINT);
    EXPECT_EQ(server.wait().exit_code, 1);
  });
}

TEST_F(FileServer, SaysWhatIsWrong) {
  run([&] {
    const auto error = [&](const std::vector<std::string>& words) {
      return weft::process::command(FILE_SERVER, words).output();
    };
    EXPECT_EQ(error({"--root", files_.path("nothing"), "--address", "127.0.0.1:0"}).err,
              "file_server: " + files_.path("nothing") + ": No such file or directory\n");
    EXPECT_EQ(error({"--root"}).exit_code, 2);
    EXPECT_EQ(error({"--grace", "x"}).exit_code, 2);
    EXPECT_TRUE(error({"--help"}).ok());
    EXPECT_EQ(error({"--help"}).out.rfind("usage: file_server ", 0), 0u);
    EXPECT_NE(error({"--address", "nonsense"}).err.find("missing port"), std::string::npos);
  });
}

// Load generators of others. WEFT_WEB_SECONDS: how long (1).
class Load : public FileServer {
 protected:
  static std::string seconds() {
    const char* text = std::getenv("WEFT_WEB_SECONDS");
    return text != nullptr ? text : "1";
  }
};

TEST_F(Load, Wrk) {
  run([&] {
    if (!weft::test::is_installed("wrk")) GTEST_SKIP() << "wrk is not installed (Debian: wrk)";
    program server(FILE_SERVER, arguments());
    const auto r = weft::process::command("wrk", {"-t1", "-c50", "-d" + seconds() + "s",
                                                  "http://" + server.address() + "/5.txt"})
                       .output();
    EXPECT_TRUE(r.ok()) << r.err;
    EXPECT_NE(r.out.find("Requests/sec"), std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("Socket errors"), std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("Non-2xx"), std::string::npos) << r.out;
    std::printf("%s", r.out.c_str());
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
  });
}

TEST_F(Load, H2load) {
  run([&] {
    if (!weft::test::is_installed("h2load")) {
      GTEST_SKIP() << "h2load is not installed (Debian: nghttp2-client)";
    }
    program server(FILE_SERVER, arguments());
    const int requests = 200 * std::atoi(seconds().c_str());
    const auto r =
        weft::process::command("h2load", {"--h1", "-n", std::to_string(requests), "-c20", "-m8",
                                          "http://" + server.address() + "/large.bin",
                                          "http://" + server.address() + "/5.txt"})
            .output();
    EXPECT_TRUE(r.ok()) << r.err;
    EXPECT_NE(r.out.find(std::to_string(requests) + " succeeded, 0 failed, 0 errored"),
              std::string::npos)
        << r.out;
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
  });
}

}  // namespace
