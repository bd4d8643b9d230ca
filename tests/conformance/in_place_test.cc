// A goroutine that is joined before anybody has started it may run on the joiner's stack. Whether it
// does so is nobody's business: it is a goroutine like any other.
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::test::scaled;

class InPlace : public weft::test::over_procs {};

TEST_P(InPlace, Identity) {
  run([] {
    const std::uint64_t me = weft::runtime::goid();
    for (int i = 0; i < 100; ++i) {
      const int before = weft::runtime::num_goroutine();
      std::uint64_t child = 0;
      weft::thread t([&] {
        child = weft::runtime::goid();
        EXPECT_EQ(weft::runtime::num_goroutine(), before + 1);
      });
      const auto id = t.get_id();
      t.join();
      EXPECT_NE(child, me);
      EXPECT_NE(child, 0u);
      EXPECT_NE(id, weft::this_thread::get_id());
      EXPECT_EQ(weft::runtime::goid(), me);
      EXPECT_EQ(weft::runtime::num_goroutine(), before);
    }
  });
}

TEST_P(InPlace, ErrnoAndFloatingPoint) {
  run([] {
    errno = 77;
    std::fesetround(FE_UPWARD);
    weft::thread t([] {
      EXPECT_EQ(errno, 0);
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      errno = 5;
      std::fesetround(FE_DOWNWARD);
    });
    t.join();
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(errno, 77);
    errno = 0;
  });
}

// The joiner is in a handler, and in a destructor that runs because of an exception: the child is not.
TEST_P(InPlace, Exceptions) {
  struct joins {
    ~joins() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      weft::thread t([] {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        EXPECT_EQ(std::current_exception(), nullptr);
        try {
          throw std::runtime_error("inner");
        } catch (const std::runtime_error&) {
          weft::gosched();
        }
      });
      t.join();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  run([] {
    try {
      const joins j;
      throw std::logic_error("outer");
    } catch (const std::logic_error& e) {
      weft::thread t([] {
        EXPECT_EQ(std::current_exception(), nullptr);
        EXPECT_THROW(throw 1, int);
      });
      t.join();
      EXPECT_STREQ(e.what(), "outer");
      EXPECT_NE(std::current_exception(), nullptr);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
}

TEST_P(InPlace, ChildEndsByGoexit) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      int destroyed = 0;
      struct witness {
        int& n;
        ~witness() { ++n; }
      };
      weft::thread t([&] {
        const witness outer{destroyed};
        try {
          const witness inner{destroyed};
          weft::goexit();
        } catch (...) {
        }
        ADD_FAILURE() << "after goexit";
      });
      t.join();
      EXPECT_EQ(destroyed, 2);
    }
  });
}

// The child parks while it has the joiner's stack, and goes on wherever.
TEST_P(InPlace, ChildParks) {
  run([] {
    std::atomic<long> sum{0};
    weft::mutex m;
    weft::wait_group others;
    for (int k = 0; k < 4; ++k) {
      others.go([&, k] {
        for (int i = 0; i < scaled(300, 20); ++i) {
          std::vector<int> local(10, k);
          weft::thread t([&] {
            const std::lock_guard held(m);
            weft::gosched();
            for (const int v : local) sum += v;
            weft::thread grandchild([&] {
              weft::gosched();
              ++sum;
            });
            grandchild.join();
          });
          t.join();
          for (const int v : local) ASSERT_EQ(v, k);
        }
      });
    }
    others.wait();
    EXPECT_EQ(sum, 64L * scaled(300, 20));
  });
}

long fib(int n) {
  if (n < 2) return n;
  long a = 0;
  weft::thread t([&] { a = fib(n - 1); });
  const long b = fib(n - 2);
  t.join();
  return a + b;
}

TEST_P(InPlace, Tree) {
  run([] { EXPECT_EQ(fib(16), 987); });
}

// Deeper than one stack could be: at some depth children get stacks of their own.
int deep(int n) {
  volatile char frame[512];
  frame[0] = static_cast<char>(n);
  if (n == 0) return 0;
  int below = 0;
  weft::thread t([&] { below = deep(n - 1); });
  t.join();
  return below + (frame[0] == static_cast<char>(n) ? 1 : 0);
}

TEST_P(InPlace, Deep) {
  run([] { EXPECT_EQ(deep(scaled(2000, 500)), scaled(2000, 500)); });
}

// A child that needs a large stack and says so.
TEST_P(InPlace, LargeFrames) {
  run([] {
    weft::thread t([] {
      volatile char large[100 * 1024];
      large[0] = 1;
      large[sizeof(large) - 1] = 1;
      EXPECT_EQ(large[0] + large[sizeof(large) - 1], 2);
    });
    t.join();
  });
}

TEST_P(InPlace, OthersGetTheirTurn) {
  run([] {
    std::atomic<bool> over{false};
    weft::wait_group wg;
    wg.go([&over] { over = true; });
    long joins = 0;
    while (!over) {
      weft::thread t([] {});
      t.join();
      ASSERT_LT(++joins, 100'000'000) << "starved";
    }
    wg.wait();
  });
}

TEST_P(InPlace, TheWorldCanStop) {
  run([] {
    std::atomic<bool> over{false};
    weft::wait_group wg;
    for (int i = 0; i < 3; ++i) {
      wg.go([&over] {
        while (!over) {
          weft::thread t([] {});
          t.join();
        }
      });
    }
    for (int i = 0; i < 20; ++i) weft::runtime::stop_the_world([] {});
    over = true;
    wg.wait();
  });
}

TEST_P(InPlace, LockedGoroutines) {
  run([] {
    weft::thread t([] {
      weft::thread u([] { weft::gosched(); });
      u.join();
    });
    t.join();
  });
  weft::run(
      [] {
        for (int i = 0; i < 20; ++i) {
          weft::thread t([] { weft::gosched(); });
          t.join();
        }
      },
      {.max_procs = procs(), .lock_main_thread = true});
}

WEFT_OVER_PROCS(InPlace);

}  // namespace
