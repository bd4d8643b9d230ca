// Whoever is woken by the holder of sched.lock finds it free.
#include "gmp/sched_lock.h"

#include <gtest/gtest.h>
#include <thread>

namespace weft::rt {
namespace {

TEST(SchedLock, IsFreeForWhomItsHolderWakes) {
  constexpr int kRounds = 2000;
  sched_lock lock(lock_rank::leaf);
  note wanted, done;
  int found_free = 0;
  std::thread woken([&] {
    for (int i = 0; i < kRounds; ++i) {
      while (!wanted.woken()) {  // sleeping, it would come too late to see
      }
      if (lock.try_lock()) {
        ++found_free;
        lock.unlock();
      }
      wanted.clear();
      done.wake();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    lock.lock();
    lock.wake_afterwards(wanted);
    lock.unlock();
    done.sleep();
    done.clear();
  }
  woken.join();
  EXPECT_EQ(found_free, kRounds);
}

// Once for each time that it was asked for.
TEST(SchedLock, WakesOnce) {
  sched_lock lock(lock_rank::leaf);
  note wanted;
  lock.lock();
  lock.wake_afterwards(wanted);
  EXPECT_FALSE(wanted.woken());
  lock.unlock();
  EXPECT_TRUE(wanted.woken());
  lock.lock();
  lock.unlock();  // a second wake-up would be fatal
  const scoped_lock held(lock);
}

}  // namespace
}  // namespace weft::rt
