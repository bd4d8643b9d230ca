// weft::chan. [CH-1] to [CH-6]; Go: runtime/chan_test.go, test/chan/*.go, test/closedchan.go
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using weft::chan;
using weft::test::eventually;
using weft::test::scaled;

class Chan : public weft::test::over_procs {};

// Runs f as a goroutine; the flag says when it has come to its end.
template <class F>
std::shared_ptr<std::atomic<bool>> start(F f) {
  auto ended = std::make_shared<std::atomic<bool>>(false);
  weft::go([f = std::move(f), ended]() mutable {
    f();
    *ended = true;
  });
  return ended;
}

void many_turns() {
  for (int i = 0; i < 50; ++i) weft::gosched();
}

// Go: TestChan, by capacity: empty receives block, full sends block, the forms that do not wait fail.
TEST_P(Chan, BlocksWhenEmptyAndWhenFull) {
  run([] {
    for (const std::size_t capacity : {0, 1, 2, 7, 64, 199}) {
      {
        chan<int> c(capacity);
        EXPECT_EQ(c.capacity(), capacity);
        EXPECT_FALSE(c.try_recv());
        EXPECT_FALSE(c.try_recv().closed());
        auto one = start([c] { c.recv(); });
        auto two = start([c] { c.recv(); });
        many_turns();
        EXPECT_FALSE(*one || *two);
        c.send(0);
        c.send(0);
        EXPECT_TRUE(eventually([&] { return *one && *two; }));
      }
      {
        chan<int> c(capacity);
        for (std::size_t i = 0; i < capacity; ++i) {
          EXPECT_EQ(c.size(), i);
          c.send(static_cast<int>(i));
        }
        auto sender = start([c] { c.send(1); });
        many_turns();
        EXPECT_FALSE(*sender);
        int kept = 7;
        EXPECT_FALSE(c.try_send(kept));
        EXPECT_EQ(kept, 7);
        EXPECT_EQ(c.recv(), capacity == 0 ? 1 : 0);
        EXPECT_TRUE(eventually([&] { return sender->load(); }));
      }
    }
  });
}

// Go: TestChan: what is in the buffer survives close, then receives return at once.
TEST_P(Chan, DrainsAfterClose) {
  run([] {
    for (const std::size_t capacity : {0, 1, 5, 100}) {
      chan<int> c(capacity);
      for (std::size_t i = 0; i < capacity; ++i) c.send(static_cast<int>(i));
      c.close();
      for (std::size_t i = 0; i < capacity; ++i) {
        ASSERT_EQ(c.recv(), static_cast<int>(i));
      }
      EXPECT_EQ(c.recv(), std::nullopt);
      EXPECT_EQ(c.recv(), std::nullopt);
      const auto r = c.try_recv();
      EXPECT_FALSE(r);
      EXPECT_TRUE(r.closed());
      EXPECT_EQ(c.size(), 0u);
    }
  });
}

// Go: TestChan: close wakes receivers; here also senders, who panic. [CH-5]
TEST_P(Chan, CloseWakesEverybody) {
  run([] {
    chan<int> empty, full(1);
    full.send(0);
    std::atomic<int> none{0}, panics{0}, in{0};
    weft::wait_group wg;
    for (int i = 0; i < 20; ++i) {
      wg.go([&] {
        ++in;
        if (!empty.recv()) ++none;
      });
      wg.go([&] {
        ++in;
        try {
          full.send(1);
        } catch (const weft::closed_channel& e) {
          EXPECT_STREQ(e.what(), "send on closed channel");
          ++panics;
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return in == 40; }));
    many_turns();
    empty.close();
    full.close();
    wg.wait();
    EXPECT_EQ(none, 20);
    EXPECT_EQ(panics, 20);
    EXPECT_EQ(full.recv(), 0);
    EXPECT_EQ(full.recv(), std::nullopt);
  });
}

// Go: TestChan: FIFO; test/chan/fifo.go, daisy-chained.
TEST_P(Chan, FirstInFirstOut) {
  run([] {
    for (const std::size_t capacity : {0, 1, 10, 100}) {
      chan<int> c(capacity);
      weft::go([c] {
        for (int i = 0; i < 500; ++i) c.send(i);
        c.close();
      });
      int expected = 0;
      for (const int v : c) ASSERT_EQ(v, expected++);
      EXPECT_EQ(expected, 500);
    }
    chan<int> all;
    chan<int> in(nullptr);
    for (int i = 0; i < 10; ++i) {
      chan<int> out;
      weft::go([all, in, out, i] {
        if (in) in.recv();
        all.send(i);
        out.send(0);
      });
      in = out;
    }
    for (int i = 0; i < 10; ++i) ASSERT_EQ(all.recv(), i);
    in.recv();
  });
}

// Go: TestChan: 4 x 4 producers and consumers lose and invent nothing.
TEST_P(Chan, ProducersAndConsumers) {
  run([] {
    const int each = scaled(1000, 50);
    for (const std::size_t capacity : {0, 1, 16}) {
      chan<int> c(capacity);
      chan<std::map<int, int>> done;
      weft::wait_group wg;
      for (int p = 0; p < 4; ++p) {
        wg.go([c, each] {
          for (int i = 0; i < each; ++i) c.send(i);
        });
        weft::go([c, done] {
          std::map<int, int> seen;
          for (const int v : c) ++seen[v];
          done.send(std::move(seen));
        });
      }
      wg.wait();
      c.close();
      std::map<int, int> all;
      for (int p = 0; p < 4; ++p) {
        const auto seen = done.recv();
        for (const auto& [v, n] : *seen) all[v] += n;
      }
      ASSERT_EQ(all.size(), static_cast<std::size_t>(each));
      for (const auto& [v, n] : all) ASSERT_EQ(n, 4) << v;
    }
  });
}

// Go: TestNonblockRecvRace: a value that is there is received although the channel is being closed.
TEST_P(Chan, TryRecvRacesWithClose) {
  run([] {
    for (int i = 0; i < scaled(10000, 100); ++i) {
      chan<int> c(1);
      c.send(1);
      weft::wait_group wg;
      wg.go([c] {
        const auto r = c.try_recv();
        EXPECT_TRUE(r);
      });
      c.close();
      wg.wait();
    }
  });
}

// Go: TestMultiConsumer
TEST_P(Chan, MultiConsumer) {
  run([] {
    constexpr int kWorkers = 23;
    const int n = scaled(271'828, 500);
    chan<int> q(kWorkers * 3), r(kWorkers * 3);
    weft::wait_group wg;
    for (int i = 0; i < kWorkers; ++i) {
      wg.go([q, r, i] {
        for (const int v : q) {
          if (v % (i + 2) == 0) weft::gosched();
          r.send(v);
        }
      });
    }
    weft::go([=, &wg] {
      for (int i = 0; i < n; ++i) q.send(i % 7);
      q.close();
      wg.wait();
      r.close();
    });
    long sum = 0, expected = 0;
    int count = 0;
    for (const int v : r) {
      sum += v;
      ++count;
    }
    for (int i = 0; i < n; ++i) expected += i % 7;
    EXPECT_EQ(count, n);
    EXPECT_EQ(sum, expected);
  });
}

// Go: test/closedchan.go
TEST_P(Chan, ClosedChannel) {
  const auto body = [] {
    chan<int> c(1);
    c.close();
    EXPECT_EQ(c.recv(), std::nullopt);
    EXPECT_THROW(c.send(1), weft::closed_channel);
    EXPECT_THROW(c.try_send(1), weft::closed_channel);
    try {
      c.close();
      ADD_FAILURE() << "should throw";
    } catch (const weft::panic_error& e) {
      EXPECT_STREQ(e.what(), "close of closed channel");
    }
    try {
      chan<int>(nullptr).close();
      ADD_FAILURE() << "should throw";
    } catch (const weft::nil_channel& e) {
      EXPECT_STREQ(e.what(), "close of nil channel");
    }
  };
  run(body);
  body();
}

// Go: test/chancap.go
TEST_P(Chan, CapacityAndItsErrors) {
  run([] {
    EXPECT_EQ(chan<int>().capacity(), 0u);
    EXPECT_EQ(chan<int>(0).capacity(), 0u);
    EXPECT_EQ(chan<char>(17).capacity(), 17u);
    const auto make = [](std::size_t n) { chan<std::uint64_t> c(n); };
    try {
      make(static_cast<std::size_t>(-1));
      ADD_FAILURE() << "should throw";
    } catch (const weft::panic_error& e) {
      EXPECT_STREQ(e.what(), "makechan: size out of range");
    }
    EXPECT_THROW(make(SIZE_MAX / 8), weft::panic_error);
    struct nothing {};
    chan<nothing> wide(std::size_t{1} << 50);  // nothing needs no room
    wide.send({});
    EXPECT_EQ(wide.size(), 1u);
  });
}

// Nil: never ready, no size.
TEST_P(Chan, Nil) {
  run([] {
    const chan<int> nil(nullptr);
    EXPECT_FALSE(nil);
    EXPECT_TRUE(chan<int>());
    EXPECT_EQ(nil.size(), 0u);
    EXPECT_EQ(nil.capacity(), 0u);
    EXPECT_FALSE(nil.try_recv());
    EXPECT_FALSE(nil.try_recv().closed());
    EXPECT_FALSE(nil.try_send(1));
    EXPECT_EQ(nil, chan<int>(nullptr));
    const weft::recv_chan<int> in = nullptr;
    const weft::send_chan<int> out = nullptr;
    EXPECT_FALSE(in || out);
  });
}

// Handles: copies share, the last one frees what is left inside.
TEST_P(Chan, Handles) {
  run([] {
    auto witness = std::make_shared<int>(1);
    {
      chan<std::shared_ptr<int>> a(4);
      const auto b = a;
      EXPECT_EQ(a, b);
      EXPECT_NE(a, chan<std::shared_ptr<int>>(4));
      const weft::send_chan<std::shared_ptr<int>> out = a;
      const weft::recv_chan<std::shared_ptr<int>> in = b;
      out.send(witness);
      auto moved = std::move(a);
      EXPECT_FALSE(a);  // NOLINT: a moved-from handle is nil
      moved.send(witness);
      EXPECT_EQ(in.size(), 2u);
      EXPECT_EQ(in.capacity(), 4u);
      in.recv();
      EXPECT_EQ(witness.use_count(), 2);
    }
    EXPECT_EQ(witness.use_count(), 1);
  });
}

// Go: test/chan/goroutines.go
TEST_P(Chan, ChainOfTenThousand) {
  run([] {
    chan<int> leftmost;
    chan<int> right = leftmost, left = leftmost;
    const int n = WEFT_TEST_TSAN ? 1000 : 10000;
    for (int i = 0; i < n; ++i) {
      right = chan<int>();
      weft::go([left, right] { left.send(*right.recv()); });
      left = right;
    }
    weft::go([right] { right.send(77); });
    EXPECT_EQ(leftmost.recv(), 77);
  });
}

// Plain threads at both ends, and everybody mixed.
TEST_P(Chan, PlainThreads) {
  const int each = scaled(2000, 50);
  for (const std::size_t capacity : {0, 3}) {
    chan<int> c(capacity);
    std::atomic<long> sum{0};
    std::vector<std::thread> threads;
    weft::wait_group senders;
    senders.add(4);
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 1; i <= each; ++i) c.send(i);
        senders.done();
      });
      threads.emplace_back([&] {
        for (const int v : c) sum += v;
      });
    }
    run([&] {
      weft::wait_group receivers;
      for (int t = 0; t < 2; ++t) {
        weft::go([&] {
          for (int i = 1; i <= each; ++i) c.send(i);
          senders.done();
        });
        receivers.go([&] {
          for (const int v : c) sum += v;
        });
      }
      senders.wait();
      c.close();
      receivers.wait();
    });
    for (auto& t : threads) t.join();
    EXPECT_EQ(sum, 4L * each * (each + 1) / 2);
  }
}

// Waiters are served in the order in which they came. [CH-6]
TEST_P(Chan, WaitersAreServedInOrder) {
  run([] {
    chan<int> c;
    chan<std::pair<int, int>> got(10);
    for (int i = 0; i < 10; ++i) {
      weft::go([c, got, i] { got.send({i, *c.recv()}); });
      EXPECT_TRUE(
          eventually([i] { return weft::test::how_many_wait_in("chan receive") == i + 1; }));
    }
    for (int i = 0; i < 10; ++i) c.send(i);
    for (int i = 0; i < 10; ++i) {
      const auto [waiter, value] = *got.recv();
      EXPECT_EQ(waiter, value);
    }
    // … and senders.
    for (int i = 0; i < 10; ++i) {
      weft::go([c, i] { c.send(i); });
      EXPECT_TRUE(eventually([i] { return weft::test::how_many_wait_in("chan send") == i + 1; }));
    }
    for (int i = 0; i < 10; ++i) EXPECT_EQ(c.recv(), i);
  });
}

WEFT_OVER_PROCS(Chan);

}  // namespace
