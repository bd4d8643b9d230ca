// Wait groups that are destroyed, and their memory spoilt, as soon as wait() returns.
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

// A wait group in memory of its own, which is filled with rubbish when it goes; whoever still
// touches it then changes the rubbish, or trips over it.
class doomed {
 public:
  doomed() : wg_(::new (memory_) weft::wait_group()) {}
  ~doomed() {
    wg_->~wait_group();
    std::memset(memory_, 0xdd, sizeof(memory_));
    for (int i = 0; i < 20; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    for (const unsigned char c : memory_) {
      if (c != 0xdd) std::abort();
    }
  }
  weft::wait_group& operator*() { return *wg_; }
  weft::wait_group* operator->() { return wg_; }

 private:
  alignas(weft::wait_group) unsigned char memory_[sizeof(weft::wait_group)];
  weft::wait_group* wg_;
};

class WaitGroupStorm : public weft::test::storm {
 protected:
  // One round: workers that are done in their own time, and waiters besides ourselves.
  void round(random_source& random, bool plain_thread) {
    auto group = std::make_unique<doomed>();
    weft::wait_group& wg = **group;
    const int workers = 1 + random.below(8);
    const int waiters = random.below(3);
    std::atomic<int> done{0};
    weft::wait_group out;
    wg.add(workers);
    for (int i = 0; i < workers; ++i) {
      const int yields = random.below(3);
      weft::go([&wg, &done, yields] {
        for (int k = 0; k < yields; ++k) weft::gosched();
        ++done;
        wg.done();
      });
    }
    for (int i = 0; i < waiters; ++i) {
      out.go([&] {
        wg.wait();
        if (done != workers) ++early_;
      });
    }
    if (!plain_thread && random.one_in(2)) weft::gosched();
    wg.wait();
    if (done != workers) ++early_;
    out.wait();  // the other waiters have left it, too
    group.reset();
    ++rounds_;
  }

  std::atomic<long> rounds_{0}, early_{0};
};

TEST_P(WaitGroupStorm, DestroyedAfterWait) {
  run([this] {
    weft::wait_group wg;
    for (int i = 0; i < 8; ++i) {
      wg.go([this, i] {
        random_source random(static_cast<std::uint64_t>(i));
        while (blowing()) round(random, false);
      });
    }
    wg.wait();
  });
  EXPECT_EQ(early_, 0) << "wait() returned too early";
  EXPECT_GT(rounds_, 0);
  RecordProperty("rounds", static_cast<int>(rounds_));
}

TEST_P(WaitGroupStorm, PlainThreadsToo) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      random_source random(100 + t);
      while (blowing()) round(random, true);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(early_, 0);
}

// One group for ever: the counter goes up and down through zero while others wait and return.
TEST_P(WaitGroupStorm, Reused) {
  run([this] {
    weft::wait_group wg;
    long sum = 0;
    for (long i = 0; blowing(); ++i) {
      const int n = 1 + static_cast<int>(i % 5);
      std::atomic<int> done{0};
      for (int k = 0; k < n; ++k) wg.go([&done] { ++done; });
      wg.wait();
      if (done != n) ++early_;
      sum += n;
    }
    EXPECT_GT(sum, 0);
  });
  EXPECT_EQ(early_, 0);
}

WEFT_OVER_PROCS(WaitGroupStorm);

}  // namespace
