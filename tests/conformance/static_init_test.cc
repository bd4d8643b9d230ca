// go, run and I/O in static initialisers: weft depends on no initialisation order. design.md 2.1 "run".
#include <atomic>
#include <vector>

#include <weft/go.h>
#include <weft/net.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

struct starts_early {
  starts_early() {
    early.add(3);
    for (int i = 0; i < 3; ++i) {
      weft::go([this] {
        weft::gosched();
        ++ran;
        early.done();
      });
    }
    nested = weft::run([] {
      int n = 0;
      weft::thread([&n] { n = 7; }).join();
      return n;
    });
    answer = weft::run([] { return echo(); });
    first_id = weft::run([] { return static_cast<int>(weft::runtime::goid()); });
  }
  weft::wait_group early;
  std::atomic<int> ran{0};
  int nested = 0;
  int first_id = 0;
  int answer = 0;

 private:
  // Listens, dials, and says what came back.
  static int echo() {
    weft::net::tcp_listener listener = weft::net::listen("127.0.0.1:0");
    weft::thread server([&listener] {
      weft::net::tcp_conn c = listener.accept();
      char byte[1];
      c.read_full(byte);
      c.write_all(byte);
    });
    weft::net::tcp_conn c = weft::net::dial(listener.local_endpoint().to_string());
    char byte[1] = {'!'};
    c.write_all(byte);
    byte[0] = 0;
    c.read_full(byte);
    server.join();
    return byte[0];
  }
};

// Before anything else in this program, as far as the linker lets us choose.
[[gnu::init_priority(101)]] starts_early before_main;

TEST(StaticInitialiser, StartsGoroutines) {
  before_main.early.wait();
  EXPECT_EQ(before_main.ran, 3);
  EXPECT_EQ(before_main.nested, 7);
  EXPECT_EQ(before_main.answer, '!');
  EXPECT_GT(before_main.first_id, 1) << "the first run() was the one before";
  EXPECT_EQ(weft::test::leaks(), "");
}

}  // namespace
