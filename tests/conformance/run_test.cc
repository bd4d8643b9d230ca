// weft::run: a goroutine whose caller waits. design.md 2 and 2.1 "run".
#include <atomic>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/child.h"
#include "support/fixture.h"

namespace {

using weft::test::child_result;
using weft::test::run_child;

class Run : public weft::test::over_procs {};

long thread_now() { return syscall(SYS_gettid); }

// run: "returns its int (0 if void)"
TEST_P(Run, ReturnsTheInt) {
  EXPECT_EQ(run([] { return 42; }), 42);
  EXPECT_EQ(run([] {}), 0);
  EXPECT_EQ(run([] { return -1; }), -1);
  EXPECT_EQ(run([] { return true; }), 1);
}

// run: the callable is used as it is: references, move-only, mutable, const
TEST_P(Run, TakesAnyCallable) {
  int calls = 0;
  auto counts = [n = std::make_unique<int>(0), &calls]() mutable { calls = ++*n; };
  run(counts);
  run(counts);
  EXPECT_EQ(calls, 2) << "an lvalue is called in place, not copied";
  const auto constant = [&calls] { ++calls; };
  run(constant);
  EXPECT_EQ(calls, 3);
  struct once {
    int operator()() && { return 7; }
  };
  EXPECT_EQ(run(once{}), 7) << "an rvalue is called as one";
}

// run: "blocks the calling thread until it returns", on a goroutine of its own
TEST_P(Run, RunsAsAGoroutine) {
  EXPECT_EQ(weft::runtime::goid(), 0u) << "a plain thread";
  std::uint64_t id = 0;
  run([&id] { id = weft::runtime::goid(); });
  EXPECT_NE(id, 0u);
}

// run: "May be called again later"
TEST_P(Run, MayBeRepeated) {
  int sum = 0;
  for (int i = 0; i < 200; ++i) {
    sum += run([i] {
      weft::gosched();
      return i;
    });
  }
  EXPECT_EQ(sum, 199 * 200 / 2);
}

// run: "may be nested (inside a goroutine it parks)"
TEST_P(Run, MayBeNested) {
  const int n = run([] {
    const std::uint64_t outer = weft::runtime::goid();
    std::atomic<bool> other{false};
    weft::wait_group wg;
    wg.go([&other] { other = true; });
    const int inner = weft::run([&] {
      EXPECT_NE(weft::runtime::goid(), outer);
      // With one P this can only end because the outer goroutine has parked.
      EXPECT_TRUE(weft::test::eventually([&] { return other.load(); }));
      return weft::run([] { return 20; }) + 1;
    });
    EXPECT_EQ(weft::runtime::goid(), outer);
    wg.wait();
    return inner * 2;
  });
  EXPECT_EQ(n, 42);
}

// run: "called from several threads at once"
TEST_P(Run, FromSeveralThreads) {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&sum, t] {
      for (int i = 0; i < weft::test::scaled(200); ++i) {
        EXPECT_EQ(weft::run([&sum, t] {
                    ++sum;
                    weft::gosched();
                    return t;
                  }),
                  t);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, 8 * weft::test::scaled(200));
}

// run: "Other goroutines go on" after it has returned
TEST_P(Run, OthersGoOn) {
  std::atomic<bool> stop{false};
  std::atomic<long> ticks{0};
  run([&] {
    weft::go([&] {
      while (!stop) {
        ++ticks;
        weft::gosched();
      }
      stop = false;
    });
  });
  const long before = ticks;
  EXPECT_TRUE(weft::test::eventually([&] { return ticks > before + 10; }));
  stop = true;
  EXPECT_TRUE(weft::test::eventually([&] { return !stop; }));
}

// run: max_procs "acts as gomaxprocs(n) on entry"; 0 leaves the number alone
TEST_P(Run, SetsTheNumberOfPs) {
  EXPECT_EQ(weft::run([] { return weft::runtime::gomaxprocs(); }, {.max_procs = 3}), 3);
  EXPECT_EQ(weft::run([] { return weft::runtime::gomaxprocs(); }), 3);
  EXPECT_EQ(run([] { return weft::runtime::gomaxprocs(); }), procs());
}

// The caller's exception state is its own: the goroutine starts without any (D6).
TEST_P(Run, InsideACatchBlock) {
  try {
    throw std::runtime_error("outer");
  } catch (...) {
    run([] {
      EXPECT_EQ(std::current_exception(), nullptr);
      try {
        throw 1;
      } catch (int) {
        weft::gosched();
      }
    });
    try {
      throw;
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "outer");
    }
  }
}

class LockMainThread : public weft::test::over_procs {
 protected:
  template <class F>
  int run_locked(F&& f) {
    return weft::run(std::forward<F>(f), {.max_procs = procs(), .lock_main_thread = true});
  }
};

// lock_main_thread: "the goroutine runs on the calling thread itself and nowhere else"
TEST_P(LockMainThread, KeepsTheThread) {
  const long mine = thread_now();
  const int result = run_locked([mine] {
    EXPECT_EQ(thread_now(), mine);
    for (int i = 0; i < 50; ++i) {
      weft::gosched();
      EXPECT_EQ(thread_now(), mine) << "after a yield";
      weft::wait_group wg;
      for (int k = 0; k < 4; ++k) wg.go([] { weft::gosched(); });
      wg.wait();
      EXPECT_EQ(thread_now(), mine) << "after a park";
      weft::thread([mine] { EXPECT_NE(thread_now(), mine) << "nobody else runs here"; }).join();
      EXPECT_EQ(thread_now(), mine) << "after a join";
      EXPECT_EQ(weft::run([mine] { return thread_now() != mine; }), 1);
      EXPECT_EQ(thread_now(), mine) << "after a nested run";
      weft::runtime::stop_the_world([] {});
      EXPECT_EQ(thread_now(), mine) << "after stopping the world";
    }
    return 5;
  });
  EXPECT_EQ(result, 5);
  EXPECT_EQ(weft::runtime::goid(), 0u) << "a plain thread again";
}

TEST_P(LockMainThread, WorksOnAnyThreadAndAgain) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      const long mine = thread_now();
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(run_locked([mine] {
                    weft::gosched();
                    weft::thread([] {}).join();
                    return thread_now() == mine;
                  }),
                  1);
        EXPECT_EQ(weft::run([] { return 1; }), 1) << "unlocked in between";
      }
    });
  }
  for (auto& t : threads) t.join();
}

TEST_P(LockMainThread, KeepsTheCallersExceptions) {
  try {
    throw std::string("mine");
  } catch (...) {
    run_locked([] {
      EXPECT_EQ(std::current_exception(), nullptr);
      try {
        throw 1;
      } catch (int) {
        weft::thread([] {}).join();
      }
    });
    try {
      throw;
    } catch (const std::string& s) {
      EXPECT_EQ(s, "mine");
    }
  }
}

TEST_P(LockMainThread, InsideAGoroutineIsRefused) {
  run([this] {
    EXPECT_THROW(weft::run([] {}, {.max_procs = procs(), .lock_main_thread = true}),
                 std::logic_error);
  });
}

WEFT_OVER_PROCS(Run);
WEFT_OVER_PROCS(LockMainThread);

// --- in processes of their own ----------------------------------------------------------------

WEFT_CHILD(prints_procs) {
  return weft::run(
      [] { std::printf("%d of %d\n", weft::runtime::gomaxprocs(), weft::runtime::num_cpu()); });
}
WEFT_CHILD(prints_procs_of_run) {
  return weft::run([] { std::printf("%d\n", weft::runtime::gomaxprocs()); }, {.max_procs = 3});
}
WEFT_CHILD(first_is_goroutine_1) {
  weft::wait_group wg;
  wg.go([] {});  // goroutines of others come first
  wg.wait();
  int status = weft::run([] { return weft::runtime::goid() == 1 ? 0 : 1; });
  status += weft::run([] { return weft::runtime::goid() > 1 ? 0 : 1; });
  return status;
}
WEFT_CHILD(returns_3) {
  return weft::run([] { return 3; });
}
WEFT_CHILD(big_procs) {
  return weft::run([] {
    weft::wait_group wg;
    std::atomic<int> n{0};
    for (int i = 0; i < 5000; ++i) wg.go([&n] { weft::gosched(), ++n; });
    wg.wait();
    return n == 5000 && weft::runtime::gomaxprocs() == 1024 ? 0 : 1;
  });
}

// run: "the goroutine of the first run is goroutine 1"
TEST(RunProcess, FirstIsGoroutine1) { EXPECT_EQ(run_child("first_is_goroutine_1").status, 0); }

TEST(RunProcess, ExitStatus) { EXPECT_EQ(run_child("returns_3").status, 3); }

// [MP-3] environment: a positive decimal number; anything else is ignored
TEST(RunProcess, EnvironmentSetsPs) {
  const std::string cpus = std::to_string(weft::runtime::num_cpu());
  const auto expect = [&cpus](const char* value, const std::string& procs) {
    const child_result r = run_child(
        "prints_procs", {std::string("WEFTMAXPROCS=") + value, "WEFTDEBUG=containermaxprocs=0"});
    EXPECT_EQ(r.status, 0);
    EXPECT_EQ(r.output, procs + " of " + cpus + "\n") << "WEFTMAXPROCS=" << value;
  };
  expect("7", "7");
  expect("1", "1");
  expect("0", cpus);
  expect("-2", cpus);
  expect("", cpus);
  expect("3x", cpus);
  expect("99999999999999", cpus);
}

// run: max_procs "beats WEFTMAXPROCS"
TEST(RunProcess, OptionBeatsEnvironment) {
  EXPECT_EQ(run_child("prints_procs_of_run", {"WEFTMAXPROCS=7"}).output, "3\n");
}

// Go: TestBigGOMAXPROCS. [MP-1] no upper bound
TEST(RunProcess, ManyPs) { EXPECT_EQ(run_child("big_procs", {"WEFTMAXPROCS=1024"}).status, 0); }

}  // namespace

int main(int argc, char** argv) { return weft::test::main_with_children(argc, argv); }
