// goexit: ends the goroutine, not the process. design.md 2.1 "goexit"; [GX-1], [GX-2].
// On the goroutine of run() it is a matter of crash reports: tests/crash.
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft/go.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/thread_state.h"

namespace {

class Goexit : public weft::test::over_procs {};

// Writes its name into a log when it goes.
struct tells {
  std::vector<std::string>* log;
  std::string name;
  ~tells() { log->push_back(name); }
};

using log = std::vector<std::string>;

[[gnu::noinline]] void deep(log* l, int depth) {  // NOLINT: recursion is the point
  const tells t{l, "frame " + std::to_string(depth)};
  if (depth > 0) {
    deep(l, depth - 1);
  } else if (depth == 0) {
    weft::goexit();
  }
  l->push_back("returned");
}

// [GX-1] destructors run, innermost first; nothing after the call does
TEST_P(Goexit, RunsDestructorsInOrder) {
  run([] {
    log l;
    weft::thread([&l] {
      const tells first{&l, "first"};
      deep(&l, 2);
      l.push_back("after");
    }).join();
    EXPECT_EQ(l, (log{"frame 0", "frame 1", "frame 2", "first"}));
  });
}

// The closure and its arguments are destroyed too.
TEST_P(Goexit, DestroysTheClosure) {
  run([] {
    auto shared = std::make_shared<int>(1);
    weft::thread([shared] { weft::goexit(); }).join();
    EXPECT_EQ(shared.use_count(), 1);
    weft::thread([](std::shared_ptr<int>, const std::vector<char>&) { weft::goexit(); }, shared,
                 std::vector<char>(1000))
        .join();
    EXPECT_EQ(shared.use_count(), 1);
    weft::go({.name = "named"}, [shared, filler = std::vector<int>(100)] { weft::goexit(); });
    EXPECT_TRUE(weft::test::eventually([&] { return shared.use_count() == 1; }));
  });
}

// "a catch (...) on the way may run its handler, but nothing after it"
TEST_P(Goexit, CatchAllCannotSwallowIt) {
  run([] {
    log l;
    weft::thread([&l] {
      const tells outer{&l, "outer"};
      try {
        const tells inner{&l, "inner"};
        try {
          weft::goexit();
        } catch (...) {
          l.push_back("handler");
        }
        l.push_back("swallowed");
      } catch (...) {
        l.push_back("second handler");
      }
      l.push_back("swallowed for good");
    }).join();
    EXPECT_EQ(std::count(l.begin(), l.end(), "swallowed"), 0);
    EXPECT_EQ(std::count(l.begin(), l.end(), "swallowed for good"), 0);
    EXPECT_EQ(std::count(l.begin(), l.end(), "inner"), 1);
    EXPECT_EQ(l.back(), "outer");
  });
}

TEST_P(Goexit, HandlersThatNameTypesDoNotSeeIt) {
  run([] {
    log l;
    weft::thread([&l] {
      const tells outer{&l, "outer"};
      try {
        try {
          weft::goexit();
        } catch (const std::exception&) {
          l.push_back("as an exception");
        }
      } catch (int) {
        l.push_back("as an int");
      }
    }).join();
    EXPECT_EQ(l, log{"outer"});
  });
}

// A handler may itself throw and catch, yield, and rethrow.
TEST_P(Goexit, HandlersMayThrowAndYield) {
  run([] {
    log l;
    weft::thread([&l] {
      const tells outer{&l, "outer"};
      try {
        weft::goexit();
      } catch (...) {
        weft::gosched();
        try {
          throw std::runtime_error("meanwhile");
        } catch (const std::exception& e) {
          weft::gosched();
          l.push_back(e.what());
        }
        weft::thread([] {}).join();
        throw;
      }
    }).join();
    EXPECT_EQ(l, (log{"meanwhile", "outer"}));
  });
}

// [GX-2] inside the handling of an exception, nested twice: those exceptions end with it
struct alive {
  static inline std::atomic<int> count{0};
  alive() { ++count; }
  alive(const alive&) { ++count; }
  ~alive() { --count; }
};

TEST_P(Goexit, InsideCatchBlocks) {
  run([] {
    log l;
    weft::thread([&l] {
      const tells outer{&l, "outer"};
      try {
        throw alive();
      } catch (const alive&) {
        try {
          throw alive();
        } catch (...) {
          weft::gosched();
          weft::goexit();
        }
      }
    }).join();
    EXPECT_EQ(l, log{"outer"});
    EXPECT_EQ(alive::count, 0) << "exceptions being handled were destroyed";
  });
}

// In a destructor that may throw, when nothing is being unwound. (During unwinding C++ lets nothing
// leave a destructor: that is std::terminate, and a panic report.)
struct exits_when_destroyed {
  ~exits_when_destroyed() noexcept(false) { weft::goexit(); }
};

TEST_P(Goexit, InADestructor) {
  run([] {
    log l;
    weft::thread([&l] {
      const tells outer{&l, "outer"};
      {
        const exits_when_destroyed e;
        l.push_back("before");
      }
      l.push_back("after");
    }).join();
    EXPECT_EQ(l, (log{"before", "outer"}));
  });
}

// Destructors may park: the goroutine is a full one until the end.
struct parks_when_destroyed {
  std::atomic<int>* n;
  ~parks_when_destroyed() {
    weft::gosched();
    weft::thread([this] { ++*n; }).join();
  }
};

TEST_P(Goexit, DestructorsMayPark) {
  run([] {
    std::atomic<int> n{0};
    std::vector<weft::thread> threads;
    for (int i = 0; i < 50; ++i) {
      threads.emplace_back([&n] {
        const parks_when_destroyed a{&n}, b{&n};
        weft::goexit();
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(n, 100);
  });
}

// [WG-2] done() is called when f ends by goexit
TEST_P(Goexit, CountsAsDone) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < 100; ++i) wg.go([] { weft::goexit(); });
    wg.wait();
  });
}

// What a goroutine starts with, whoever used its record, stack and thread before.
[[gnu::noinline]] void expect_fresh() {
  EXPECT_EQ(std::current_exception(), nullptr);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(weft::test::get_errno(), 0);
}

// Go: issue8158, issue11256. [L-5] exits that do not return leave nothing in what is reused
TEST_P(Goexit, LeavesNoStaleState) {
  run([] {
    for (int i = 0; i < weft::test::scaled(500, 20); ++i) {
      weft::wait_group wg;
      wg.go([] {
        expect_fresh();
        try {
          throw std::runtime_error("handled for ever");
        } catch (...) {
          weft::test::set_errno(99);
          weft::goexit();
        }
      });
      wg.go([] {
        expect_fresh();
        const exits_when_destroyed e;
        weft::gosched();
      });
      wg.go([] { expect_fresh(); });
      wg.wait();
      wg.go([] { expect_fresh(); });
      wg.go([] {
        expect_fresh();
        weft::gosched();
        expect_fresh();
      });
      wg.wait();
    }
  });
}

WEFT_OVER_PROCS(Goexit);

}  // namespace
