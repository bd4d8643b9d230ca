// "Everything that blocks may be called from a goroutine or from any plain thread." design.md 1 rule 2
#include <atomic>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

class Foreign : public weft::test::over_procs {};

// Plain threads and goroutines pass a token round; each waits for its own turn.
TEST_P(Foreign, TokenRing) {
  constexpr int kMembers = 6;  // every other one is a plain thread
  const int rounds = weft::test::scaled(300, 20);
  std::vector<std::vector<weft::wait_group>> turn(kMembers);
  for (auto& t : turn) {
    t = std::vector<weft::wait_group>(static_cast<std::size_t>(rounds));
    for (auto& g : t) g.add(1);
  }
  int token = 0;  // plain: the groups order the accesses
  const auto member = [&](std::size_t i) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(rounds); ++r) {
      turn[i][r].wait();
      EXPECT_EQ(token, static_cast<int>(r) * kMembers + static_cast<int>(i));
      ++token;
      if (i + 1 < kMembers) {
        turn[i + 1][r].done();
      } else if (r + 1 < static_cast<std::size_t>(rounds)) {
        turn[0][r + 1].done();
      }
    }
  };
  std::vector<std::thread> plain;
  std::vector<weft::thread> goroutines;
  for (std::size_t i = 0; i < kMembers; ++i) {
    if (i % 2 == 0) {
      plain.emplace_back(member, i);
    } else {
      goroutines.emplace_back(member, i);
    }
  }
  turn[0][0].done();
  for (auto& t : plain) t.join();
  for (auto& t : goroutines) t.join();
  EXPECT_EQ(token, rounds * kMembers);
}

// Many plain threads wait for many goroutines in every way there is.
TEST_P(Foreign, AllWaysToWait) {
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&done] {
      for (int i = 0; i < weft::test::scaled(100, 5); ++i) {
        weft::wait_group wg;
        wg.go([] { weft::gosched(); });
        wg.wait();
        weft::thread([] { weft::gosched(); }).join();
        EXPECT_EQ(weft::run([i] { return i; }), i);
        {
          const weft::jthread j([] { weft::gosched(); });
        }
        weft::runtime::stop_the_world([] {});
        ++done;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(done, 8 * weft::test::scaled(100, 5));
}

// Threads come and go; the runtime does not mind.
TEST_P(Foreign, ShortLivedThreads) {
  std::atomic<int> n{0};
  for (int i = 0; i < weft::test::scaled(200, 10); ++i) {
    std::thread([&n] { weft::go([&n] { ++n; }); }).join();
    std::thread([&n] { weft::thread([&n] { ++n; }).join(); }).join();
  }
  EXPECT_TRUE(weft::test::eventually([&] { return n == 2 * weft::test::scaled(200, 10); }));
}

// A goroutine waits for a plain thread and the other way round, while the number of Ps changes.
TEST_P(Foreign, WokenByAPlainThread) {
  run([] {
    for (int i = 0; i < weft::test::scaled(200, 10); ++i) {
      weft::wait_group wg;
      wg.add(1);
      int value = 0;
      std::thread plain([&] {
        value = i;
        wg.done();
      });
      wg.wait();
      EXPECT_EQ(value, i);
      plain.join();
    }
  });
}

WEFT_OVER_PROCS(Foreign);

}  // namespace
