// base/note.h on the real futex.
#include "base/note.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <thread>

namespace weft::rt {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(Note, WokenBeforeSleep) {
  note n;
  n.wake();
  n.sleep();
  EXPECT_TRUE(n.sleep_for(0));
  n.clear();
  EXPECT_FALSE(n.sleep_for(0));
}

// Two threads wake each other in turn; each sees what the other wrote.
TEST(Note, PingPong) {
  constexpr int kRounds = 20'000;
  note ping, pong;
  int value = 0;
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.sleep();
      ping.clear();
      ++value;
      pong.wake();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ++value;
    ping.wake();
    pong.sleep();
    pong.clear();
    ASSERT_EQ(value, 2 * (i + 1));
  }
  other.join();
}

TEST(Note, TimesOut) {
  note n;
  const auto start = clock::now();
  EXPECT_FALSE(n.sleep_for(20'000'000));
  EXPECT_GE(clock::now() - start, milliseconds(20));
}

TEST(Note, WakeEndsATimedSleep) {
  note n;
  std::thread waker([&] { n.wake(); });
  EXPECT_TRUE(n.sleep_for(INT64_MAX));
  waker.join();
}

std::atomic<int> signals{0};

// Go: TestSpuriousWakeupsNeverHangSemasleep. Signals interrupt the sleep; they must neither end nor
// extend it.
TEST(Note, SignalsDoNotExtendATimedSleep) {
  struct sigaction action {
  }, old{};
  action.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  sigaction(SIGURG, &action, &old);  // without SA_RESTART
  std::atomic<bool> asleep{false}, done{false};
  note n;
  clock::duration took{};
  bool woken = true;
  std::thread sleeper([&] {
    asleep = true;
    const auto start = clock::now();
    woken = n.sleep_for(200'000'000);
    took = clock::now() - start;
    done = true;
  });
  while (!asleep) std::this_thread::yield();
  const auto handle = sleeper.native_handle();
  while (!done) {
    pthread_kill(handle, SIGURG);
    std::this_thread::yield();
  }
  sleeper.join();
  sigaction(SIGURG, &old, nullptr);
  EXPECT_FALSE(woken);
  EXPECT_GT(signals.load(), 0);
  EXPECT_GE(took, milliseconds(200));
  EXPECT_LT(took, milliseconds(5000));
}

TEST(NoteDeathTest, DoubleWakeUpIsFatal) {
  EXPECT_EXIT(
      {
        note n;
        n.wake();
        n.wake();
      },
      testing::ExitedWithCode(2), "notewakeup - double wakeup");
}

TEST(Futex, ReportsWhyItReturned) {
  atomic<std::uint32_t> word{1};
  errno = EPERM;
  EXPECT_EQ(futex_wait(word, 0), futex_result::would_block);
  EXPECT_EQ(futex_wait(word, 1, 1'000'000), futex_result::timed_out);
  EXPECT_EQ(futex_wake(word, 1), 0);
  EXPECT_EQ(errno, EPERM) << "errno belongs to the user";
}

TEST(Futex, DeadlineDoesNotOverflow) {
  EXPECT_EQ(futex_deadline(INT64_MAX), INT64_MAX);
  const std::int64_t now = futex_deadline(-5);
  EXPECT_LE(now, futex_deadline(0));
}

}  // namespace
}  // namespace weft::rt
