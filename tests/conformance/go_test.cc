// weft::go: any callable becomes a goroutine. design.md 2 "go.h"; [L-1], [L-2].
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

class Go : public weft::test::over_procs {};

// go: "move-only callables welcome", and move-only arguments
TEST_P(Go, MoveOnly) {
  run([] {
    weft::wait_group wg;
    wg.add(3);
    int sum = 0;
    std::atomic<int> total{0};
    weft::go([p = std::make_unique<int>(1), &total, &wg] {
      total += *p;
      wg.done();
    });
    weft::go(
        [&total, &wg](std::unique_ptr<int> a, std::string b) {
          total += *a + static_cast<int>(b.size());
          wg.done();
        },
        std::make_unique<int>(10), "12345");
    weft::go([p = std::make_unique<int>(100), &total, &wg]() mutable {
      total += *std::exchange(p, nullptr);
      wg.done();
    });
    wg.wait();
    sum = total;
    EXPECT_EQ(sum, 116);
  });
}

struct account {
  void deposit(int n) { balance += n; }
  void report(weft::wait_group* wg) const { wg->done(); }
  std::atomic<int> balance{0};
};

// go: callables are invoked as std::thread does
TEST_P(Go, MemberPointersAndReferences) {
  run([this] {
    account a;
    auto shared = std::make_shared<account>();
    weft::wait_group wg;
    wg.add(4);
    weft::go(&account::report, &a, &wg);
    weft::go(&account::report, shared, &wg);
    weft::go(&account::report, std::ref(a), &wg);
    int changed = 0;
    weft::go(
        [](int& n, weft::wait_group& group) {
          n = 5;
          group.done();
        },
        std::ref(changed), std::ref(wg));
    wg.wait();
    EXPECT_EQ(changed, 5);
    weft::go(&account::deposit, shared, 30);
    EXPECT_TRUE(weft::test::eventually([&] { return shared->balance == 30; }));
    EXPECT_TRUE(weft::test::eventually([&] { return shared.use_count() == 1; }))
        << "the arguments are destroyed at the end";
    (void)this;
  });
}

void plain_function(std::atomic<int>* n) { ++*n; }

TEST_P(Go, FunctionsAndStdFunction) {
  run([] {
    std::atomic<int> n{0};
    weft::go(plain_function, &n);
    weft::go(&plain_function, &n);
    weft::go(std::function<void(std::atomic<int>*)>(plain_function), &n);
    weft::go([](auto* x) { ++*x; }, &n);
    EXPECT_TRUE(weft::test::eventually([&] { return n == 4; }));
  });
}

// Arguments are decayed copies: the caller's may go at once.
TEST_P(Go, CopiesItsArguments) {
  run([] {
    weft::wait_group wg;
    std::string got;
    {
      std::string text(100, 'x');
      wg.add(1);
      weft::go([&](const std::string& s) { got = s, wg.done(); }, text);
      text.assign(100, 'y');
    }
    wg.wait();
    EXPECT_EQ(got, std::string(100, 'x'));
  });
}

// How many copies of it are alive.
struct counted {
  static inline std::atomic<int> alive{0};
  counted() { ++alive; }
  counted(const counted&) { ++alive; }
  counted(counted&&) noexcept { ++alive; }
  ~counted() { --alive; }
};

// A closure of any size and alignment, built once and destroyed once.
template <std::size_t Size, std::size_t Align>
void spawn_sized() {
  struct alignas(Align) payload {
    std::array<std::uint8_t, Size> bytes;
    counted c;
  };
  weft::wait_group wg;
  wg.add(1);
  auto p = std::make_unique<payload>();
  p->bytes.fill(0xa5);
  bool good = false, aligned = false;
  weft::go([&, copy = *p] {
    good = true;
    for (const auto b : copy.bytes) good = good && b == 0xa5;
    aligned = reinterpret_cast<std::uintptr_t>(&copy) % Align == 0;
    wg.done();
  });
  wg.wait();
  EXPECT_TRUE(good) << Size << " " << Align;
  EXPECT_TRUE(aligned) << Size << " " << Align;
  p.reset();
  EXPECT_TRUE(weft::test::eventually([] { return counted::alive == 0; })) << Size << " " << Align;
}

TEST_P(Go, ClosuresOfAnySize) {
  run([] {
    spawn_sized<1, 1>();
    spawn_sized<31, 16>();
    spawn_sized<40, 8>();
    spawn_sized<64, 64>();
    spawn_sized<65, 8>();
    spawn_sized<1000, 8>();
    spawn_sized<30000, 8>();
    spawn_sized<1, 32>();
    spawn_sized<1, 128>();
    spawn_sized<4000, 256>();
    spawn_sized<10, 4096>();
  });
}

struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(const throws_when_copied&) { throw std::runtime_error("no copy"); }
  void operator()() const {}
};

// A callable that cannot be copied: nothing was started and nothing is left behind.
TEST_P(Go, ThrowingCopyLeavesNothing) {
  run([] {
    const throws_when_copied f;
    const int before = weft::runtime::num_goroutine();
    for (int i = 0; i < 1000; ++i) {
      EXPECT_THROW(weft::go(f), std::runtime_error);
      EXPECT_THROW(weft::go([](const counted&, const throws_when_copied&) {}, counted(), f),
                   std::runtime_error);
      EXPECT_THROW(weft::go([](const std::array<char, 500>&, const throws_when_copied&) {},
                            std::array<char, 500>(), f),
                   std::runtime_error);
    }
    EXPECT_EQ(weft::runtime::num_goroutine(), before);
    EXPECT_EQ(counted::alive, 0);
    weft::wait_group wg;
    EXPECT_THROW(wg.go(f), std::runtime_error);
    wg.wait();  // the counter went back
  });
  const throws_when_copied f;
  EXPECT_THROW(weft::go(f), std::runtime_error) << "on a plain thread";
}

// attrs: a name, and a stack of another size
[[gnu::noinline]] int use_stack(int kib) {
  volatile char block[1024];
  block[0] = 1;
  block[1023] = block[0];
  return kib <= 1 ? block[1023] : use_stack(kib - 1) + block[0];
}

TEST_P(Go, Attributes) {
  run([] {
    weft::wait_group wg;
    wg.add(5);
    std::atomic<int> depth{0};
    std::string name = "temporary name";
    weft::go({.name = name}, [&wg] { wg.done(); });
    name.assign(name.size(), '?');
    weft::go({.name = "deep", .stack_size = std::size_t{8} << 20}, [&] {
      depth = use_stack(6 << 10);
      wg.done();
    });
    weft::go({.stack_size = 1}, [&wg] { wg.done(); });
    weft::go({.stack_size = 64 << 10}, [&wg] { weft::gosched(), wg.done(); });
    weft::go(
        weft::attrs{}, [&wg](int) { wg.done(); }, 1);
    wg.wait();
    EXPECT_GE(depth, 6 << 10);
  });
}

// A stack of another size is never mistaken for a standard one when goroutines follow each other.
TEST_P(Go, StackSizesMix) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < weft::test::scaled(2000, 100); ++i) {
      wg.add(2);
      const auto use = [&wg](int kib) {
        EXPECT_GE(use_stack(kib), kib);
        wg.done();
      };
      weft::go({.stack_size = std::size_t{1} << 20}, use, 700);
      weft::go(use, 100);
      if (i % 16 == 0) wg.wait();
    }
    wg.wait();
  });
}

// go: "May be called from plain threads"
TEST_P(Go, FromPlainThreads) {
  const int each = weft::test::scaled(2000);
  std::atomic<int> n{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&n, each] {
      for (int i = 0; i < each; ++i) {
        weft::go([&n, c = std::make_unique<counted>()] { ++n; });
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_TRUE(weft::test::eventually([&] { return n == 4 * each; }));
  EXPECT_TRUE(weft::test::eventually([] { return counted::alive == 0; }));
}

WEFT_OVER_PROCS(Go);

}  // namespace
