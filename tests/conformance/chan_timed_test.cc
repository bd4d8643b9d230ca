// Channel operations and selects with a limit.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/slow_clock.h"

namespace {

using namespace std::chrono_literals;
using weft::chan;
using weft::otherwise;
using weft::recv;
using weft::select;
using weft::send;
using weft::timeout;
using weft::test::slow_clock;
using clock_type = std::chrono::steady_clock;

class ChanTimed : public weft::test::over_procs {
 protected:
  // As a goroutine, then as a plain thread.
  template <class F>
  void both(F f) {
    run(f);
    f();
  }
};

TEST_P(ChanTimed, NothingComes) {
  both([] {
    const chan<int> c, nil(nullptr);
    const auto begin = clock_type::now();
    const auto r = c.recv_for(5ms);
    EXPECT_FALSE(r);
    EXPECT_FALSE(r.closed());
    EXPECT_GE(clock_type::now() - begin, 5ms);
    EXPECT_FALSE(c.send_for(1, 1ms));
    EXPECT_FALSE(c.recv_until(clock_type::now() + 1ms));
    EXPECT_FALSE(c.send_until(1, std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(c.recv_for(0ms));
    EXPECT_FALSE(c.recv_for(-1h));
    EXPECT_FALSE(nil.recv_for(1ms));
    EXPECT_FALSE(nil.send_for(1, 1ms));
  });
}

// The limit is what the caller's clock says, however long that takes.
TEST_P(ChanTimed, AnotherClockMayBeSet) {
  both([] {
    const chan<int> c;
    auto t = slow_clock::now() + 2ms;
    EXPECT_FALSE(c.recv_until(t));
    EXPECT_GE(slow_clock::now(), t);
    t = slow_clock::now() + 2ms;
    EXPECT_FALSE(c.send_until(1, t));
    EXPECT_GE(slow_clock::now(), t);
    t = slow_clock::now() + 2ms;
    EXPECT_FALSE(weft::recv_chan<int>(c).recv_until(t));
    EXPECT_GE(slow_clock::now(), t);
    c.close();
    EXPECT_TRUE(c.recv_until(slow_clock::now() + 1h).closed());
  });
}

TEST_P(ChanTimed, SomethingIsThere) {
  both([] {
    const chan<int> c(1);
    EXPECT_TRUE(c.send_for(1, 0ms));
    EXPECT_FALSE(c.send_for(2, 1ms));
    EXPECT_EQ(*c.recv_for(0ms), 1);
    EXPECT_TRUE(c.send_for(3, std::chrono::hours::max()));
    EXPECT_EQ(*c.recv_until(clock_type::time_point::max()), 3);
    c.close();
    EXPECT_TRUE(c.recv_for(1h).closed());
    EXPECT_THROW(c.send_for(1, 1h), weft::closed_channel);
  });
}

TEST_P(ChanTimed, SomethingComes) {
  both([] {
    const chan<int> c, d;
    weft::go([=] {
      for (int i = 0; i < 10; ++i) weft::gosched();
      c.send(7);
      EXPECT_EQ(d.recv(), 8);
      d.close();
    });
    EXPECT_EQ(*c.recv_for(1h), 7);
    EXPECT_TRUE(d.send_for(8, 1h));
    EXPECT_TRUE(d.recv_for(1h).closed());
  });
}

// Limits and partners at the same moment: every value that was sent is received, and no other.
TEST_P(ChanTimed, LimitsRaceWithPartners) {
  run([] {
    for (const std::size_t capacity : {0, 2}) {
      const chan<int> c(capacity);
      std::atomic<long> sent{0}, received{0};
      weft::wait_group senders, receivers;
      for (int p = 0; p < 4; ++p) {
        senders.go([&, p] {
          for (int i = 0; i < weft::test::scaled(1000, 50); ++i) {
            if (c.send_for(1, std::chrono::microseconds((i + p) % 40))) ++sent;
          }
        });
        receivers.go([&, p] {
          for (int i = 0;; ++i) {
            const auto r = c.recv_for(std::chrono::microseconds((i + p) % 30));
            if (r) ++received;
            if (r.closed()) return;
          }
        });
      }
      senders.wait();
      c.close();
      receivers.wait();
      EXPECT_EQ(sent, received);
    }
  });
}

TEST_P(ChanTimed, SelectTimesOut) {
  both([] {
    const chan<int> c, nil(nullptr);
    const auto begin = clock_type::now();
    bool late = false;
    EXPECT_EQ(select(recv(c), timeout(5ms, [&] { late = true; }), send(nil, 1)), 1u);
    EXPECT_TRUE(late);
    EXPECT_GE(clock_type::now() - begin, 5ms);
    EXPECT_EQ(select(timeout(1ms)), 0u);
    EXPECT_EQ(select(timeout(1h), recv(c), timeout(1ms)), 2u) << "the shortest";
    EXPECT_EQ(select(timeout(0ms), otherwise(), recv(c)), 1u);
    EXPECT_EQ(select(timeout(-1s), recv(c)), 0u);
    const chan<int> ready(1);
    ready.send(1);
    EXPECT_EQ(select(timeout(0ms), recv(ready)), 1u);
    weft::go([c] { c.send(3); });
    EXPECT_EQ(select(recv(c), timeout(1h)), 0u);
    weft::selector s;
    s.add(recv(c));
    s.add(timeout(1ms));
    EXPECT_EQ(s.select(), 1u);
    EXPECT_EQ(s.select(), 1u);
  });
}

TEST_P(ChanTimed, SelectLimitsRaceWithPartners) {
  run([] {
    const chan<int> a, b;
    std::atomic<long> sent{0}, received{0};
    weft::wait_group senders, receivers;
    for (int p = 0; p < 4; ++p) {
      senders.go([&, p] {
        for (int i = 0; i < weft::test::scaled(1000, 50); ++i) {
          select(send(a, 1, [&] { ++sent; }), timeout(std::chrono::microseconds((i + p) % 40)),
                 send(b, 1, [&] { ++sent; }));
        }
      });
      receivers.go([&, p] {
        bool open = true;
        const auto take = [&](std::optional<int> v) {
          open = v.has_value();
          received += open ? 1 : 0;
        };
        int i = 0;
        while (open) {
          select(recv(b, take), recv(a, take), timeout(std::chrono::microseconds((i++ + p) % 30)));
        }
      });
    }
    senders.wait();
    a.close();
    b.close();
    receivers.wait();
    EXPECT_EQ(sent, received);
  });
}

// Go: TestTimerFairness: two busy senders do not starve a limit.
TEST_P(ChanTimed, BusySendersDoNotStarveALimit) {
  run([] {
    const chan<int> c;
    std::atomic<bool> over{false};
    weft::wait_group wg;
    for (int p = 0; p < 2; ++p) {
      wg.go([&] {
        while (!over) c.send_for(1, 1ms);
      });
    }
    const auto end = clock_type::now() + 20ms;
    while (clock_type::now() < end) c.recv();
    over = true;
    while (select(recv(c), timeout(5ms)) == 0) {
    }
    wg.wait();
  });
}

WEFT_OVER_PROCS(ChanTimed);

}  // namespace
