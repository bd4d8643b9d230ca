// Whoever blocks allocates nothing, whatever it waits for: what a wait needs is on the stack of who waits. Channels and
// selects are in unit/chan/chan_core_test.cc.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <optional>

#include <weft/barrier.h>
#include <weft/chan.h>
#include <weft/condition_variable.h>
#include <weft/context.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/select.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>
#include <weft/time.h>
#include <weft/wait_group.h>

#include "gmp/inside.h"
#include "gmp/sched.h"
#include "support/fixture.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// In front of libc's: whatever asks for memory comes here in the end, each operator new, too.
// NOLINTBEGIN: libc's names
extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t n) noexcept {
  ++allocations;
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) noexcept {
  ++allocations;
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) noexcept {
  ++allocations;
  return __libc_realloc(p, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) noexcept {
  ++allocations;
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t n) noexcept {
  ++allocations;
  *p = __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}

}  // extern "C"
// NOLINTEND

namespace weft {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 100us;  // or it may be over before the wait has begun

// How often a goroutine was taken up so far. Where there is but one, each time is the end of a wait of its own.
std::uint64_t turns() {
  const rt::inside here;
  std::uint64_t n = 0;
  for (std::int32_t i = 0; i < rt::sched.proc_count(); ++i) {
    n += rt::sched.p(i)->switches.load(std::memory_order_relaxed);
  }
  return n;
}

class NoAllocation : public test::over_procs {
 protected:
  // does() is called again and again. What is made once is made in the first rounds; and later a thread may still be, when
  // the system delays one: of a few times fifty rounds there must be one in which nobody has allocated. In half of its rounds
  // at least each wait must have been one, of so many.
  template <class F>
  static void expect_none(const char* what, F does, int waits) {
    constexpr int kRounds = 50, kTries = 10;
    const auto wanted = static_cast<std::uint64_t>(kRounds * waits / 2);
    long made = 0;
    std::uint64_t turned = 0;
    for (int t = 0; t <= kTries; ++t) {
      const long made_before = allocations;
      const std::uint64_t turns_before = turns();
      for (int i = 0; i < kRounds; ++i) does();
      turned = turns() - turns_before;
      made = allocations - made_before;
      if (t > 0 && made == 0 && turned >= wanted) return;
    }
    EXPECT_EQ(made, 0) << what;
    EXPECT_GE(turned, wanted) << what;
  }
  // waits() each time beside another goroutine's lets_go(). With one P that comes second, so that every wait is one.
  template <class Waits, class LetsGo>
  void check(const char* what, Waits waits, LetsGo lets_go) {
    run([&] {
      counting_semaphore<> begin(0);  // the next time may begin before the other one is back
      std::atomic<bool> over = false;
      wait_group other;
      other.go([&] {
        for (;;) {
          begin.acquire();
          if (over) return;
          lets_go();
        }
      });
      const auto does = [&] {
        begin.release();
        waits();
      };
      expect_none(what, does, 1);
      over = true;
      begin.release();
      other.wait();
    });
  }
  // Waits that end by themselves: so many, in which nobody else runs.
  template <class Waits>
  void check_alone(const char* what, Waits does, int waits = 1) {
    run([&] { expect_none(what, does, waits); });
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
  check_alone("sleep", [] { this_thread::sleep_for(kLimit); });  // sleep-ok: the subject
}

TEST_P(NoAllocation, WaitsWithALimit) {
  timed_mutex m;
  m.lock();
  check_alone("mutex", [&] { EXPECT_FALSE(m.try_lock_for(kLimit)); });
  m.unlock();
  shared_timed_mutex rw;
  rw.lock();
  const auto both = [&] {
    EXPECT_FALSE(rw.try_lock_for(kLimit));
    EXPECT_FALSE(rw.try_lock_shared_for(kLimit));
  };
  check_alone("shared_mutex", both, 2);
  rw.unlock();
  mutex cv_lock;
  condition_variable cv;
  check_alone("condition_variable", [&] {
    unique_lock<mutex> held(cv_lock);
    EXPECT_FALSE(cv.wait_for(held, kLimit, [] { return false; }));
  });
  binary_semaphore s(0);
  check_alone("semaphore", [&] { EXPECT_FALSE(s.try_acquire_for(kLimit)); });
  wait_group wg;
  wg.add();
  check_alone("wait_group", [&] { EXPECT_FALSE(wg.wait_for(kLimit)); });
  wg.done();
  latch l(1);
  check_alone("latch", [&] { EXPECT_FALSE(l.wait_for(kLimit)); });
  l.count_down();
  barrier<> b(2);
  const auto arrived = b.arrive();
  check_alone("barrier", [&] { EXPECT_FALSE(b.wait_for(arrived, kLimit)); });
  condition_variable_any any;
  check_alone("condition_variable_any", [&] {
    unique_lock<mutex> held(cv_lock);
    EXPECT_FALSE(any.wait_for(held, kLimit, [] { return false; }));
  });
  promise<int> p;
  const future<int> f = p.get_future();
  check_alone("future", [&] { EXPECT_EQ(f.wait_for(kLimit), future_status::timeout); });
}

TEST_P(NoAllocation, ChannelsWithALimit) {
  const chan<int> c, d;
  check_alone("chan", [&] { EXPECT_FALSE(c.recv_for(kLimit)); });
  check_alone("select", [&] { EXPECT_EQ(select(recv(c), send(d, 1), timeout(kLimit)), 2u); });
  selector s;
  s.add(recv(c));
  s.add(send(d, 1));
  s.add(timeout(kLimit));
  check_alone("selector", [&] { EXPECT_EQ(s.select(), 2u); });
  const timer far(1h);
  check_alone("timer, the limit first", [&] { EXPECT_FALSE(far.c().recv_for(kLimit)); });
  timer soon(1h);
  check_alone("timer", [&] {
    soon.reset(kLimit);
    EXPECT_TRUE(soon.c().recv());
  });
  const ticker beat(kLimit);
  check_alone("ticker", [&] { EXPECT_TRUE(beat.c().recv()); });
}

TEST_P(NoAllocation, WaitsWithAContext) {
  auto [ctx, cancel] = with_cancel(context());
  check_alone("sleep", [&c = ctx] { EXPECT_FALSE(sleep_for(c, kLimit)); });
  const chan<int> c;
  check(
      "chan", [&, &x = ctx] { EXPECT_TRUE(c.recv(x)); }, [&] { c.send(1); });
  binary_semaphore locked(0);
  mutex m;
  check(
      "mutex",
      [&, &x = ctx] {
        locked.acquire();
        EXPECT_TRUE(m.lock(x));
        m.unlock();
      },
      [&] {
        m.lock();
        locked.release();
        gosched();
        m.unlock();
      });
  cancel();
}

WEFT_OVER_PROCS(NoAllocation);

}  // namespace
}  // namespace weft
