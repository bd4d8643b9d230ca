// Births, deaths, numbers and names. [L-1], [L-5], [CN-1], [CN-4]
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

class Life : public weft::test::over_procs {};

// Each begins with "goroutine 7 [...]:"; of those that are alike one is shown, "...and 99 more like it".
int stacks_in(const std::string& all) {
  int n = 0;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    int more = 0;
    n += line.starts_with("goroutine ") ? 1 : 0;
    n += std::sscanf(line.c_str(), "...and %d more", &more) == 1 ? more : 0;
  }
  return n;
}

// Go: TestNumGoroutine. [CN-1] one in a fresh program; every one that exists counts, parked or not
TEST_P(Life, NumGoroutine) {
  run([] {
    EXPECT_EQ(weft::runtime::num_goroutine(), 1);
    weft::wait_group gate, at_gate, ended;
    gate.add(1);
    for (int i = 0; i < 100; ++i) {
      at_gate.add(1);
      ended.go([&] {
        at_gate.done();
        gate.wait();
      });
    }
    EXPECT_EQ(weft::runtime::num_goroutine(), 101);
    at_gate.wait();
    EXPECT_EQ(weft::runtime::num_goroutine(), 101);
    EXPECT_EQ(stacks_in(weft::runtime::stack(true)), 101);
    gate.done();
    ended.wait();
    EXPECT_TRUE(weft::test::eventually([] { return weft::runtime::num_goroutine() == 1; }));
  });
  weft::thread t([] { weft::gosched(); });
  EXPECT_LE(weft::runtime::num_goroutine(), 2) << "those of plain threads too";
  t.join();
  EXPECT_TRUE(weft::test::eventually([] { return weft::runtime::num_goroutine() == 0; }));
}

// A joined goroutine is gone: it is no longer counted when join() returns.
TEST_P(Life, JoinedIsNotCounted) {
  run([] {
    for (int i = 0; i < weft::test::scaled(500, 20); ++i) {
      weft::thread([] {}).join();
      ASSERT_EQ(weft::runtime::num_goroutine(), 1);
    }
  });
}

// goid: "unique, never reused"
TEST_P(Life, IdsAreUnique) {
  const int each = weft::test::scaled(2000, 100);
  std::mutex m;
  std::set<std::uint64_t> seen;
  const auto spawn_some = [&m, &seen, each] {
    weft::wait_group mine;
    for (int i = 0; i < each; ++i) {
      mine.go([&m, &seen] {
        const std::uint64_t id = weft::runtime::goid();
        EXPECT_NE(id, 0u);
        const std::lock_guard<std::mutex> held(m);
        EXPECT_TRUE(seen.insert(id).second) << id;
      });
      if (i % 50 == 0) mine.wait();
    }
    mine.wait();
  };
  std::thread plain(spawn_some);
  run([&spawn_some] {
    weft::wait_group wg;
    for (int p = 0; p < 4; ++p) wg.go(spawn_some);
    wg.wait();
  });
  plain.join();
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(5 * each));
}

// Go: chan/goroutines. A chain of 10000, each the child of the previous, all alive at once; then it
// is torn down from the far end.
struct chain {
  std::vector<weft::wait_group> links;
  std::atomic<int> passed{0};
  weft::wait_group all;

  explicit chain(int n) : links(static_cast<std::size_t>(n) + 1) {
    for (auto& l : links) l.add(1);
    all.add(n);
  }
  void extend(std::size_t i) {
    if (i + 1 == links.size()) {
      return;
    }
    weft::go([this, i] {
      extend(i + 1);
      links[i + 1].wait();
      ++passed;
      links[i].done();
      all.done();
    });
  }
};

TEST_P(Life, ChainOf10000) {
  run([] {
    const int n = weft::test::scaled(10000, 500);
    chain c(n);
    c.extend(0);
    c.links[static_cast<std::size_t>(n)].done();
    c.links[0].wait();
    c.all.wait();
    EXPECT_EQ(c.passed, n);
  });
}

// A goroutine may outlive its parent, and all its ancestors.
TEST_P(Life, OutlivesItsParents) {
  run([] {
    weft::wait_group end;
    end.add(1);
    struct generation {
      static void live(int left, weft::wait_group* end) {
        if (left == 0) {
          end->done();
        } else {
          weft::go(&generation::live, left - 1, end);
        }
      }
    };
    generation::live(1000, &end);
    end.wait();
  });
}

// What the closure owns is destroyed on the goroutine, at its end, whether it ran at once or late.
TEST_P(Life, ClosuresAreDestroyedOnce) {
  run([] {
    struct counts {
      std::atomic<int>* n;
      explicit counts(std::atomic<int>* c) : n(c) {}
      counts(counts&& other) noexcept : n(std::exchange(other.n, nullptr)) {}
      ~counts() {
        if (n != nullptr) {
          EXPECT_NE(weft::runtime::goid(), 0u);
          ++*n;
        }
      }
    };
    std::atomic<int> destroyed{0};
    const int n = weft::test::scaled(3000, 100);
    for (int i = 0; i < n; ++i) {
      weft::go([c = counts(&destroyed), i] {
        if (i % 3 == 0) weft::gosched();
      });
    }
    EXPECT_TRUE(weft::test::eventually([&] { return destroyed == n; }));
  });
}

WEFT_OVER_PROCS(Life);

}  // namespace
