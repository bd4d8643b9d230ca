// "Everything that blocks may be called from a goroutine or from any plain thread." design.md 1 rule 2
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <weft/chan.h>
#include <weft/condition_variable.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/semaphore.h>
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

// Every kind of wait that may time out. None of them is ever woken by anything but its limit.
void time_out_everywhere() {
  using namespace std::chrono_literals;  // NOLINT
  constexpr auto kSoon = 2ms;
  weft::timed_mutex mutex;
  const std::lock_guard held(mutex);
  std::thread([&] { EXPECT_FALSE(mutex.try_lock_for(kSoon)); }).join();
  weft::mutex plain;
  weft::condition_variable cv;
  std::unique_lock lock(plain);
  EXPECT_EQ(cv.wait_for(lock, kSoon), std::cv_status::timeout);
  weft::counting_semaphore<> semaphore(0);
  EXPECT_FALSE(semaphore.try_acquire_for(kSoon));
  weft::promise<int> promise;
  EXPECT_EQ(promise.get_future().wait_for(kSoon), std::future_status::timeout);
  weft::wait_group wg;
  wg.add(1);
  EXPECT_FALSE(wg.wait_for(kSoon));
  wg.done();
  weft::chan<int> c;
  EXPECT_FALSE(c.recv_for(kSoon).has_value());
  bool timed_out = false;
  weft::select(weft::recv(c, [](auto) {}), weft::timeout(kSoon, [&] { timed_out = true; }));
  EXPECT_TRUE(timed_out);
}

// Every P computes until a plain thread's waits have timed out: it must not need one of them.
TEST_P(Foreign, LimitsNeedNoP) {
  std::atomic<bool> over{false};
  std::atomic<int> busy{0};
  std::thread plain([&] {
    EXPECT_TRUE(weft::test::eventually([&] { return busy == procs(); }));
    time_out_everywhere();
    over = true;
  });
  const auto compute = [&] {
    ++busy;
    EXPECT_TRUE(weft::test::eventually_hogging([&] { return over.load(); }));
  };
  run([&] {
    weft::wait_group wg;
    for (int i = 1; i < procs(); ++i) wg.go(compute);
    compute();
    wg.wait();
  });
  plain.join();
}

WEFT_OVER_PROCS(Foreign);

}  // namespace
