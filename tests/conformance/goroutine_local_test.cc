// weft::goroutine_local: one value per goroutine, and per plain thread.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <weft/go.h>
#include <weft/goroutine_local.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::test::eventually;
using weft::test::scaled;

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

// An initialiser may have captured something, may return what a value is made of, and may be a function.
TEST_P(GoroutineLocal, Initialisers) {
  struct pinned {  // neither copied nor moved
    explicit pinned(int n) : value(n) {}
    pinned(const pinned&) = delete;
    int value;
  };
  struct plus_one {
    static long of_one() { return 2; }
  };
  run([] {
    std::atomic<int> made{0};
    auto shared = std::make_shared<std::string>("captured");
    const std::weak_ptr<std::string> watch = shared;
    {
      const weft::goroutine_local<std::string> copies([kept = std::move(shared), &made] {
        ++made;
        return *kept;
      });
      const weft::goroutine_local<std::string> from_text([] { return "text"; });
      const weft::goroutine_local<int> from_function(plus_one::of_one);
      const weft::goroutine_local<pinned> in_place([] { return pinned(3); });
      const weft::goroutine_local<pinned> explicitly([n = 4] { return n; });
      const weft::goroutine_local<int> of_a_value(42);
      char given[] = "value";
      const weft::goroutine_local<std::string> of_text(given);
      given[0] = '-';  // it is a copy already
      weft::wait_group wg;
      for (int i = 0; i < 5; ++i) {
        wg.go([&] {
          EXPECT_EQ(*copies, "captured");
          *copies += "!";
          EXPECT_EQ(*copies, "captured!");
          EXPECT_EQ(*from_text, "text");
          EXPECT_EQ(*from_function, 2);
          EXPECT_EQ(in_place->value + explicitly->value, 7);
          EXPECT_EQ((*of_a_value)++, 42);  // its own
          EXPECT_EQ(*of_text, "value");
        });
      }
      wg.wait();
      EXPECT_EQ(made, 5);
    }
    EXPECT_TRUE(watch.expired()) << "the initialiser goes with the variable";
  });
  using local = weft::goroutine_local<int>;
  static_assert(!std::is_constructible_v<local, std::string (*)()>);
  static_assert(!std::is_constructible_v<local, const char*> &&
                !std::is_copy_constructible_v<local>);
  static_assert(!std::is_convertible_v<int, local>);
  // Unless values are callables themselves, an initialiser that does not fit is none.
  using callback = std::function<int()>;
  static_assert(std::is_constructible_v<weft::goroutine_local<callback>, callback>);
  constexpr auto of_nothing = [] {};
  static_assert(!std::is_constructible_v<weft::goroutine_local<bool>, decltype(of_nothing)>);
  static_assert(!std::is_constructible_v<weft::goroutine_local<pinned>, int>);
}

WEFT_OVER_PROCS(GoroutineLocal);

}  // namespace
