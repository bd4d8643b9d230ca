// A goroutine that is joined before anybody has started it may run on the joiner's stack. Whether it
// does so is nobody's business: it is a goroutine like any other.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <exception>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/preemptions.h"
#include "support/thread_state.h"

namespace {

using weft::test::scaled;

class InPlace : public weft::test::over_procs {};

TEST_P(InPlace, Identity) {
  run([] {
    const std::uint64_t me = weft::runtime::goid();
    for (int i = 0; i < 100; ++i) {
      const int before = weft::runtime::num_goroutine();
      std::uint64_t child = 0;
      weft::thread t([&] {
        child = weft::runtime::goid();
        EXPECT_EQ(weft::runtime::num_goroutine(), before + 1);
      });
      const auto id = t.get_id();
      t.join();
      EXPECT_NE(child, me);
      EXPECT_NE(child, 0u);
      EXPECT_NE(id, weft::this_thread::get_id());
      EXPECT_EQ(weft::runtime::goid(), me);
      EXPECT_EQ(weft::runtime::num_goroutine(), before);
    }
  });
}

TEST_P(InPlace, ErrnoAndFloatingPoint) {
  run([] {
    weft::test::set_errno(77);
    std::fesetround(FE_UPWARD);
    weft::thread t([] {
      EXPECT_EQ(weft::test::get_errno(), 0);
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      weft::test::set_errno(5);
      std::fesetround(FE_DOWNWARD);
    });
    t.join();
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(weft::test::get_errno(), 77);
    weft::test::set_errno(0);
  });
}

// The joiner is in a handler, and in a destructor that runs because of an exception: the child is not.
TEST_P(InPlace, Exceptions) {
  struct joins {
    ~joins() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      weft::thread t([] {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        EXPECT_EQ(std::current_exception(), nullptr);
        try {
          throw std::runtime_error("inner");
        } catch (const std::runtime_error&) {
          weft::gosched();
        }
      });
      t.join();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  run([] {
    try {
      const joins j;
      throw std::logic_error("outer");
    } catch (const std::logic_error& e) {
      weft::thread t([] {
        EXPECT_EQ(std::current_exception(), nullptr);
        EXPECT_THROW(throw 1, int);
      });
      t.join();
      EXPECT_STREQ(e.what(), "outer");
      EXPECT_NE(std::current_exception(), nullptr);
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
}

TEST_P(InPlace, ChildEndsByGoexit) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      int destroyed = 0;
      struct witness {
        int& n;
        ~witness() { ++n; }
      };
      weft::thread t([&] {
        const witness outer{destroyed};
        try {
          const witness inner{destroyed};
          weft::goexit();
        } catch (...) {
        }
        ADD_FAILURE() << "after goexit";
      });
      t.join();
      EXPECT_EQ(destroyed, 2);
    }
  });
}

// The child parks while it has the joiner's stack, and goes on wherever.
TEST_P(InPlace, ChildParks) {
  run([] {
    std::atomic<long> sum{0};
    weft::mutex m;
    weft::wait_group others;
    for (int k = 0; k < 4; ++k) {
      others.go([&, k] {
        for (int i = 0; i < scaled(300, 20); ++i) {
          std::vector<int> local(10, k);
          weft::thread t([&] {
            const std::lock_guard held(m);
            weft::gosched();
            for (const int v : local) sum += v;
            weft::thread grandchild([&] {
              weft::gosched();
              ++sum;
            });
            grandchild.join();
          });
          t.join();
          for (const int v : local) ASSERT_EQ(v, k);
        }
      });
    }
    others.wait();
    EXPECT_EQ(sum, 64L * scaled(300, 20));
  });
}

long fib(int n) {
  if (n < 2) return n;
  long a = 0;
  weft::thread t([&] { a = fib(n - 1); });
  const long b = fib(n - 2);
  t.join();
  return a + b;
}

TEST_P(InPlace, Tree) {
  run([] { EXPECT_EQ(fib(16), 987); });
}

// Deeper than one stack could be: at some depth children get stacks of their own.
int deep(int n) {
  volatile char frame[512];
  frame[0] = static_cast<char>(n);
  if (n == 0) return 0;
  int below = 0;
  weft::thread t([&] { below = deep(n - 1); });
  t.join();
  return below + (frame[0] == static_cast<char>(n) ? 1 : 0);
}

TEST_P(InPlace, Deep) {
  run([] { EXPECT_EQ(deep(scaled(2000, 500)), scaled(2000, 500)); });
}

bool far_from(const volatile char* a, const volatile char* b) {
  const auto distance = reinterpret_cast<std::intptr_t>(a) - reinterpret_cast<std::intptr_t>(b);
  return distance > 128 * 1024 || distance < -128 * 1024;
}

// Writes to n bytes of the stack, from the top downwards.
[[gnu::noinline]] void use_stack(std::size_t n) {
  auto* bytes = static_cast<volatile char*>(__builtin_alloca(n));
  for (std::size_t i = 0; i < n; i += 512) bytes[n - 1 - i] = 1;
}

[[gnu::noinline]] bool child_lies_here(std::size_t child_uses, weft::attrs how = {}) {
  volatile char mine = 0;
  bool here = false;
  weft::thread t(how, [&] {
    volatile char its = 0;
    here = !far_from(&mine, &its);
    use_stack(child_uses);
  });
  t.join();
  return here;
}

// Otherwise nothing here is tested at all.
TEST_P(InPlace, ItDoesHappen) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "switched off: sched/in_place.cc says why";
  run([this] {
    // Not each time: another P may take the child before its parent waits for it.
    EXPECT_TRUE(weft::test::eventually([] { return child_lies_here(0); }));
    if (procs() > 1) return;
    int here = 0;
    for (int i = 0; i < 100; ++i) here += child_lies_here(0) ? 1 : 0;
    EXPECT_GT(here, 10);  // of one who was preempted others are ahead; chaos refuses half of them
  });
}

// A compiler takes it for granted that nothing of the sanitizer's is left where a new frame goes, and
// does not clean it.
[[gnu::noinline]] int use_every_byte() {
  volatile char frame[16 * 1024];
  for (volatile char& c : frame) c = 1;
  int sum = 0;
  for (volatile char& c : frame) sum += c;
  return sum;
}

TEST_P(InPlace, NothingOfTheChildIsLeft) {
  run([] {
    for (int i = 0; i < 100; ++i) {
      weft::thread([i] {
        if (i % 2 == 0) weft::goexit();
      }).join();
      ASSERT_EQ(use_every_byte(), 16 * 1024);
    }
  });
}

// Whoever joins, and whenever: a child has the stack that goroutines have.
[[gnu::noinline]] void join_below(std::size_t used, std::size_t child_uses) {
  auto* mine = static_cast<volatile char*>(__builtin_alloca(used));
  mine[0] = 1;
  child_lies_here(child_uses);
  EXPECT_EQ(mine[0], 1);
}

TEST_P(InPlace, LargeFrames) {
  run([] {
    for (const std::size_t used : {1, 4, 12, 15, 17, 40, 100, 180}) {
      for (int i = 0; i < 4; ++i) join_below(used * 1024, 200 * 1024);
    }
  });
}

TEST_P(InPlace, LargerFramesByAttributes) {
  run([] {
    for (int i = 0; i < 10; ++i) {
      EXPECT_FALSE(child_lies_here(700 * 1024, {.name = "large", .stack_size = 1024 * 1024}));
    }
    weft::jthread(
        [](std::stop_token token, int n) {
          EXPECT_TRUE(token.stop_possible());
          use_stack(static_cast<std::size_t>(n));
        },
        1024)
        .join();
    weft::jthread(
        {.stack_size = 1024 * 1024},
        [](std::stop_token token, int n) {
          EXPECT_TRUE(token.stop_possible());
          use_stack(static_cast<std::size_t>(n));
        },
        700 * 1024)
        .join();
  });
}

// A handler without a stack of its own runs below the stack pointer of whom it interrupts, at any
// instruction of a join.
volatile std::sig_atomic_t signals = 0;

void on_signal(int) {
  volatile char burnt[2048];
  for (volatile char& c : burnt) c = 0x5a;
  signals = signals + 1;
}

// One signal at a time: where handlers are slow (under an emulator), a steady stream of them would leave
// no time for anything else.
class signal_timer {
 public:
  signal_timer() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, nullptr);  // for good: the last signal may come after the timer
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event._sigev_un._tid = gettid();
    EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &id_), 0);
  }
  signal_timer(const signal_timer&) = delete;
  signal_timer& operator=(const signal_timer&) = delete;
  ~signal_timer() { timer_delete(id_); }

  void arm(long ns) const {
    const itimerspec once{{}, {0, ns}};
    EXPECT_EQ(timer_settime(id_, 0, &once, nullptr), 0);
  }

 private:
  timer_t id_{};
};

TEST_P(InPlace, Signals) {
  if (WEFT_TEST_TSAN) GTEST_SKIP() << "nothing runs in place, and handlers are put off";
  signals = 0;
  run([] {
    const signal_timer timer;
    long sum = 0;
    long joins = 0;
    for (int seen = -1; signals < scaled(2000, 300);) {
      if (seen != signals) {
        seen = signals;
        timer.arm(20'000 + seen % 50 * 1'000);  // it drifts over what is done
      }
      for (int i = 0; i < 10; ++i, ++joins) weft::thread([&] { ++sum; }).join();
      ASSERT_EQ(sum, joins);
    }
  });
}

// On the only P nobody else could look at the clock. Counted in joins, for the machine may be busy: and from when the
// sleeper sleeps. Before, whom the machine sets aside, however early, has had its slice, and waits for its next one. In its
// scope it is not stopped, so that whoever finds it ready runs because it has gone to sleep; but it may lose its P while
// its thread waits for a page, and then the round says nothing.
TEST_P(InPlace, SleepersGetTheirTurn) {
  if (procs() != 1) return;
  using clock = std::chrono::steady_clock;
  run([] {
    long joins_late = 0;
    for (int rounds = 0; rounds < scaled(20, 5);) {
      const auto lost_before = weft::test::handoffs();
      std::atomic<bool> ready = false, awake = false;
      clock::time_point due;
      weft::thread sleeper([&] {
        const weft::no_preempt here;
        due = clock::now() + std::chrono::milliseconds(2);
        ready = true;
        weft::this_thread::sleep_until(due);  // sleep-ok: the sleeper is what is tested
        awake = true;
      });
      long late = 0;
      while (!awake) {
        weft::thread([] {}).join();
        late += ready && clock::now() >= due ? 1 : 0;
      }
      sleeper.join();
      if (weft::test::handoffs() != lost_before) continue;
      joins_late = std::max(joins_late, late);
      ++rounds;
    }
    EXPECT_LE(joins_late, 200);
  });
}

// Nor does the global queue wait for long: somebody in it, put there by a plain thread, is a few dozen joins away. Whom a
// signal hits as it begins has had its turn, and waits for another one; and so has whoever has lost its P in it, because its
// thread waited for a page. Such a round says nothing.
TEST_P(InPlace, TheGlobalQueueGetsItsTurn) {
  if (procs() != 1) return;
  run([] {
    std::atomic<int> asked{0}, queued{0};
    std::atomic<int> runs{0};
    std::atomic<bool> over{false};
    std::thread outsider([&] {
      for (int i = 1;; ++i) {
        while (asked < i) {
          if (over) return;
          sched_yield();
        }
        weft::go([&runs] { ++runs; });
        queued = i;
      }
    });
    long most = 0;
    int rounds = 0;
    for (int i = 1; rounds < scaled(50, 5); ++i) {
      const auto frozen_before = weft::test::preemptions();
      const auto lost_before = weft::test::handoffs();
      asked = i;
      long joins = 0;
      while (runs < i) {
        weft::thread([] {}).join();
        joins += queued >= i ? 1 : 0;
      }
      if (weft::test::preemptions() != frozen_before || weft::test::handoffs() != lost_before) {
        continue;
      }
      most = std::max(most, joins);
      ++rounds;
    }
    over = true;
    outsider.join();
    EXPECT_LE(most, 200);
  });
}

TEST_P(InPlace, OthersGetTheirTurn) {
  run([] {
    std::atomic<bool> over{false};
    weft::wait_group wg;
    wg.go([&over] { over = true; });
    long joins = 0;
    while (!over) {
      weft::thread t([] {});
      t.join();
      ASSERT_LT(++joins, 100'000'000) << "starved";
    }
    wg.wait();
  });
}

TEST_P(InPlace, TheWorldCanStop) {
  run([] {
    std::atomic<bool> over{false};
    weft::wait_group wg;
    for (int i = 0; i < 3; ++i) {
      wg.go([&over] {
        while (!over) {
          weft::thread t([] {});
          t.join();
        }
      });
    }
    for (int i = 0; i < 20; ++i) weft::runtime::stop_the_world([] {});
    over = true;
    wg.wait();
  });
}

TEST_P(InPlace, LockedGoroutines) {
  run([] {
    weft::thread t([] {
      weft::thread u([] { weft::gosched(); });
      u.join();
    });
    t.join();
  });
  weft::run(
      [] {
        for (int i = 0; i < 20; ++i) {
          weft::thread t([] { weft::gosched(); });
          t.join();
        }
      },
      {.max_procs = procs(), .lock_main_thread = true});
}

WEFT_OVER_PROCS(InPlace);

}  // namespace
