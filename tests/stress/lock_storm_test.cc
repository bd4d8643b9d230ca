// Locks of all kinds, that are destroyed, and their memory spoilt, as soon as the last one has left.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <weft/barrier.h>
#include <weft/condition_variable.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/wait_group.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

// An object in memory of its own, which is filled with rubbish when it goes; whoever still touches it
// then changes the rubbish, or trips over it.
template <class T>
class doomed {
 public:
  template <class... Args>
  explicit doomed(Args... args) : object_(::new (memory_) T(args...)) {}
  ~doomed() {
    object_->~T();
    std::memset(memory_, 0xdd, sizeof(memory_));
    for (int i = 0; i < 20; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    for (const unsigned char c : memory_) {
      if (c != 0xdd) std::abort();
    }
  }
  T& operator*() { return *object_; }
  T* operator->() { return object_; }

 private:
  alignas(T) unsigned char memory_[sizeof(T)];
  T* object_;
};

std::chrono::microseconds some_time(random_source& random) {
  return std::chrono::microseconds(random.below(60));
}

class LockStorm : public weft::test::storm {};

// The last one of a few who share a mutex destroys it.
TEST_P(LockStorm, MutexesThatEnd) {
  blow(4, [](random_source& random) {
    struct shared {
      doomed<weft::timed_mutex> m;
      int left;
    };
    const int parties = 2 + random.below(4);
    auto* s = new shared{doomed<weft::timed_mutex>(), parties};
    weft::latch ended(parties);
    for (int i = 0; i < parties; ++i) {
      const int yields = random.below(3);
      const auto limit = some_time(random);
      weft::go([s, yields, limit, &ended] {
        for (int k = 0; k < yields; ++k) {
          if (s->m->try_lock_for(limit)) {
            weft::gosched();
            s->m->unlock();
          }
        }
        s->m->lock();
        const bool last = --s->left == 0;
        s->m->unlock();
        if (last) delete s;
        ended.count_down();
      });
    }
    ended.wait();
  });
}

// One mutex, one condition variable, everybody: with and without limits.
TEST_P(LockStorm, TokensThroughAConditionVariable) {
  weft::mutex m;
  weft::condition_variable cv;
  long tokens = 0, made = 0, taken = 0;
  blow(12, [&](random_source& random) {
    weft::unique_lock<weft::mutex> l(m);
    if (random.one_in(2)) {
      ++tokens;
      ++made;
      if (random.one_in(4)) l.unlock();
      random.one_in(3) ? cv.notify_all() : cv.notify_one();
      return;
    }
    if (!cv.wait_for(l, some_time(random), [&] { return tokens > 0; })) return;
    --tokens;
    ++taken;
  });
  EXPECT_EQ(made, taken + tokens);
  EXPECT_GT(made, 0);
}

// Who waits for a condition hands the mutex over; beside them are lockers who give up, and some who starve because others hold
// it for long. However one ends beside another, nobody is inside with anybody, and nobody is entitled to it at the end.
TEST_P(LockStorm, ConditionsBesideLockersWhoGiveUp) {
  weft::mutex m;
  weft::condition_variable cv;
  long tokens = 0, made = 0, taken = 0;
  std::atomic<long> beside{0};
  bool inside = false;
  const auto enters = [&] { beside += std::exchange(inside, true); };
  const auto leaves = [&] { inside = false; };
  blow(12, [&](random_source& random) {
    if (random.one_in(3)) {
      if (!weft::detail::lock_until(m, weft::detail::deadline_after(some_time(random)))) return;
    } else {
      m.lock();
    }
    weft::unique_lock<weft::mutex> l(m, std::adopt_lock);
    enters();
    if (random.one_in(200)) {
      const auto until = weft::test::test_clock::now() + 10 * some_time(random);
      while (weft::test::test_clock::now() < until) {
      }
    }
    if (random.one_in(8)) weft::gosched();
    if (random.one_in(2)) {
      ++tokens;
      ++made;
      random.one_in(3) ? cv.notify_all() : cv.notify_one();
    } else if (tokens > 0) {
      --tokens;
      ++taken;
    }
    if (random.one_in(2)) {
      leaves();
      static_cast<void>(cv.wait_for(l, some_time(random)));
      enters();
    }
    leaves();
  });
  EXPECT_EQ(beside, 0) << "two at once";
  EXPECT_EQ(made, taken + tokens);
  EXPECT_TRUE(m.try_lock()) << "somebody is entitled to it";
  m.unlock();
}

TEST_P(LockStorm, ReadersAndWriters) {
  weft::shared_timed_mutex m;
  long a = 0, b = 0;
  std::atomic<long> torn{0};
  blow(12, [&](random_source& random) {
    const bool limited = random.one_in(2);
    if (random.one_in(4)) {
      if (limited) {
        if (!m.try_lock_for(some_time(random))) return;
      } else {
        m.lock();
      }
      ++a;
      if (random.one_in(8)) weft::gosched();
      ++b;
      m.unlock();
      return;
    }
    if (limited) {
      if (!m.try_lock_shared_for(some_time(random))) return;
    } else {
      m.lock_shared();
    }
    const long seen = a;
    if (random.one_in(8)) weft::gosched();
    if (b != seen) ++torn;
    m.unlock_shared();
  });
  EXPECT_EQ(a, b);
  EXPECT_EQ(torn, 0);
}

TEST_P(LockStorm, Semaphores) {
  weft::counting_semaphore<> s(3);
  std::atomic<int> inside{0};
  std::atomic<long> too_many{0};
  blow(12, [&](random_source& random) {
    if (random.one_in(2)) {
      if (!s.try_acquire_for(some_time(random))) return;
    } else {
      s.acquire();
    }
    if (++inside > 3) ++too_many;
    if (random.one_in(4)) weft::gosched();
    --inside;
    s.release();
  });
  EXPECT_EQ(too_many, 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(s.try_acquire());
  EXPECT_FALSE(s.try_acquire());
}

// Latches, barriers, semaphores and futures, each for one use.
TEST_P(LockStorm, ForOneUse) {
  blow(6, [](random_source& random) {
    const int parties = 1 + random.below(4);
    doomed<weft::latch> l(parties);
    auto b = std::make_unique<doomed<weft::barrier<>>>(parties + 1);
    doomed<weft::binary_semaphore> s(0);
    weft::promise<int> p;
    auto f = p.get_future().share();
    std::atomic<int> met{0};
    for (int i = 0; i < parties; ++i) {
      weft::go([&, f] {
        if (f.get() != 5) std::abort();
        (*b)->arrive_and_wait();
        if (++met == parties) s->release();
        l->count_down();
      });
    }
    p.set_value(5);
    (*b)->arrive_and_wait();
    s->acquire();
    l->wait();
    b.reset();
  });
}

WEFT_OVER_PROCS(LockStorm);

}  // namespace
