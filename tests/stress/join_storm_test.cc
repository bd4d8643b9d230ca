// Threads that are joined, detached, handed on and ended in every order, by goroutines and by plain
// threads.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

class JoinStorm : public weft::test::storm {
 protected:
  void act(random_source& random) {
    const int yields = random.below(3);
    auto result = std::make_shared<int>(0);
    ++started_;
    weft::thread t([this, yields, result] {
      for (int i = 0; i < yields; ++i) weft::gosched();
      *result = 1;
      ++ended_;
      if (yields == 2) weft::goexit();
    });
    if (random.one_in(3)) weft::gosched();
    switch (random.below(4)) {
      case 0: t.detach(); return;
      case 1:  // somebody else joins it, and we join that one
        t = weft::thread([this, result, t = std::move(t)]() mutable {
          t.join();
          check(*result);
        });
        t.join();
        check(*result);
        return;
      case 2: {  // a stranger joins it
        ++handed_on_;
        weft::go([this, result, t = std::move(t)]() mutable {
          t.join();
          check(*result);
          --handed_on_;
        });
        return;
      }
      default: t.join(); check(*result);
    }
  }
  void check(int result) {
    if (result != 1) ++wrong_;
  }
  void settle() {
    EXPECT_TRUE(weft::test::eventually([this] { return started_ == ended_ && handed_on_ == 0; }));
    EXPECT_EQ(wrong_, 0) << "joined before its end";
    RecordProperty("threads", static_cast<int>(started_));
  }

  std::atomic<long> started_{0}, ended_{0}, handed_on_{0}, wrong_{0};
};

TEST_P(JoinStorm, Goroutines) {
  run([this] {
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 8; ++i) {
      wg.go([this, i] {
        random_source random(i);
        while (blowing()) act(random);
      });
    }
    wg.wait();
  });
  settle();
}

TEST_P(JoinStorm, PlainThreadsToo) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      random_source random(50 + t);
      while (blowing()) act(random);
    });
  }
  run([this] {
    random_source random(60);
    while (blowing()) act(random);
  });
  for (auto& t : threads) t.join();
  settle();
}

WEFT_OVER_PROCS(JoinStorm);

}  // namespace
