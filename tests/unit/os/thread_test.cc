// os/thread.h: creation, the inherited signal mask, and the retries of the spec's table of constants.
#include "os/thread.h"

#include <errno.h>
#include <future>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include "os/clock.h"
#include "os/test_hooks.h"

namespace weft::rt {
namespace {

struct started {
  std::promise<sigset_t> mask;
  std::promise<bool> detached;
};

void* report(void* arg) {
  auto* self = static_cast<started*>(arg);
  pthread_attr_t attr;
  int state = PTHREAD_CREATE_JOINABLE;
  if (pthread_getattr_np(pthread_self(), &attr) == 0) {
    pthread_attr_getdetachstate(&attr, &state);
    pthread_attr_destroy(&attr);
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  self->detached.set_value(state == PTHREAD_CREATE_DETACHED);
  self->mask.set_value(mask);
  return nullptr;
}

class ThreadTest : public testing::Test {
 protected:
  void SetUp() override { os::test_hooks.reset(); }
  void TearDown() override { os::test_hooks.reset(); }
};

TEST_F(ThreadTest, StartsDetachedWithAllSignalsBlocked) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  started thread;
  ASSERT_EQ(create_thread(report, &thread), 0);
  EXPECT_TRUE(thread.detached.get_future().get());
  const sigset_t mask = thread.mask.get_future().get();
  for (int signal : {SIGURG, SIGINT, SIGTERM, SIGQUIT, SIGPROF, SIGUSR1, SIGCHLD, SIGRTMIN}) {
    EXPECT_TRUE(sigismember(&mask, signal)) << "signal " << signal;
  }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << "signal " << signal;
  }
}

TEST_F(ThreadTest, RetriesOnEagainSleepingLongerEachTime) {
  os::test_hooks.force_thread_eagain_count.set(3);
  started thread;
  const std::int64_t begin = nanotime();
  ASSERT_EQ(create_thread(report, &thread), 0);
  EXPECT_GE(nanotime() - begin, (1 + 2 + 3) * 1'000'000);
  thread.mask.get_future().get();
}

TEST_F(ThreadTest, TheTwentiethAttemptMaySucceed) {
  os::test_hooks.force_thread_eagain_count.set(kThreadCreateAttempts - 1);
  started thread;
  ASSERT_EQ(create_thread(report, &thread), 0);
  thread.mask.get_future().get();
}

TEST_F(ThreadTest, GivesUpAfterTwentyAttempts) {
  os::test_hooks.force_thread_eagain_count.set(1000);
  started thread;
  const std::int64_t begin = nanotime();
  EXPECT_EQ(create_thread(report, &thread), EAGAIN);
  EXPECT_GE(nanotime() - begin, 210 * 1'000'000);
  EXPECT_EQ(os::test_hooks.force_thread_eagain_count.get(), 1000 - kThreadCreateAttempts);
}

}  // namespace
}  // namespace weft::rt
