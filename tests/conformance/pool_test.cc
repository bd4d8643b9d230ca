// weft::pool and singleflight. [PO-1]; Go: sync/pool_test.go, x/sync/singleflight
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/go.h>
#include <weft/goroutine_local.h>
#include <weft/pool.h>
#include <weft/runtime.h>
#include <weft/singleflight.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::test::eventually;
using weft::test::scaled;

class Pool : public weft::test::over_procs {};

// Go: TestPool. The newest first.
TEST_P(Pool, LastInFirstOut) {
  run([] {
    weft::pool<std::string> p;
    EXPECT_EQ(p.get(), "") << "a new one";
    p.put("a");
    p.put("b");
    EXPECT_EQ(p.get(), "b");
    EXPECT_EQ(p.get(), "a");
    EXPECT_EQ(p.get(), "");
  });
}

// Go: TestPoolNew
TEST_P(Pool, Factory) {
  run([] {
    int made = 0;
    weft::pool<std::unique_ptr<int>> p([&made] { return std::make_unique<int>(++made); });
    EXPECT_EQ(*p.get(), 1);
    auto two = p.get();
    EXPECT_EQ(*two, 2);
    *two = 42;
    p.put(std::move(two));
    EXPECT_EQ(*p.get(), 42);
    EXPECT_EQ(*p.get(), 3);
  });
}

// Go: TestPoolGC. What lies there for two generations is dropped.
TEST_P(Pool, TwoGenerations) {
  run([] {
    auto value = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = value;
    weft::pool<std::shared_ptr<int>> p;
    p.put(std::move(value));
    weft::runtime::gc();
    EXPECT_FALSE(watch.expired()) << "a victim, still to be had";
    auto again = p.get();
    EXPECT_NE(again, nullptr);
    p.put(std::move(again));
    weft::runtime::gc();
    weft::runtime::gc();
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(p.get(), nullptr);
  });
}

TEST_P(Pool, DroppedWithThePool) {
  run([] {
    auto value = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = value;
    {
      weft::pool<std::shared_ptr<int>> p;
      p.put(std::move(value));
    }
    EXPECT_TRUE(watch.expired());
  });
}

// Go: TestPoolStress. Nobody gets what somebody else holds.
// Somebody empties it meanwhile: when it is gone, so are its values.
TEST_P(Pool, WaitsForItsValues) {
  static std::atomic<bool> destroying, may_end;
  static std::atomic<int> destroyed;
  struct slow {
    bool counts = false;
    slow() = default;
    slow(slow&& other) noexcept : counts(std::exchange(other.counts, false)) {}
    slow& operator=(slow&&) = delete;
    ~slow() {
      if (!counts) return;
      destroying = true;
      while (!may_end) weft::gosched();
      ++destroyed;
    }
  };
  destroying = may_end = false;
  destroyed = 0;
  run([] {
    weft::wait_group others;
    {
      weft::pool<slow> p;
      slow one;
      one.counts = true;
      p.put(std::move(one));
      others.go([] {
        while (!destroying) weft::runtime::gc();
      });
      while (!destroying) weft::gosched();
      others.go([] {
        for (int i = 0; i < 100; ++i) weft::gosched();
        may_end = true;
      });
    }
    EXPECT_EQ(destroyed, 1);
    others.wait();
  });
}

// A value's destructor comes back to what destroys it.
TEST_P(Pool, DestructorsMayCollect) {
  static std::atomic<int> collected;
  struct collects {
    bool counts = false;
    collects() = default;
    collects(collects&& other) noexcept : counts(std::exchange(other.counts, false)) {}
    collects& operator=(collects&&) = delete;
    ~collects() {
      if (!counts) return;
      weft::runtime::gc();
      ++collected;
    }
  };
  collected = 0;
  run([] {
    weft::pool<collects> p;
    collects one;
    one.counts = true;
    p.put(std::move(one));
    for (int i = 0; i < 2; ++i) weft::runtime::gc();
    EXPECT_EQ(collected, 1);
  });
}

TEST_P(Pool, NothingTwice) {
  struct item {
    std::atomic<bool> held{false};
  };
  run([] {
    weft::pool<std::unique_ptr<item>> p([] { return std::make_unique<item>(); });
    weft::wait_group wg;
    const auto work = [&p](int rounds) {
      for (int i = 0; i < rounds; ++i) {
        auto x = p.get();
        ASSERT_FALSE(x->held.exchange(true)) << "two have it";
        if (i % 8 == 0) weft::gosched();
        x->held = false;
        p.put(std::move(x));
      }
    };
    std::thread plain(work, scaled(500, 50));
    for (int i = 0; i < 8; ++i) wg.go([&] { work(scaled(2000, 100)); });
    for (int i = 0; i < 10; ++i) {
      weft::detail::trim_pools();
      weft::gosched();
    }
    wg.wait();
    plain.join();
  });
}

// 205, Go: TestPoolStress, TestPoolDequeue: whoever puts and whoever gets, nothing is lost, and nothing had twice.
TEST_P(Pool, NothingIsLost) {
  run([] {
    constexpr int kPutters = 4;
    const int each = scaled(5000, 200);
    weft::pool<int> p;  // 0: there was none
    std::vector<std::atomic<int>> had(static_cast<std::size_t>(kPutters * each + 1));
    std::atomic<int> putting{kPutters};
    weft::wait_group wg;
    for (int i = 0; i < kPutters; ++i) {
      wg.go([&, i] {
        for (int k = 1; k <= each; ++k) {
          p.put(i * each + k);
          if (k % 64 == 0) weft::gosched();
        }
        --putting;
      });
      wg.go([&] {
        while (putting != 0) {
          ++had[static_cast<std::size_t>(p.get())];
          if (had[0] % 16 == 0) weft::gosched();
        }
      });
    }
    wg.wait();
    while (const int last = p.get()) ++had[static_cast<std::size_t>(last)];
    for (std::size_t i = 1; i < had.size(); ++i) ASSERT_EQ(had[i], 1) << i;
  });
}

WEFT_OVER_PROCS(Pool);

class Singleflight : public weft::test::over_procs {};

// Counts who asks: each run() looks its key up once, in the critical section in which it joins or leads.
std::atomic<int> asked{0};
struct counting_hash {
  std::size_t operator()(int key) const {
    ++asked;
    return static_cast<std::size_t>(key);
  }
};

TEST_P(Singleflight, OneCallForAll) {
  asked = 0;
  run([] {
    weft::singleflight<int, int, counting_hash> group;
    std::atomic<int> calls{0}, shared{0};
    weft::wait_group wg;
    for (int i = 0; i < 10; ++i) {
      wg.go([&] {
        const auto r = group.run(1, [&] {
          ++calls;
          EXPECT_TRUE(eventually([] { return asked == 10; })) << "all of them wait for this call";
          return 7;
        });
        EXPECT_EQ(r.value, 7);
        shared += r.shared;
      });
    }
    wg.wait();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(shared, 10) << "also the one that has called";
    EXPECT_EQ(group.run(1, [] { return 8; }).value, 8) << "not kept";
    EXPECT_FALSE(group.run(2, [] { return 8; }).shared);
  });
}

// The answer of one who takes a long time to copy it, or to destroy what he has moved from.
enum class slow { nothing, copying, destroying };
weft::goroutine_local<slow> slow_at;
std::atomic<bool> asked_again{false};
struct page {
  int number;
  bool moved_from = false;

  explicit page(int n) : number(n) {}
  page(const page& other) : number(other.number) { dawdle(slow::copying); }
  page(page&& other) noexcept : number(other.number) { other.moved_from = true; }
  ~page() {
    if (moved_from) dawdle(slow::destroying);
  }
  static void dawdle(slow at) {
    if (*slow_at == at) {
      EXPECT_TRUE(eventually([] { return asked_again.load(); })) << "others wait for this";
    }
  }
};

// Whoever has got an answer and asks again gets another one, however late the one that has called is.
void ask_again(slow first_is) {
  weft::singleflight<int, page, counting_hash> group;
  std::atomic<int> source{1}, calls{0};
  asked = 0;
  asked_again = false;
  const auto ask = [&] {
    return group.run(1, [&] {
      if (++calls == 1) {
        EXPECT_TRUE(eventually([] { return asked == 2; }));
      }
      return page(source);
    });
  };
  weft::thread first([&] {
    *slow_at = first_is;
    const auto r = ask();
    EXPECT_EQ(r.value.number, 1);
    EXPECT_TRUE(r.shared);
  });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  EXPECT_EQ(ask().value.number, 1);
  source = 2;  // the world has changed, after the answer
  const auto r = ask();
  asked_again = true;
  EXPECT_EQ(r.value.number, 2);
  EXPECT_FALSE(r.shared);
  EXPECT_EQ(calls, 2);
  first.join();
}

TEST_P(Singleflight, NoStaleAnswer) {
  run([] {
    ask_again(slow::destroying);
    ask_again(slow::copying);
  });
}

TEST_P(Singleflight, ExceptionsAndForget) {
  run([] {
    weft::singleflight<int, int> group;
    EXPECT_THROW(group.run(1, []() -> int { throw std::runtime_error("x"); }), std::runtime_error);
    EXPECT_EQ(group.run(1, [] { return 1; }).value, 1);
    weft::wait_group wg, gate;
    std::atomic<bool> inside{false};
    gate.add(1);
    wg.go([&] {
      group.run(2, [&] {
        inside = true;
        gate.wait();
        return 1;
      });
    });
    EXPECT_TRUE(eventually([&] { return inside.load(); }));
    group.forget(2);
    EXPECT_EQ(group.run(2, [] { return 2; }).value, 2);
    gate.done();
    wg.wait();
  });
}

struct moody_hash {
  static inline bool throws = false;
  std::size_t operator()(int key) const {
    if (throws) throw std::runtime_error("hash");
    return static_cast<std::size_t>(key);
  }
};
// Who cannot be found any more when the call has ended is not joined all the same.
TEST_P(Singleflight, AHashThatThrowsLater) {
  run([] {
    weft::singleflight<int, int, moody_hash> group;
    EXPECT_THROW(group.run(1,
                           [] {
                             moody_hash::throws = true;
                             return 1;
                           }),
                 std::runtime_error);
    moody_hash::throws = false;
    EXPECT_EQ(group.run(1, [] { return 2; }).value, 2);
    EXPECT_EQ(group.run(1, [] { return 3; }).value, 3);
  });
}

TEST_P(Singleflight, GoexitBreaksThePromise) {
  run([] {
    weft::singleflight<int, int> group;
    weft::wait_group wg;
    std::atomic<bool> inside{false}, joined{false};
    wg.go([&] {
      group.run(1, [&]() -> int {
        inside = true;
        EXPECT_TRUE(eventually([&] { return joined.load(); }));
        for (int i = 0; i < 20; ++i) weft::gosched();
        weft::goexit();
      });
    });
    EXPECT_TRUE(eventually([&] { return inside.load(); }));
    joined = true;
    try {
      group.run(1, [] { return 5; });
    } catch (const weft::future_error& e) {
      EXPECT_EQ(e.code(), weft::future_errc::broken_promise);
    }
    wg.wait();
    EXPECT_EQ(group.run(1, [] { return 6; }).value, 6);
  });
}

WEFT_OVER_PROCS(Singleflight);

}  // namespace
