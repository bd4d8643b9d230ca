// examples/tls as a process: both ends, and each against the openssl tool.
#include <chrono>
#include <gtest/gtest.h>
#include <string>

#include <weft/context.h>
#include <weft/io.h>
#include <weft/run.h>

#include "support/fixture.h"
#include "support/program.h"
#include "support/sockets.h"

namespace {

using weft::process::command;
using weft::process::stream_choice;
using weft::test::program;

class Tls : public weft::test::runtime_test {
 protected:
  template <class F>
  void run(F&& f) {
    weft::run(std::forward<F>(f), {.max_procs = 2});
  }

  // Runs it with that text as its standard input, which stays open until its output has had `wanted` bytes.
  static std::string with_input(const command& c, const std::string& text, std::size_t wanted) {
    command copy = c;
    auto child = copy.in(stream_choice::pipe()).out(stream_choice::pipe()).start();
    child.in.write_all(text);
    std::string out;
    char buffer[4096];
    while (out.size() < wanted) {
      const std::size_t n = child.out.read_some(buffer);
      if (n == 0) break;
      out.append(buffer, n);
    }
    child.in.close();
    while (child.out.read_some(buffer) > 0) {
    }
    EXPECT_TRUE(child.wait().ok());
    return out;
  }

  weft::test::temporary_directory files_;
};

TEST_F(Tls, BothEnds) {
  run([] {
    for (const char* procs : {"1", "4"}) {
      const auto r = command(TLS).env("WEFTMAXPROCS", procs).output();
      EXPECT_EQ(r.exit_code, 0) << r.err;
      EXPECT_EQ(r.out,
                "20 of 20 clients had their bytes back\n"
                "a stranger's certificate: TLS handshake: certificate verify failed\n"
                "another name: TLS handshake: certificate verify failed\n");
    }
  });
}

// What is wrong with one connection is not with the next.
TEST_F(Tls, GoesOnAfterABadAccept) {
  run([] {
    const auto r = command(TLS).env("WEFT_TEST_FORCE", weft::test::kOneBadAccept).output();
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.out.substr(0, r.out.find('\n')), "20 of 20 clients had their bytes back");
  });
}

TEST_F(Tls, ServerAndTheOpensslTool) {
  run([&] {
    if (!weft::test::is_installed("openssl")) GTEST_SKIP() << "the openssl tool is not installed";
    program server(TLS, {"serve", "127.0.0.1:0", files_.path("cert.pem")});
    const std::string text = "over the border\n";
    for (const char* version : {"-tls1_2", "-tls1_3"}) {
      command client("openssl", {"s_client", "-quiet", "-no_ign_eof", "-connect", server.address(),
                                 "-CAfile", files_.path("cert.pem"), "-servername", "localhost",
                                 "-verify_hostname", "localhost", "-verify_return_error", version});
      client.err(stream_choice::null());
      EXPECT_EQ(with_input(client, text, text.size()), text) << version;
    }
    // Nonsense, and somebody who leaves in the middle, disturb nobody.
    server.dial().write_all("GET / HTTP/1.0\r\n\r\n");
    server.dial().write_all("\x16\x03\x01");
    command again(TLS, {"connect", server.address(), files_.path("cert.pem")});
    auto child = again.in(stream_choice::pipe()).out(stream_choice::pipe()).start();
    const std::string large = weft::test::pattern_string(1, 0, 50'000);
    child.in.write_all(large);
    child.in.close();
    std::string back(large.size(), '\0');
    child.out.read_full(back);
    EXPECT_EQ(back, large);
    EXPECT_TRUE(child.wait().ok());
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
  });
}

// More than all the buffers on the way hold.
TEST_F(Tls, ServerAndClient) {
  run([&] {
    program server(TLS, {"serve", "127.0.0.1:0", files_.path("cert.pem")});
    const std::string text = weft::test::pattern_string(1, 0, 16'000'000);
    files_.write("text", text);
    const weft::io::file in = weft::io::file::open(files_.path("text"));
    command client(TLS, {"connect", server.address(), files_.path("cert.pem")});
    client.in(stream_choice::fd(in.native_handle()));
    auto [ctx, cancel] =
        weft::with_timeout(weft::context(), std::chrono::seconds(20 * weft::test::slowness()));
    std::error_code ec;
    const auto r = client.output(ctx, ec);
    cancel();
    EXPECT_FALSE(ec) << ec.message();
    EXPECT_TRUE(r.ok()) << r.err;
    EXPECT_TRUE(r.out == text);
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait().exit_code, 0);
  });
}

TEST_F(Tls, SaysWhatIsWrong) {
  run([&] {
    const auto r = command(TLS, {"connect", "127.0.0.1:1", files_.path("nothing.pem")}).output();
    EXPECT_EQ(r.exit_code, 1);
    EXPECT_EQ(r.err, "tls: no certificate in " + files_.path("nothing.pem") + "\n");
    EXPECT_EQ(command(TLS, "nonsense").output().exit_code, 2);
  });
}

}  // namespace
