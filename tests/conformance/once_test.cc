// weft::call_once and Go's OnceFunc family. [ON-1]; Go: sync/once_test.go, oncefunc_test.go
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include <weft/go.h>
#include <weft/once.h>
#include <weft/panic.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

class Once : public weft::test::over_procs {};

// Go: TestOnce. All return only when it is done.
TEST_P(Once, UnderContention) {
  run([] {
    for (int round = 0; round < 20; ++round) {
      weft::once_flag flag;
      int n = 0;
      weft::wait_group wg;
      for (int i = 0; i < 10; ++i) {
        wg.go([&] {
          weft::call_once(
              flag,
              [&](int by) {
                weft::gosched();
                n += by;
              },
              1);
          EXPECT_EQ(n, 1);
        });
      }
      wg.wait();
      EXPECT_EQ(n, 1);
    }
  });
}

// std: a call that throws is not the one.
TEST_P(Once, ThrowingCallIsRepeated) {
  run([] {
    weft::once_flag flag;
    int calls = 0;
    EXPECT_THROW(weft::call_once(flag,
                                 [&] {
                                   ++calls;
                                   throw std::runtime_error("not yet");
                                 }),
                 std::runtime_error);
    weft::call_once(flag, [&] { ++calls; });
    weft::call_once(flag, [&] { ++calls; });
    EXPECT_EQ(calls, 2);
  });
}

// Go: TestOnceFunc, TestOnceValue, TestOnceValues
TEST_P(Once, FuncValueValues) {
  run([] {
    int calls = 0;
    auto f = weft::once_func([&calls] { ++calls; });
    f();
    auto copy = f;
    copy();
    EXPECT_EQ(calls, 1);

    auto v = weft::once_value([&calls] { return std::to_string(++calls); });
    EXPECT_EQ(v(), "2");
    EXPECT_EQ(v(), "2");

    auto pair = weft::once_values([&calls] { return std::make_tuple(++calls, 'x'); });
    const auto [n, c] = pair();
    EXPECT_EQ(n, 3);
    EXPECT_EQ(c, 'x');
    EXPECT_EQ(pair(), std::make_tuple(3, 'x'));
  });
}

// Go: TestOnceFuncPanic: the same every time, and not called twice.
TEST_P(Once, ThrowsTheSame) {
  run([] {
    int calls = 0;
    auto f = weft::once_func([&calls] {
      ++calls;
      throw std::runtime_error("x");
    });
    for (int i = 0; i < 3; ++i) {
      try {
        f();
        ADD_FAILURE();
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "x");
      }
    }
    EXPECT_EQ(calls, 1);
    auto g = weft::once_value([]() -> int { throw 5; });
    EXPECT_THROW(g(), int);
    EXPECT_THROW(g(), int);
  });
}

// Go: TestOnceFuncGoexit: ended, not called again.
TEST_P(Once, Goexit) {
  run([] {
    std::atomic<int> calls{0};
    auto f = weft::once_func([&calls] {
      ++calls;
      weft::goexit();
    });
    weft::wait_group wg;
    wg.go([f] { f(); });
    wg.wait();
    EXPECT_THROW(f(), weft::panic_error);
    EXPECT_EQ(calls, 1);
  });
}

// What the function owns is gone once it has been called.
TEST_P(Once, ReleasesTheFunction) {
  run([] {
    auto owned = std::make_shared<int>(1);
    std::weak_ptr<int> watch = owned;
    auto f = weft::once_value([owned = std::move(owned)] { return *owned; });
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(f(), 1);
    EXPECT_TRUE(watch.expired());
  });
}

WEFT_OVER_PROCS(Once);

}  // namespace
