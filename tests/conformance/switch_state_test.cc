// X2 and Go's TestGetgThreadSwitch: what a goroutine finds after a switch, perhaps on another thread:
// its identity, errno, floating-point control words (D6), and the thread-locals of the thread it is on.
#include <atomic>
#include <cfenv>
#include <chrono>
#include <functional>
#include <optional>
#include <sched.h>
#include <set>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <weft/barrier.h>
#include <weft/chan.h>
#include <weft/condition_variable.h>
#include <weft/context.h>
#include <weft/future.h>
#include <weft/io.h>
#include <weft/latch.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/select.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/thread_state.h"

namespace {

using namespace std::chrono_literals;  // NOLINT
using weft::test::budget;
using weft::test::get_errno;
using weft::test::set_errno;

class SwitchState : public weft::test::over_procs {};

[[gnu::noinline]] long thread_now() {
  asm volatile("");
  return syscall(SYS_gettid);
}
thread_local long my_thread = 0;
WEFT_TEST_OF_THE_THREAD long thread_by_local() {
  asm volatile("");
  if (my_thread == 0) my_thread = thread_now();
  return my_thread;
}

constexpr auto kShort = 10us;  // a limit that ends a wait

// wait(), and somebody who ends it by let_go() when he has his turn.
template <class Wait, class LetGo>
void meet(Wait wait, LetGo let_go) {
  weft::wait_group other;
  other.go(let_go);
  wait();
  other.wait();
}

// Locked by another one until everybody else has had a turn.
template <class Mutex, class Lock>
void lock_after_another(Lock lock) {
  Mutex m;
  weft::binary_semaphore locked(0);
  meet(
      [&] {
        locked.acquire();
        lock(m);
      },
      [&] {
        const std::lock_guard held(m);
        locked.release();
        weft::gosched();
      });
}

// Every way to give up the thread that weft has, by name.
const std::vector<std::pair<std::string, std::function<void()>>>& ways() {
  static const std::vector<std::pair<std::string, std::function<void()>>> all = {
      {"gosched", [] { weft::gosched(); }},
      {"yield", [] { weft::this_thread::yield(); }},
      {"join", [] { weft::thread([] { weft::gosched(); }).join(); }},
      {"wait",
       [] {
         weft::wait_group wg;
         wg.go([] { weft::gosched(); });
         wg.wait();
       }},
      {"run", [] { weft::run([] { weft::gosched(); }); }},
      {"stop_the_world", [] { weft::runtime::stop_the_world([] {}); }},
      {"gomaxprocs",
       [] {
         const int n = weft::runtime::gomaxprocs();
         weft::runtime::gomaxprocs(n + 1);
         weft::runtime::gomaxprocs(n);
       }},
      {"chan",
       [] {
         const weft::chan<int> there, back;
         meet(
             [=] {
               there.send(1);
               back.recv();
             },
             [=] {
               there.recv();
               back.send(1);
             });
       }},
      {"select",
       [] {
         const weft::chan<int> a, b;
         meet([=] { weft::select(weft::recv(a), weft::recv(b)); }, [=] { b.send(1); });
       }},
      {"select with a limit",
       [] { weft::select(weft::recv(weft::chan<int>()), weft::timeout(kShort)); }},
      {"recv_for", [] { static_cast<void>(weft::chan<int>().recv_for(kShort)); }},
      {"recv with a context",
       [] {
         auto [ctx, cancel] = weft::with_cancel(weft::context::background());
         meet([&c = ctx] { static_cast<void>(weft::chan<int>().recv(c)); }, cancel);
       }},
      {"sleep", [] { weft::this_thread::sleep_for(kShort); }},  // sleep-ok: a way to park
      {"mutex", [] { lock_after_another<weft::mutex>([](auto& m) { m.lock(), m.unlock(); }); }},
      {"timed_mutex",
       [] {
         weft::timed_mutex m;
         const std::lock_guard held(m);
         EXPECT_FALSE(m.try_lock_for(kShort));
       }},
      {"a writer",
       [] { lock_after_another<weft::shared_mutex>([](auto& m) { m.lock(), m.unlock(); }); }},
      {"a reader",
       [] {
         lock_after_another<weft::shared_mutex>(
             [](auto& m) { m.lock_shared(), m.unlock_shared(); });
       }},
      {"condition_variable",
       [] {
         weft::mutex m;
         weft::condition_variable cv;
         bool ready = false;
         meet(
             [&] {
               weft::unique_lock<weft::mutex> l(m);
               cv.wait(l, [&] { return ready; });
             },
             [&] {
               const std::lock_guard held(m);
               ready = true;
               cv.notify_one();
             });
       }},
      {"semaphore",
       [] {
         weft::binary_semaphore s(0);
         meet([&] { s.acquire(); }, [&] { s.release(); });
       }},
      {"latch",
       [] {
         weft::latch l(1);
         meet([&] { l.wait(); }, [&] { l.count_down(); });
       }},
      {"barrier",
       [] {
         weft::barrier b(2);
         meet([&] { b.arrive_and_wait(); }, [&] { b.arrive_and_wait(); });
       }},
      {"future",
       [] {
         weft::promise<int> p;
         auto f = p.get_future();
         meet([&] { f.get(); }, [&] { p.set_value(1); });
       }},
      {"async", [] { weft::async(weft::launch::async, [] { weft::gosched(); }).get(); }},
      {"read",
       [] {
         auto [r, w] = weft::io::pipe();
         char byte = 0;
         meet([&in = r, &byte] { in.read_some(weft::mutable_buffer(&byte, 1)); },
              [&out = w] { out.write_all(std::string("x")); });
       }},
      {"blocking", [] { weft::runtime::blocking([] { sched_yield(); }); }},
  };
  return all;
}

// Goroutines that spoil errno and rounding wherever they run, for as long as this lives.
class spoilers {
 public:
  spoilers() {
    for (int i = 0; i < 8; ++i) {
      wg_.go([this, i] {
        while (!stop_) {
          set_errno(1000 + i);
          fesetround(i % 2 == 0 ? FE_UPWARD : FE_TOWARDZERO);
          weft::gosched();
          wg_.go([] { set_errno(2000), fesetround(FE_DOWNWARD); });
        }
      });
    }
  }
  ~spoilers() {
    stop_ = true;
    wg_.wait();
  }

 private:
  std::atomic<bool> stop_{false};
  weft::wait_group wg_;
};

TEST_P(SwitchState, ErrnoIsKept) {
  run([] {
    const spoilers s;
    for (budget b(100); b.next();) {
      for (const auto& [name, give_up] : ways()) {
        if (name == "read") continue;  // as libc's: of a call that had to be made again
        const int mine = 42 + b.round();
        set_errno(mine);
        give_up();
        ASSERT_EQ(get_errno(), mine) << name;
      }
    }
  });
}

// "a goroutine starts with the default environment and keeps its own changes across parks"
TEST_P(SwitchState, FloatingPointControlIsKept) {
  run([] {
    const spoilers s;
    const int before = fegetround();
    constexpr int kModes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    for (budget b(400); b.next();) {
      const int mode = kModes[b.round() % 4];
      for (const auto& [name, give_up] : ways()) {
        fesetround(mode);
        give_up();
        ASSERT_EQ(fegetround(), mode) << name;
        volatile double tenth = 0.1, three = 3.0;
        const double product = tenth * three;
        give_up();
        ASSERT_EQ(static_cast<double>(tenth * three), product) << "and it acts";
      }
    }
    fesetround(before);
  });
}

TEST_P(SwitchState, GoroutinesStartWithDefaults) {
  run([] {
    const spoilers s;
    fesetround(FE_UPWARD);
    set_errno(7);
    for (budget b(500); b.next();) {
      weft::wait_group wg;
      for (int k = 0; k < 5; ++k) {
        wg.go([] {
          EXPECT_EQ(fegetround(), FE_TONEAREST);
          EXPECT_EQ(get_errno(), 0);
          fesetround(FE_DOWNWARD);
          set_errno(9);
        });
      }
      wg.wait();
    }
    EXPECT_EQ(fegetround(), FE_UPWARD);
    EXPECT_EQ(get_errno(), 7);
    fesetround(FE_TONEAREST);
  });
}

#if defined(__x86_64__)
// The x87 control word too, which fesetround alone would not show.
[[gnu::noinline]] std::uint16_t x87_control() {
  std::uint16_t w;
  asm volatile("fnstcw %0" : "=m"(w));
  return w;
}
[[gnu::noinline]] void set_x87_control(std::uint16_t w) { asm volatile("fldcw %0" : : "m"(w)); }

TEST_P(SwitchState, X87ControlIsKept) {
  run([] {
    const spoilers s;
    const std::uint16_t before = x87_control();
    EXPECT_EQ(before, 0x037f);
    for (const auto& [name, give_up] : ways()) {
      set_x87_control(0x027f);  // 53-bit mantissa
      give_up();
      EXPECT_EQ(x87_control(), 0x027f) << name;
      weft::thread([] { EXPECT_EQ(x87_control(), 0x037f); }).join();
    }
    set_x87_control(before);
  });
}
#endif

// A plain thread's rounding mode is not that of the goroutines that it starts.
TEST_P(SwitchState, PlainThreadsDoNotLeak) {
  fesetround(FE_UPWARD);
  run([] { EXPECT_EQ(fegetround(), FE_TONEAREST); });
  weft::run(
      [] {
        EXPECT_EQ(fegetround(), FE_TONEAREST);
        fesetround(FE_DOWNWARD);
      },
      {.max_procs = procs(), .lock_main_thread = true});
  EXPECT_EQ(fegetround(), FE_UPWARD);
  fesetround(FE_TONEAREST);
}

// Identity goes with the goroutine, thread-locals with the thread.
TEST_P(SwitchState, IdentityAfterEveryWay) {
  run([] {
    weft::wait_group wg;
    for (int i = 0; i < 20; ++i) {
      wg.go([] {
        const std::uint64_t id = weft::runtime::goid();
        const auto thread_id = weft::this_thread::get_id();
        for (int k = 0; k < 5; ++k) {
          for (const auto& [name, give_up] : ways()) {
            give_up();
            ASSERT_EQ(weft::runtime::goid(), id) << name;
            ASSERT_EQ(weft::this_thread::get_id(), thread_id) << name;
            ASSERT_EQ(thread_by_local(), thread_now()) << name;
          }
        }
      });
    }
    wg.wait();
  });
}

// Go: TestGetgThreadSwitch. The goroutine that parks leaves somebody on its thread who does not give
// it up, and who wakes it: so it must go on elsewhere.
TEST_P(SwitchState, ForcedThreadChange) {
  if (procs() == 1) {
    return;  // there is no other thread to go to
  }
  run([] {
    std::set<long> threads;
    for (budget b(200); b.next();) {
      const int i = b.round();
      const std::uint64_t id = weft::runtime::goid();
      std::atomic<bool> back{false};
      std::atomic<long> hogged{0};
      weft::wait_group gate, ended;
      gate.add(1);
      ended.go([&] {
        hogged = thread_now();
        gate.done();
        EXPECT_TRUE(weft::test::eventually_hogging([&] { return back.load(); }));
      });
      set_errno(i);
      gate.wait();
      const long now = thread_now();
      const int error = get_errno();
      back = true;
      EXPECT_NE(now, hogged) << "that thread was taken";
      EXPECT_EQ(weft::runtime::goid(), id);
      EXPECT_EQ(thread_by_local(), now);
      EXPECT_EQ(error, i);
      threads.insert(now);
      ended.wait();
    }
    EXPECT_GE(threads.size(), 1u);
  });
}

WEFT_OVER_PROCS(SwitchState);

}  // namespace
