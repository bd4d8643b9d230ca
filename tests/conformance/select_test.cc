// weft::select and weft::selector. [SEL-1] to [SEL-7]; Go: runtime/chan_test.go, test/chan/select*.go
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "support/cpu_time.h"
#include "support/fixture.h"
#include "support/waiting.h"

namespace {

using weft::chan;
using weft::otherwise;
using weft::recv;
using weft::select;
using weft::send;
using weft::test::eventually;
using weft::test::parked_goroutines;
using weft::test::scaled;

class Select : public weft::test::over_procs {};

void many_turns() {
  for (int i = 0; i < 50; ++i) weft::gosched();
}

TEST_P(Select, RunsOneAndSaysWhich) {
  const auto body = [] {
    const chan<int> a(1), b(1);
    b.send(7);
    int got = 0;
    EXPECT_EQ(select(recv(a, [&](std::optional<int>) { got = -1; }),
                     recv(b, [&](std::optional<int> v) { got = *v; })),
              1u);
    EXPECT_EQ(got, 7);
    bool sent = false;
    EXPECT_EQ(select(send(a, 3, [&] { sent = true; }), recv(b)), 0u);
    EXPECT_TRUE(sent);
    EXPECT_EQ(a.size(), 1u);
    EXPECT_EQ(select(otherwise(), recv(a)), 1u);
    EXPECT_EQ(select(otherwise(), recv(a)), 0u);
    a.close();
    std::optional<int> none = 1;
    EXPECT_EQ(select(recv(a, [&](std::optional<int> v) { none = v; })), 0u);
    EXPECT_EQ(none, std::nullopt);
    EXPECT_THROW(select(send(a, 1), recv(b)), weft::closed_channel);
  };
  run(body);
  body();
}

// Go: TestNonblockSelectRace: what an otherwise says was true at one moment.
TEST_P(Select, OtherwiseIsASnapshot) {
  run([] {
    for (int i = 0; i < scaled(20000, 100); ++i) {
      const chan<int> one(1), two(1);
      one.send(1);
      weft::wait_group wg;
      wg.go([&] {
        select(recv(one), recv(two), otherwise([] { ADD_FAILURE() << "nothing was ready"; }));
      });
      two.send(1);
      select(recv(one), otherwise());
      wg.wait();
    }
  });
}

// Go: TestNonblockSelectRace2, with close
TEST_P(Select, OtherwiseIsASnapshotOfClose) {
  run([] {
    for (int i = 0; i < scaled(20000, 100); ++i) {
      const chan<int> one(1), two;
      one.send(1);
      weft::wait_group wg;
      wg.go([&] {
        select(recv(one), recv(two), otherwise([] { ADD_FAILURE() << "nothing was ready"; }));
      });
      two.close();
      select(recv(one), otherwise());
      wg.wait();
    }
  });
}

// Go: TestSelfSelect: both ends of one channel in one select; never with itself. [SEL-5]
TEST_P(Select, BothEndsOfOneChannel) {
  run([] {
    for (const std::size_t capacity : {0, 10}) {
      const chan<int> c(capacity);
      weft::wait_group wg;
      for (int p = 0; p < 2; ++p) {
        wg.go([&c, p, capacity] {
          for (int i = 0; i < scaled(1000, 50); ++i) {
            const auto check = [&](std::optional<int> v) {
              if (capacity == 0 && v == p) ADD_FAILURE() << "a select met itself";
            };
            if (p == 0 || i % 2 == 0) {
              select(send(c, p), recv(c, check));
            } else {
              select(recv(c, check), send(c, p));
            }
          }
        });
      }
      // The two need not come out even: help the one that is left.
      std::atomic<bool> over{false};
      weft::wait_group helper;
      helper.go([&] {
        while (!over) {
          select(send(c, 2), recv(c), otherwise());
          weft::gosched();
        }
      });
      wg.wait();
      over = true;
      helper.wait();
    }
  });
}

// Go: TestSelectStress
TEST_P(Select, Stress) {
  run([] {
    const int n = scaled(20000, 200);
    std::array<chan<int>, 4> c{chan<int>(0), chan<int>(0), chan<int>(2), chan<int>(3)};
    weft::wait_group wg;
    for (int k = 0; k < 4; ++k) {
      wg.go([&, k] {
        for (int i = 0; i < n; ++i) c[static_cast<std::size_t>(k)].send(0);
      });
      wg.go([&, k] {
        for (int i = 0; i < n; ++i) c[static_cast<std::size_t>(k)].recv();
      });
    }
    const auto storm = [&](bool sends) {
      std::array<int, 4> left{n, n, n, n};
      auto mine = c;
      for (int i = 0; i < 4 * n; ++i) {
        std::size_t k = 0;
        if (sends) {
          k = select(send(mine[3], 0), send(mine[2], 0), send(mine[0], 0), send(mine[1], 0));
          k = std::array<std::size_t, 4>{3, 2, 0, 1}[k];
        } else {
          k = select(recv(mine[0]), recv(mine[1]), recv(mine[2]), recv(mine[3]));
        }
        if (--left[k] == 0) mine[k] = nullptr;
      }
    };
    wg.go([&] { storm(true); });
    wg.go([&] { storm(false); });
    wg.wait();
  });
}

// Go: TestSelectFairness: two that are always ready, within 10 sigma.
TEST_P(Select, Fair) {
  run([] {
    const int trials = scaled(10000, 1000);
    const chan<int> one(static_cast<std::size_t>(trials) + 1),
        two(static_cast<std::size_t>(trials) + 1);
    for (int i = 0; i < trials + 1; ++i) {
      one.send(1);
      two.send(2);
    }
    const chan<int> three, four, five;
    int ones = 0, twos = 0;
    for (int i = 0; i < trials; ++i) {
      select(recv(three), recv(four), recv(one, [&](std::optional<int>) { ++ones; }),
             recv(two, [&](std::optional<int>) { ++twos; }), recv(five));
    }
    EXPECT_EQ(ones + twos, trials);
    const double r = static_cast<double>(ones) / trials;
    const double sigma = 0.5 / std::sqrt(trials);
    EXPECT_NEAR(r, 0.5, 10 * sigma);
  });
}

// Uniform among the ready, wherever they stand: five of nine.
TEST_P(Select, UniformAmongTheReady) {
  const auto body = [] {
    std::array<int, 9> chosen{};
    const chan<int> never;
    const chan<int> closed;
    closed.close();
    const int trials = scaled(10000, 2000);
    for (int i = 0; i < trials; ++i) {
      const std::size_t k =
          select(recv(closed), recv(never), recv(closed), recv(never), recv(never), recv(closed),
                 recv(closed), recv(closed), recv(never));
      ++chosen[k];
    }
    for (const std::size_t k : {0, 2, 5, 6, 7}) {
      EXPECT_NEAR(chosen[k], trials / 5.0, 10 * std::sqrt(trials * 0.16)) << k;
    }
  };
  run(body);
  body();
}

// Go: TestPseudoRandomSend: between two sends on one channel
TEST_P(Select, PseudoRandomSend) {
  run([] {
    for (const std::size_t capacity : {0, 1}) {
      const int n = 200;
      const chan<int> c(capacity);
      std::vector<int> got;
      weft::wait_group wg;
      wg.go([&] {
        for (int i = 0; i < n; ++i) {
          weft::gosched();
          got.push_back(*c.recv());
        }
      });
      for (int i = 0; i < n; ++i) select(send(c, 1), send(c, 0));
      wg.wait();
      const auto ones = std::count(got.begin(), got.end(), 1);
      EXPECT_GT(ones, n / 10);
      EXPECT_LT(ones, n - n / 10);
    }
  });
}

// Go: TestSelectDuplicateChannel: the losers of a select leave the queue in order.
TEST_P(Select, DuplicateChannel) {
  run([] {
    const chan<int> c, d, e;
    weft::wait_group wg;
    wg.go([&] {
      select(recv(c), recv(c), recv(d));
      e.send(9);
    });
    many_turns();
    wg.go([&] { c.recv(); });
    many_turns();
    d.send(7);
    EXPECT_EQ(e.recv(), 9);
    c.send(8);
    wg.wait();
  });
}

// Go: test/chan/doubleselect.go: only one case of a select ever runs.
TEST_P(Select, OnlyOneCaseRuns) {
  run([] {
    const int n = scaled(20000, 200);
    std::array<chan<int>, 4> c;
    chan<int> merged;
    weft::go([=] {
      for (int i = 0; i < n; ++i) {
        select(send(c[0], i), send(c[1], i), send(c[2], i), send(c[3], i));
      }
      for (const auto& each : c) each.close();
    });
    weft::wait_group wg;
    for (const auto& each : c) {
      wg.go([each, merged] {
        for (const int v : each) merged.send(v);
      });
    }
    weft::go([&wg, merged] {
      wg.wait();
      merged.close();
    });
    std::vector<bool> seen(static_cast<std::size_t>(n));
    int count = 0;
    for (const int v : merged) {
      ASSERT_FALSE(seen[static_cast<std::size_t>(v)]) << v << " twice";
      seen[static_cast<std::size_t>(v)] = true;
      ++count;
    }
    EXPECT_EQ(count, n);
  });
}

// Go: test/chan/select.go: nil cases are never chosen.
TEST_P(Select, NilIsNeverChosen) {
  run([] {
    const chan<int> nil(nullptr), ready(1);
    for (int i = 0; i < 100; ++i) {
      ready.send(i);
      EXPECT_EQ(select(recv(nil), send(nil, 1), recv(ready)), 2u);
    }
    EXPECT_EQ(select(recv(nil), otherwise(), send(nil, 1)), 1u);
  });
}

// Go: test/chan/select3.go: the matrix of what blocks. `blocks` is asked with an otherwise beside it.
TEST_P(Select, BlockingMatrix) {
  run([] {
    const auto blocks = [](auto make) {
      bool chosen = false;
      select(make(), otherwise([&] { chosen = true; }));
      return chosen;
    };
    const chan<int> nil(nullptr), unbuffered, closed, empty(10), full(2);
    closed.close();
    full.send(1);
    full.send(2);
    EXPECT_TRUE(blocks([&] { return recv(nil); }));
    EXPECT_TRUE(blocks([&] { return send(nil, 7); }));
    EXPECT_TRUE(blocks([&] { return recv(unbuffered); }));
    EXPECT_TRUE(blocks([&] { return send(unbuffered, 7); }));
    EXPECT_TRUE(blocks([&] { return recv(empty); }));
    EXPECT_TRUE(blocks([&] { return send(full, 7); }));
    EXPECT_FALSE(blocks([&] { return recv(closed); }));
    EXPECT_FALSE(blocks([&] { return recv(full); }));
    EXPECT_FALSE(blocks([&] { return send(empty, 7); }));
    EXPECT_THROW(blocks([&] { return send(closed, 7); }), weft::closed_channel);
  });
}

// Go: test/chan/select6.go (issue 2075): losers among several that wait.
TEST_P(Select, LosersAreUnlinked) {
  run([] {
    const chan<bool> c1, c2, c3, c4;
    weft::go([=] { c1.recv(); });
    weft::go([=] {
      select(recv(c1, [] { ADD_FAILURE() << "dummy"; }), recv(c2, [=] { c3.send(true); }));
      c1.recv();
    });
    weft::go([=] {
      c2.send(true);
      c3.recv();
      c1.send(true);
      many_turns();
      c4.send(true);
    });
    many_turns();
    // One of the receivers of c1 has been served; let the other go.
    c4.recv();
    c1.send(true);
  });
}

// Go: test/ken/chan.go: direct and selecting parties at both ends.
TEST_P(Select, AllCombinationsOfParties) {
  run([] {
    const int n = scaled(500, 50);
    for (int mode = 0; mode < 4; ++mode) {
      for (const std::size_t capacity : {0, 10}) {
        const chan<int> c(capacity), other;
        std::atomic<long> sum{0};
        weft::wait_group wg;
        for (int p = 0; p < 4; ++p) {
          wg.go([&] {
            for (int i = 1; i <= n; ++i) {
              if ((mode & 1) != 0) {
                select(send(c, i), recv(other));
              } else {
                c.send(i);
              }
            }
          });
          wg.go([&] {
            for (int i = 0; i < n; ++i) {
              if ((mode & 2) != 0) {
                select(recv(other), recv(c, [&](std::optional<int> v) { sum += *v; }));
              } else {
                sum += *c.recv();
              }
            }
          });
        }
        wg.wait();
        EXPECT_EQ(sum, 4L * n * (n + 1) / 2);
      }
    }
  });
}

// What it costs n goroutines that select on one channel to leave it, the last who came first.
std::chrono::nanoseconds cost_of_leaving(int n) {
  const std::uint64_t others = parked_goroutines();
  const chan<int> shared;
  std::atomic<int> begun{0};
  std::vector<chan<int>> own(static_cast<std::size_t>(n));
  weft::wait_group wg;
  for (const chan<int>& mine : own) {
    wg.go([&shared, &begun, mine] {
      ++begun;
      select(recv(shared), recv(mine));
    });
  }
  EXPECT_TRUE(eventually([&] {  // to count them takes time as well
    return begun == n && parked_goroutines() >= others + static_cast<std::uint64_t>(n);
  }));
  const auto before = weft::test::cpu_time();
  for (int i = n - 1; i >= 0; --i) own[static_cast<std::size_t>(i)].send(1);
  wg.wait();
  return weft::test::cpu_time() - before;
}

// Go: test/chanlinear.go: thousands that select on one channel leave it one by one, not in n steps. Four times as many
// cost four times as much, or ten, since that is a matter of microseconds each; where each was looked for among the
// others, with its node on a stack of its own, they cost fifty times as much and more. The best of at least a few, as
// others who use the processors' caches only ever add to them: a search costs as much in the best of many.
TEST_P(Select, LeavingIsNotLinear) {
  run([] {
    const int n = WEFT_TEST_TSAN ? 300 : 2000;
    auto few = std::chrono::nanoseconds::max(), many = few;
    int rounds = 0;
    const auto is_cheap = [&] {
      few = std::min(few, cost_of_leaving(n));
      many = std::min(many, cost_of_leaving(4 * n));
      return ++rounds >= 3 && many <= 25 * few;
    };
    EXPECT_TRUE(eventually(is_cheap, std::chrono::seconds(10)))
        << many.count() << " nanoseconds, and a quarter of them " << few.count();
  });
}

TEST_P(Select, PlainThreadsSelect) {
  const int n = scaled(3000, 100);
  const chan<int> a, b(4);
  std::atomic<long> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int open = 2; open != 0;) {
        chan<int> x = a, y = b;
        open = 2;
        while (open != 0) {
          select(recv(x,
                      [&](std::optional<int> v) {
                        if (v) {
                          sum += *v;
                        } else {
                          x = nullptr;
                          --open;
                        }
                      }),
                 recv(y, [&](std::optional<int> v) {
                   if (v) {
                     sum += *v;
                   } else {
                     y = nullptr;
                     --open;
                   }
                 }));
        }
      }
    });
  }
  run([&] {
    weft::wait_group wg;
    for (int p = 0; p < 3; ++p) {
      wg.go([&] {
        for (int i = 1; i <= n; ++i) select(send(a, i), send(b, i));
      });
    }
    wg.wait();
    a.close();
    b.close();
  });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, 3L * n * (n + 1) / 2);
}

// A case may own the channel it was made from.
TEST_P(Select, TemporaryHandles) {
  run([] {
    const auto make = [] {
      chan<std::string> c(1);
      c.send("x");
      return c;
    };
    std::string got;
    auto kept = recv(make(), [&](std::optional<std::string> v) { got = *v; });
    select(kept);
    EXPECT_EQ(got, "x");
    EXPECT_EQ(select(recv(weft::recv_chan<std::string>(make())), otherwise()), 0u);
  });
}

TEST_P(Select, MoveOnlyValuesAndCallables) {
  run([] {
    const chan<std::unique_ptr<int>> c(1);
    select(send(c, std::make_unique<int>(4), [p = std::make_unique<int>(1)] { EXPECT_EQ(*p, 1); }));
    std::unique_ptr<int> got;
    select(recv(c, [&](std::optional<std::unique_ptr<int>> v) { got = std::move(*v); }));
    EXPECT_EQ(*got, 4);
  });
}

// What a callable throws comes out, after the operation.
TEST_P(Select, CallablesMayThrow) {
  run([] {
    const chan<int> c(1);
    EXPECT_THROW(select(send(c, 1, [] { throw std::runtime_error("x"); })), std::runtime_error);
    EXPECT_EQ(c.size(), 1u);
  });
}

class Selector : public weft::test::over_procs {};

TEST_P(Selector, ReusableAndClearable) {
  run([] {
    const chan<int> a(4), b(4);
    int from_a = 0, from_b = 0;
    weft::selector s;
    EXPECT_TRUE(s.empty());
    EXPECT_EQ(s.add(recv(a, [&](std::optional<int> v) { from_a += *v; })), 0u);
    EXPECT_EQ(s.add(recv(b, [&](std::optional<int> v) { from_b += *v; })), 1u);
    EXPECT_EQ(s.add(otherwise()), 2u);
    a.send(1);
    b.send(10);
    a.send(2);
    for (int i = 0; i < 3; ++i) EXPECT_LT(s.select(), 2u);
    EXPECT_EQ(s.select(), 2u);
    EXPECT_EQ(from_a, 3);
    EXPECT_EQ(from_b, 10);
    s.clear();
    EXPECT_EQ(s.size(), 0u);
    EXPECT_EQ(s.add(send(a, 5)), 0u);
    EXPECT_EQ(s.select(), 0u);
    EXPECT_EQ(s.select(), 0u);
    EXPECT_EQ(a.recv(), 5);
    EXPECT_EQ(a.recv(), 5);
    // What cannot be copied is sent once.
    const chan<std::unique_ptr<int>> c(4);
    weft::selector once;
    once.add(send(c, std::make_unique<int>(6)));
    once.add(otherwise());
    EXPECT_EQ(once.select(), 0u);
    EXPECT_EQ(once.select(), 1u);
    EXPECT_EQ(**c.recv(), 6);
  });
}

// Thousands of cases, and it parks on all of them.
TEST_P(Selector, ThousandsOfCases) {
  run([] {
    const std::size_t n = WEFT_TEST_TSAN ? 300 : 4000;
    std::vector<chan<std::size_t>> c;
    for (std::size_t i = 0; i < n; ++i) c.emplace_back(1);
    weft::selector s;
    std::size_t got = 0;
    for (const auto& each : c) {
      s.add(recv(each, [&](std::optional<std::size_t> v) { got = *v; }));
    }
    for (const std::size_t k : {std::size_t{0}, n / 2, n - 1, n / 3}) {
      weft::go([&c, k] { c[k].send(k); });
      EXPECT_EQ(s.select(), k);
      EXPECT_EQ(got, k);
    }
    // All ready: each with the same probability, so they come in no order.
    for (std::size_t i = 0; i < n; ++i) c[i].send(i);
    constexpr int kDraws = 100;
    int rises = 0;
    for (std::size_t k = 0, last = 0; k < kDraws; ++k) {
      const std::size_t now = s.select();
      rises += now > last ? 1 : 0;
      last = now;
    }
    EXPECT_NEAR(rises, kDraws / 2, 40);
    std::set<std::size_t> left;
    for (std::size_t i = 0; i < n; ++i) {
      if (const auto r = c[i].try_recv()) left.insert(*r);
    }
    EXPECT_EQ(left.size(), n - kDraws);
  });
}

// A plain thread blocks on all of them as a goroutine parks, and whoever comes wakes it.
TEST_P(Selector, FromAPlainThread) {
  run([] {
    const chan<int> in, never, out;
    std::thread plain([=] {
      int last = 0;
      weft::selector s;
      s.add(recv(never, [](std::optional<int>) { ADD_FAILURE(); }));
      s.add(recv(in, [&](std::optional<int> v) { last = v.value_or(-1); }));
      for (int i = 1; i <= 100; ++i) {
        EXPECT_EQ(s.select(), 1u);
        EXPECT_EQ(last, i);
        if (i % 2 == 0) {
          weft::selector answer;
          answer.add(recv(never, [](std::optional<int>) { ADD_FAILURE(); }));
          answer.add(send(out, i));
          EXPECT_EQ(answer.select(), 1u);
        }
      }
      EXPECT_EQ(s.select(), 1u);
      EXPECT_EQ(last, -1) << "closed";
      s.clear();
      s.add(weft::timeout(std::chrono::milliseconds(1), [] {}));
      s.add(recv(never, [](std::optional<int>) { ADD_FAILURE(); }));
      EXPECT_EQ(s.select(), 0u);
      out.close();
    });
    for (int i = 1; i <= 100; ++i) {
      in.send(i);
      if (i % 2 == 0) {
        EXPECT_EQ(out.recv(), i);
      }
    }
    in.close();
    EXPECT_FALSE(out.recv());
    plain.join();
  });
}

// A callable may take away what it is part of.
TEST_P(Selector, ClearedByItsCase) {
  run([] {
    const chan<int> c(3);
    for (int i = 0; i < 3; ++i) c.send(i);
    weft::selector s;
    int sum = 0;
    const auto big = std::make_shared<std::string>(100, 'x');
    s.add(weft::recv(c, [&, big](std::optional<int> v) {
      s.clear();
      EXPECT_TRUE(s.empty());
      EXPECT_EQ(big->size(), 100u);  // its own
      s.add(weft::recv(c, [&, big](std::optional<int> w) {
        auto moved = std::make_unique<weft::selector>(std::move(s));
        moved->add(weft::recv(c, [&](std::optional<int> x) { sum += *x; }));
        EXPECT_EQ(moved->size(), 2u);
        moved.reset();
        sum += *w + static_cast<int>(big->size());
      }));
      sum += *v;
    }));
    EXPECT_EQ(s.select(), 0u);
    EXPECT_EQ(big.use_count(), 2) << "the first case is gone, the second is there";
    EXPECT_EQ(s.select(), 0u);
    EXPECT_EQ(sum, 101);
    EXPECT_EQ(big.use_count(), 1);
  });
}

// The selector keeps its channels.
TEST_P(Selector, KeepsChannelsAlive) {
  run([] {
    weft::selector s;
    int got = 0;
    {
      const chan<int> c(1);
      c.send(3);
      s.add(recv(c, [&](std::optional<int> v) { got = *v; }));
    }
    s.select();
    EXPECT_EQ(got, 3);
    weft::selector moved = std::move(s);
    EXPECT_EQ(moved.size(), 1u);
  });
}

WEFT_OVER_PROCS(Select);
WEFT_OVER_PROCS(Selector);

}  // namespace
