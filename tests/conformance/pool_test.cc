// weft::pool, singleflight and goroutine_local. [PO-1]; Go: sync/pool_test.go, x/sync/singleflight
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

class GoroutineLocal : public weft::test::over_procs {};

weft::goroutine_local<int> number;
weft::goroutine_local<std::string> text([] { return std::string("fresh"); });

TEST_P(GoroutineLocal, EveryGoroutineHasItsOwn) {
  const auto body = [] {
    *number = 1;
    weft::wait_group wg;
    for (int i = 0; i < 20; ++i) {
      wg.go([i] {
        EXPECT_EQ(*number, 0);
        EXPECT_EQ(*text, "fresh");
        *number = i;
        text->append(std::to_string(i));
        for (int k = 0; k < 5; ++k) {
          weft::gosched();  // elsewhere, perhaps
          EXPECT_EQ(*number, i);
          EXPECT_EQ(*text, "fresh" + std::to_string(i));
        }
      });
    }
    wg.wait();
    EXPECT_EQ(*number, 1);
  };
  run(body);
  std::thread(body).join();
}

// Also when children run on this goroutine's stack.
TEST_P(GoroutineLocal, NotTheJoinersOne) {
  run([] {
    *number = 5;
    weft::thread t([] {
      EXPECT_EQ(*number, 0);
      *number = 6;
    });
    t.join();
    EXPECT_EQ(*number, 5);
  });
}

// Values that come to life while others are destroyed; and one of them uses another that has gone: it gets
// a new one.
std::atomic<int> ys_made{0};
std::atomic<int> ys_alive{0};
struct local_y {
  local_y() { ++ys_made, ++ys_alive; }
  ~local_y() { --ys_alive; }
};
weft::goroutine_local<local_y> the_y;
struct local_x {
  ~local_x() { the_y.get(); }
};
weft::goroutine_local<local_x> the_x;
struct local_v {
  ~local_v() { the_x.get(), the_y.get(); }
};
weft::goroutine_local<local_v> the_v;

TEST_P(GoroutineLocal, BornWhileOthersAreDestroyed) {
  ys_made = 0;
  run([] { weft::thread([] { the_v.get(); }).join(); });
  EXPECT_EQ(ys_made, 2);
  EXPECT_EQ(ys_alive, 0);
}

// A destructor finds the values that live longer than its own, wherever in the table they are.
std::atomic<int> early_made{0}, early_seen{0};
struct early {
  int number = 0;
  early() { ++early_made; }
};
std::vector<std::unique_ptr<weft::goroutine_local<early>>> earlies;
struct late {
  ~late() {
    for (auto& e : earlies) early_seen += (*e)->number;
  }
};
weft::goroutine_local<late> the_late;

TEST_P(GoroutineLocal, DestructorsFindEarlierValues) {
  for (int n = 1; n <= 17; ++n) {
    early_made = early_seen = 0;
    const auto body = [] {
      for (auto& e : earlies) (*e)->number = 42;
      for (int i = 0; i < 9; ++i)
        *weft::goroutine_local<int>() = i;  // others that are destroyed before
      the_late.get();
      for (int i = 0; i < 9; ++i) *weft::goroutine_local<int>() = i;
    };
    run([&] {
      for (int i = 0; i < n; ++i) {
        earlies.push_back(std::make_unique<weft::goroutine_local<early>>());
        for (int k = 1; k < 64; ++k) weft::goroutine_local<early>();  // they want the same place
      }
      weft::thread(body).join();
      EXPECT_EQ(early_seen, 42 * n);
      EXPECT_EQ(early_made, n) << "a second one";
      std::thread(body).join();
      EXPECT_EQ(early_seen, 2 * 42 * n);
      EXPECT_EQ(early_made, 2 * n) << "a second one";
      earlies.clear();
    });
  }
}

// As with thread_local: one that says good-bye through itself finds itself, and makes no other.
struct talker {
  static inline int made = 0, gone = 0;
  static weft::goroutine_local<talker>& mine() {
    static weft::goroutine_local<talker> value;
    return value;
  }
  int words = 0;

  talker() { ++made; }
  ~talker() {
    ++gone;
    EXPECT_EQ(mine()->words++, 42);
  }
};
TEST_P(GoroutineLocal, DestructorsFindThemselves) {
  run([] {
    talker::made = talker::gone = 0;
    weft::thread([] { talker::mine()->words = 42; }).join();
    EXPECT_EQ(talker::made, 1);
    EXPECT_EQ(talker::gone, 1);
  });
}

// Destroyed when the goroutine ends, the last one first, also by goexit().
TEST_P(GoroutineLocal, DestroyedAtTheEnd) {
  static std::string order;
  struct tracer {
    char name = '?';
    ~tracer() { order += name; }
  };
  static weft::goroutine_local<tracer> a, b;
  run([] {
    for (const bool by_goexit : {false, true}) {
      order.clear();
      weft::thread t([by_goexit] {
        a->name = 'a';
        b->name = 'b';
        EXPECT_EQ(order, "");
        if (by_goexit) weft::goexit();
      });
      t.join();
      EXPECT_EQ(order, "ba");
    }
    order.clear();
    std::thread([] {
      a->name = 'a';
      b->name = 'b';
    }).join();
    EXPECT_EQ(order, "ba");
  });
}

TEST_P(GoroutineLocal, Many) {
  run([] {
    std::vector<std::unique_ptr<weft::goroutine_local<int>>> all;
    for (int i = 0; i < 100; ++i) all.push_back(std::make_unique<weft::goroutine_local<int>>());
    for (int i = 0; i < 100; ++i) **all[static_cast<std::size_t>(i)] = i;
    for (int i = 0; i < 100; ++i) EXPECT_EQ(**all[static_cast<std::size_t>(i)], i);
  });
}

WEFT_OVER_PROCS(GoroutineLocal);

}  // namespace
