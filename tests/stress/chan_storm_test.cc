// Channels in the thick of it: many senders and receivers, plain and selecting, goroutines and threads,
// channels that are closed under them. Every value that was sent is received exactly once.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
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

// Values, each of which is sent at most once, and what became of each: how often it was sent, and received. Counts per value,
// since sums may agree although one came twice and another not at all.
class books {
 public:
  books() : pages_(kPages) {}
  books(const books&) = delete;
  books& operator=(const books&) = delete;
  ~books() {
    for (auto& p : pages_) delete p.load();
  }

  std::uint64_t fresh() {
    const std::uint64_t v = next_.fetch_add(1, std::memory_order_relaxed);
    if (v / kPerPage >= kPages) std::abort();
    std::atomic<page*>& place = pages_[v / kPerPage];
    if (place.load(std::memory_order_acquire) == nullptr) {
      auto made = std::make_unique<page>();
      page* none = nullptr;
      if (place.compare_exchange_strong(none, made.get())) made.release();
    }
    return v;
  }
  void sent(std::uint64_t v) { entry(v).fetch_add(1, std::memory_order_relaxed); }
  void received(std::uint64_t v) { entry(v).fetch_add(kReceived, std::memory_order_relaxed); }

  // Nobody is at it any more. What was sent was received, once; what was not sent was not. How many were sent.
  long balance() {
    long both = 0, wrong = 0;
    for (std::uint64_t v = 0; v < next_; ++v) {
      const int times = entry(v);
      both += times == 1 + kReceived ? 1 : 0;
      if (times != 0 && times != 1 + kReceived && ++wrong <= 5) {
        ADD_FAILURE() << v << " was sent " << times % kReceived << " times, and received "
                      << times / kReceived << " times";
      }
    }
    EXPECT_EQ(wrong, 0) << "of " << next_;
    return both;
  }

 private:
  static constexpr std::uint64_t kPerPage = 1 << 18, kPages = 1 << 12;
  static constexpr std::uint8_t kReceived = 16;
  using page = std::array<std::atomic<std::uint8_t>, kPerPage>;

  std::atomic<std::uint8_t>& entry(std::uint64_t v) {
    return (*pages_[v / kPerPage].load(std::memory_order_acquire))[v % kPerPage];
  }

  std::vector<std::atomic<page*>> pages_;
  std::atomic<std::uint64_t> next_{0};
};

class ChanStorm : public weft::test::storm {
 protected:
  std::uint64_t fresh() { return books_.fresh(); }
  void sent(std::uint64_t v) { books_.sent(v); }
  void received(std::uint64_t v) { books_.received(v); }

  books books_;
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
        sent(v);
        if (random.one_in(50)) weft::gosched();
      }
      senders.done();
    };
    const auto receive_all = [&] {
      for (const std::uint64_t v : c) received(v);
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
    EXPECT_GT(books_.balance(), 0);
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
              sent(v);
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
            if (open) received(*v);
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
  EXPECT_GT(books_.balance(), 0);
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
    const auto sent = [this, v] { this->sent(v); };
    // Of a channel that is closed there is nothing.
    const auto got = [this](std::optional<std::uint64_t> w) {
      if (w) received(*w);
    };
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
      while (const auto r = c.try_recv()) received(*r);
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
          weft::select(weft::recv(c, [this](std::optional<std::uint64_t> w) { received(*w); }),
                       weft::send(c, v, [this, v] { sent(v); }), weft::otherwise());
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
  EXPECT_GT(books_.balance(), 0);
}

// The same while the channels are closed, one after the other: what a select had sent by then is received, and one that
// throws has done nothing. Whoever waits without a limit is let out by the last of them.
TEST_P(SelectStorm, NetThatIsClosed) {
  run([this] {
    random_source closer(7);
    for (std::uint64_t round = 0; blowing(); ++round) {
      std::vector<chan<std::uint64_t>> net;
      for (int i = 0; i < kChannels; ++i) net.emplace_back(static_cast<std::size_t>(i % 3));
      const auto selects = [&](std::uint64_t number) {
        random_source random(number);
        for (int k = 0; k < 30; ++k) {
          try {
            one(random, net);
          } catch (const weft::closed_channel&) {
          }
        }
      };
      std::thread plain(selects, 8 * round);
      weft::wait_group wg;
      for (std::uint64_t g = 1; g < 8; ++g) wg.go([&selects, g, round] { selects(8 * round + g); });
      for (auto& c : net) {
        for (int k = closer.below(20); k > 0; --k) weft::gosched();
        c.close();
      }
      wg.wait();
      plain.join();
      drain(net);
    }
  });
  EXPECT_GT(books_.balance(), 0);
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
