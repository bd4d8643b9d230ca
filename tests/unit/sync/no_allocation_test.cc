// Whoever blocks allocates nothing, whatever it waits for: what a wait needs is on the stack of who waits. Channels and
// selects are in unit/chan/chan_core_test.cc.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>
#include <optional>

#include <weft/barrier.h>
#include <weft/chan.h>
#include <weft/condition_variable.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// A sanitizer has its own.
#if !WEFT_TEST_TSAN && !WEFT_TEST_ASAN
// NOLINTBEGIN: counted, and otherwise as ever
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
// NOLINTEND
#endif

namespace weft {
namespace {

using namespace std::chrono_literals;

class NoAllocation : public test::over_procs {
 protected:
  // waits() is called again and again, each time beside another goroutine's lets_go(). With one P that comes second, so
  // that every wait is one. What is made once is made in the first rounds; and later a thread may still be, when the
  // system delays one: of a few times fifty rounds there must be one in which nobody has allocated.
  template <class Waits, class LetsGo>
  void check(const char* what, Waits waits, LetsGo lets_go) {
    constexpr int kRounds = 50, kTries = 10;
    run([&] {
      binary_semaphore begin(0);
      std::atomic<bool> over = false;  // what lets go need not come back to whoever waits
      wait_group other;
      other.go([&] {
        for (;;) {
          begin.acquire();
          if (over) return;
          lets_go();
        }
      });
      const auto rounds = [&] {
        const long before = allocations;
        for (int i = 0; i < kRounds; ++i) {
          begin.release();
          waits();
        }
        return allocations - before;
      };
      rounds();
      long made = rounds();
      for (int i = 1; i < kTries && made != 0; ++i) made = rounds();
      EXPECT_EQ(made, 0) << what;
      over = true;
      begin.release();
      other.wait();
    });
  }
};

TEST_P(NoAllocation, Locks) {
  binary_semaphore locked(0);
  mutex m;
  check(
      "mutex",
      [&] {
        locked.acquire();
        m.lock();
        m.unlock();
      },
      [&] {
        m.lock();
        locked.release();
        gosched();
        m.unlock();
      });
  shared_mutex rw;
  check(
      "a writer",
      [&] {
        locked.acquire();
        rw.lock();
        rw.unlock();
      },
      [&] {
        rw.lock_shared();
        locked.release();
        gosched();
        rw.unlock_shared();
      });
  check(
      "a reader",
      [&] {
        locked.acquire();
        rw.lock_shared();
        rw.unlock_shared();
      },
      [&] {
        rw.lock();
        locked.release();
        gosched();
        rw.unlock();
      });
}

TEST_P(NoAllocation, Events) {
  mutex m;
  condition_variable cv;
  bool ready = false;
  check(
      "condition_variable",
      [&] {
        unique_lock<mutex> held(m);
        cv.wait(held, [&] { return ready; });
        ready = false;
      },
      [&] {
        const lock_guard<mutex> held(m);
        ready = true;
        cv.notify_one();
      });
  binary_semaphore s(0);
  check(
      "semaphore", [&] { s.acquire(); }, [&] { s.release(); });
  wait_group wg;
  wg.add();
  check(
      "wait_group",
      [&] {
        wg.wait();
        wg.add();
      },
      [&] { wg.done(); });
  wg.done();
  std::optional<latch> l(1);
  check(
      "latch",
      [&] {
        l->wait();
        l.emplace(1);
      },
      [&] { l->count_down(); });
  barrier<> b(2);
  check(
      "barrier", [&] { b.arrive_and_wait(); }, [&] { b.arrive_and_wait(); });
}

TEST_P(NoAllocation, JoinsAndSleeps) {
  check(
      "join", [] { thread([] { gosched(); }).join(); }, [] {});
  check(
      "sleep", [] { this_thread::sleep_for(10us); }, [] {});  // sleep-ok: the subject
}

TEST_P(NoAllocation, WaitsWithALimit) {
  constexpr auto kLimit = 10us;
  timed_mutex m;
  m.lock();
  check(
      "mutex", [&] { EXPECT_FALSE(m.try_lock_for(kLimit)); }, [] {});
  m.unlock();
  shared_timed_mutex rw;
  rw.lock();
  check(
      "shared_mutex",
      [&] {
        EXPECT_FALSE(rw.try_lock_for(kLimit));
        EXPECT_FALSE(rw.try_lock_shared_for(kLimit));
      },
      [] {});
  rw.unlock();
  mutex cv_lock;
  condition_variable cv;
  check(
      "condition_variable",
      [&] {
        unique_lock<mutex> held(cv_lock);
        EXPECT_FALSE(cv.wait_for(held, kLimit, [] { return false; }));
      },
      [] {});
  binary_semaphore s(0);
  check(
      "semaphore", [&] { EXPECT_FALSE(s.try_acquire_for(kLimit)); }, [] {});
  wait_group wg;
  wg.add();
  check(
      "wait_group", [&] { EXPECT_FALSE(wg.wait_for(kLimit)); }, [] {});
  wg.done();
  latch l(1);
  check(
      "latch", [&] { EXPECT_FALSE(l.wait_for(kLimit)); }, [] {});
  l.count_down();
  barrier<> b(2);
  const auto arrived = b.arrive();
  check(
      "barrier", [&] { EXPECT_FALSE(b.wait_for(arrived, kLimit)); }, [] {});
  const chan<int> c;
  check(
      "chan", [&] { EXPECT_FALSE(c.recv_for(kLimit)); }, [] {});
}

WEFT_OVER_PROCS(NoAllocation);

}  // namespace
}  // namespace weft
