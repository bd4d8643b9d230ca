// Channels in the thick of it: many senders and receivers, plain and selecting, goroutines and threads,
// channels that are closed under them. Every value that was sent is received exactly once.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::chan;
using weft::test::random_source;

// What was sent and what was received: the sums of all values and of their squares, and the counts.
struct books {
  std::atomic<std::uint64_t> count{0}, sum{0}, squares{0};
  void enter(std::uint64_t v) {
    count.fetch_add(1, std::memory_order_relaxed);
    sum.fetch_add(v, std::memory_order_relaxed);
    squares.fetch_add(v * v, std::memory_order_relaxed);
  }
  bool operator==(const books& o) const {
    return count == o.count && sum == o.sum && squares == o.squares;
  }
};

class ChanStorm : public weft::test::storm {
 protected:
  std::uint64_t fresh() { return next_.fetch_add(1, std::memory_order_relaxed); }

  books sent_, received_;

 private:
  std::atomic<std::uint64_t> next_{1};
};

// Many to many over one channel; goroutines and plain threads on both sides.
TEST_P(ChanStorm, ManyToMany) {
  for (const std::size_t capacity : {0, 1, 7, 128}) {
    const chan<std::uint64_t> c(capacity);
    weft::wait_group senders;
    std::vector<std::thread> threads;
    const auto send_all = [&](std::uint64_t n) {
      random_source random(n);
      for (int i = 0; i < weft::test::scaled(4000, 100); ++i) {
        const std::uint64_t v = fresh();
        c.send(v);
        sent_.enter(v);
        if (random.one_in(50)) weft::gosched();
      }
      senders.done();
    };
    const auto receive_all = [&] {
      for (const std::uint64_t v : c) received_.enter(v);
    };
    senders.add(6);
    for (std::uint64_t t = 0; t < 2; ++t) {
      threads.emplace_back(send_all, 100 + t);
      threads.emplace_back(receive_all);
    }
    run([&] {
      weft::wait_group receivers;
      for (std::uint64_t t = 0; t < 4; ++t) {
        weft::go(send_all, t);
        receivers.go(receive_all);
      }
      senders.wait();
      c.close();
      receivers.wait();
    });
    for (auto& t : threads) t.join();
    EXPECT_EQ(sent_.count, received_.count);
    EXPECT_TRUE(sent_ == received_);
  }
}

// Closed at any moment: a send succeeds and is received, or it throws.
TEST_P(ChanStorm, ClosedAtAnyMoment) {
  run([this] {
    random_source random(1);
    long rounds = 0;
    while (blowing()) {
      const chan<std::uint64_t> c(static_cast<std::size_t>(random.below(3)));
      weft::wait_group wg;
      for (int i = 0; i < 3; ++i) {
        wg.go([&, selects = random.one_in(2)] {
          try {
            for (int k = 0; k < 20; ++k) {
              const std::uint64_t v = fresh();
              if (selects) {
                weft::select(weft::send(c, v));
              } else {
                c.send(v);
              }
              sent_.enter(v);
            }
          } catch (const weft::closed_channel&) {
          }
        });
        wg.go([&, selects = random.one_in(2)] {
          bool open = true;
          while (open) {
            std::optional<std::uint64_t> v;
            if (selects) {
              weft::select(weft::recv(c, [&](std::optional<std::uint64_t> got) { v = got; }));
            } else {
              v = c.recv();
            }
            open = v.has_value();
            if (open) received_.enter(*v);
          }
        });
      }
      const int yields = random.below(60);
      wg.go([&] {
        for (int k = 0; k < yields; ++k) weft::gosched();
        c.close();
      });
      wg.wait();
      ++rounds;
    }
    EXPECT_GT(rounds, 0);
  });
  EXPECT_TRUE(sent_ == received_) << sent_.count << " sent, " << received_.count << " received";
}

// A net of channels; everybody selects over random ones, in both directions, with limits now and then.
class SelectStorm : public ChanStorm {
 protected:
  static constexpr int kChannels = 6;

  void one(random_source& random, std::vector<chan<std::uint64_t>>& net) {
    const auto pick = [&]() -> const chan<std::uint64_t>& {
      return net[static_cast<std::size_t>(random.below(kChannels))];
    };
    const std::uint64_t v = fresh();
    const auto sent = [this, v] { sent_.enter(v); };
    const auto got = [this](std::optional<std::uint64_t> w) { received_.enter(*w); };
    switch (random.below(5)) {
      case 0: weft::select(weft::send(pick(), v, sent), weft::recv(pick(), got)); break;
      case 1:
        weft::select(weft::recv(pick(), got), weft::recv(pick(), got), weft::recv(pick(), got),
                     weft::timeout(std::chrono::microseconds(random.below(50))));
        break;
      case 2:
        weft::select(weft::send(pick(), v, sent), weft::send(pick(), v, sent),
                     weft::timeout(std::chrono::microseconds(random.below(50))));
        break;
      case 3: weft::select(weft::recv(pick(), got), weft::otherwise()); break;
      default: {
        weft::selector s;
        for (int i = random.below(8); i >= 0; --i) s.add(weft::recv(pick(), got));
        s.add(weft::send(pick(), v, sent));
        s.add(weft::timeout(std::chrono::microseconds(10)));
        s.select();
      }
    }
  }

  void drain(std::vector<chan<std::uint64_t>>& net) {
    for (auto& c : net) {
      while (const auto r = c.try_recv()) received_.enter(*r);
    }
  }
};

TEST_P(SelectStorm, Net) {
  std::vector<chan<std::uint64_t>> net;
  for (int i = 0; i < kChannels; ++i) net.emplace_back(static_cast<std::size_t>(i % 3));
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  std::atomic<int> busy{2};
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      random_source random(50 + t);
      while (blowing()) one(random, net);
      --busy;
    });
  }
  run([&] {
    weft::wait_group wg;
    for (std::uint64_t g = 0; g < 12; ++g) {
      wg.go([&, g] {
        random_source random(g);
        while (blowing()) one(random, net);
      });
    }
    // Whoever waits without a limit when the storm ends is helped out.
    weft::wait_group helper;
    helper.go([&] {
      while (!over || busy != 0) {
        for (auto& c : net) {
          const std::uint64_t v = fresh();
          weft::select(
              weft::recv(c, [this](std::optional<std::uint64_t> w) { received_.enter(*w); }),
              weft::send(c, v, [this, v] { sent_.enter(v); }), weft::otherwise());
        }
        weft::gosched();
      }
    });
    wg.wait();
    over = true;
    helper.wait();
    drain(net);
  });
  for (auto& t : threads) t.join();
  drain(net);
  EXPECT_TRUE(sent_ == received_) << sent_.count << " sent, " << received_.count << " received";
  EXPECT_GT(sent_.count, 0u);
}

// Handles come and go while others use the channel; what is left in it is destroyed once.
TEST_P(ChanStorm, HandlesComeAndGo) {
  run([this] {
    std::atomic<long> alive{0};
    struct counted {
      std::atomic<long>* alive;
      explicit counted(std::atomic<long>* a) : alive(a) { ++*alive; }
      counted(counted&& o) noexcept : alive(o.alive) { ++*alive; }
      ~counted() { --*alive; }
    };
    random_source random(3);
    while (blowing()) {
      weft::wait_group wg;
      {
        chan<counted> c(static_cast<std::size_t>(random.below(4)));
        for (int i = 0; i < 4; ++i) {
          wg.go([c, &alive] { c.send_for(counted(&alive), std::chrono::microseconds(20)); });
          wg.go([c] { c.recv_for(std::chrono::microseconds(20)); });
        }
      }
      wg.wait();
    }
    EXPECT_TRUE(weft::test::eventually([&] { return alive == 0; }));
  });
}

WEFT_OVER_PROCS(ChanStorm);
WEFT_OVER_PROCS(SelectStorm);

}  // namespace
