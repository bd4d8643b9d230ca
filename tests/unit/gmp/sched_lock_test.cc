// Whoever is woken by the holder of sched.lock finds it free.
#include "gmp/sched_lock.h"

#include <atomic>
#include <gtest/gtest.h>
#include <sched.h>
#include <thread>

#include "support/patience.h"

namespace weft::rt {
namespace {

TEST(SchedLock, IsFreeForWhomItsHolderWakes) {
  sched_lock lock(lock_rank::leaf);
  note wanted, done;
  std::atomic<bool> over = false;
  int found_free = 0;
  std::thread woken([&] {
    for (unsigned spins = 1; !over; ++spins) {
      // Sleeping, it would come too late to see. But the other one may need the processor.
      if (!wanted.woken()) {
        if (spins % 1000 == 0) sched_yield();
        continue;
      }
      if (lock.try_lock()) {
        ++found_free;
        lock.unlock();
      }
      wanted.clear();
      done.wake();
    }
  });
  test::budget b(2000);
  while (b.next()) {
    lock.lock();
    lock.wake_afterwards(wanted);
    lock.unlock();
    done.sleep();
    done.clear();
  }
  over = true;
  woken.join();
  EXPECT_EQ(found_free, b.round());
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
