// An HTTP server that says hello: a goroutine per connection, requests read by the parser of
// examples/file_server, the fields of Go's net/http in the answer. Started and asked by driver/.

#include <csignal>

#include <weft/weft.h>

#include "http.h"
#include "report.h"

namespace {

void answer(std::string& out, const http::request& r, http::date_line& date) {
  constexpr std::string_view kBody = "Hello, world!";
  out.append("HTTP/1.1 200 OK\r\nDate: ").append(date.now());
  if (!r.keep_alive) out += "\r\nConnection: close";
  out.append("\r\nContent-Length: 13\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n")
      .append(kBody);
}

void serve(weft::net::tcp_conn& c) {
  const http::limits most{.request_line = 512, .head = 1024, .body = 0};
  char in[1024];
  std::size_t have = 0;
  std::string out;
  http::date_line date;
  http::request r;
  std::error_code ec;
  while (const std::size_t n = c.read_some({in + have, sizeof in - have}, ec)) {
    have += n;
    std::size_t done = 0;
    http::outcome o;
    while ((o = http::parse({in + done, have - done}, most, r)).status == 200) {
      done += o.size;
      answer(out, r, date);
    }
    c.write_all(out, ec);
    out.clear();
    if (ec || o.status != 0 || !r.keep_alive) return;
    have -= done;
    if (have > 0) std::memmove(in, in + done, have);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments args(argc, argv, 0, "");
  return weft::run(
      [] {
        weft::net::tcp_listener l = weft::net::listen("127.0.0.1:0");
        std::printf("%s\n", l.local_endpoint().to_string().c_str());
        std::fflush(stdout);
        for (;;) {
          weft::go([c = l.accept()]() mutable { serve(c); });
        }
      },
      {.max_procs = args.procs});
}
