// Calls that cannot block return on the thread on which they were called: try_*, close, a select with
// an otherwise, unlock, notify, release, stop and reset of timers, cancellations. Also while others use the same channel, and
// while somebody's move holds it up; and they do not keep the processor from him.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <weft/weft.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;
using weft::chan;

class Staying : public weft::test::over_procs {};

long this_thread() { return syscall(SYS_gettid); }

// How many of the calls came back elsewhere.
class calls {
 public:
  template <class F>
  void operator()(F&& f) {
    const long before = this_thread();
    f();
    moved_ += this_thread() != before ? 1 : 0;
  }
  ~calls() { EXPECT_EQ(moved_, 0) << "calls that came back on another thread"; }

 private:
  std::atomic<long> moved_{0};
};

// Goroutines that are always ready, so that whoever yields is likely to go on elsewhere.
class crowd {
 public:
  crowd() {
    for (int i = 0; i < 4; ++i) {
      others_.go([this] {
        while (!over_) weft::gosched();
      });
    }
  }
  ~crowd() {
    over_ = true;
    others_.wait();
  }

 private:
  std::atomic<bool> over_{false};
  weft::wait_group others_;
};

// A value whose first move, into the channel, waits until it may go on.
struct gate {
  std::atomic<bool> reached{false};
  weft::binary_semaphore open{0};
};
struct reluctant {
  explicit reluctant(gate* g) : waits_for(g) {}
  reluctant(reluctant&& other) noexcept {
    if (other.waits_for != nullptr) {
      other.waits_for->reached = true;
      other.waits_for->open.acquire();
    }
  }
  gate* waits_for = nullptr;
};

constexpr int kRounds = 20;

// Makes the call while somebody is inside the move into c, which is empty and has a buffer. Should the
// caller leave its thread, then somebody takes the thread and keeps it until the caller has returned.
template <class F>
void beside_a_move(const chan<reluctant>& c, calls& staying, F&& call) {
  weft::wait_group others;
  gate g;
  others.go([&] {
    try {
      c.send(reluctant(&g));
    } catch (const weft::closed_channel&) {
    }
  });
  while (!g.reached) weft::gosched();
  std::atomic<bool> returned{false};
  std::atomic<int> to_come{6};  // several, lest all of them be stolen
  std::thread opener([&] {      // not a goroutine: whom it wakes may go on anywhere
    while (to_come > 0) std::this_thread::yield();
    g.open.release();
  });
  for (int i = to_come; i > 0; --i) {
    others.go([&, home = this_thread()] {
      if (this_thread() != home || weft::runtime::gomaxprocs() == 1) {
        --to_come;
        return;
      }
      to_come = 0;
      while (!returned) {
      }
    });
  }
  staying(call);
  returned = true;
  others.wait();
  opener.join();
}

}  // namespace

TEST_P(Staying, TriesBesideAMove) {
  run([] {
    const chan<reluctant> c(1);
    calls staying;
    for (int i = 0; i < kRounds; ++i) {
      bool received = false;
      beside_a_move(c, staying, [&] { received = c.try_recv().has_value(); });
      if (!received) c.recv();
    }
  });
}

TEST_P(Staying, SelectsBesideAMove) {
  run([] {
    const chan<reluctant> c(1);
    const chan<int> never;
    calls staying;
    for (int i = 0; i < kRounds; ++i) {
      std::size_t chosen = 0;
      beside_a_move(c, staying, [&] {
        chosen = weft::select(weft::recv(never), weft::recv(c), weft::otherwise());
      });
      if (chosen == 2) c.recv();
    }
  });
}

TEST_P(Staying, ClosesBesideAMove) {
  run([] {
    calls staying;
    for (int i = 0; i < kRounds; ++i) {
      const chan<reluctant> c(1);
      beside_a_move(c, staying, [&] { c.close(); });
    }
  });
}

// A std::mutex is unlocked by the thread that has locked it.
TEST_P(Staying, HoldsAStdMutex) {
  run([] {
    const chan<int> c(4);
    weft::wait_group wg;
    calls staying;
    for (int g = 0; g < 8; ++g) {
      wg.go([&, g] {
        std::mutex own;
        for (int i = 0; i < 5000; ++i) {
          staying([&] {
            const std::lock_guard<std::mutex> held(own);
            int value = i;
            if (g % 2 == 0) {
              c.try_send(value);
            } else {
              c.try_recv();
            }
          });
        }
      });
    }
    wg.wait();
  });
}

TEST_P(Staying, TimersAndContexts) {
  run([] {
    const crowd others;
    weft::timer t(1h);
    weft::wait_group wg;
    calls staying;
    for (int g = 0; g < 4; ++g) {
      wg.go([&, g] {
        for (int i = 0; i < kRounds; ++i) {
          if (g == 0) {
            staying([&] { t.reset(1h); });
          } else if (g == 1) {
            staying([&] { t.stop(); });
          } else {
            auto [ctx, cancel] = weft::with_cancel(weft::context());
            const auto done = ctx.done();
            weft::go([done] { done.recv(); });
            staying([&, &stop = cancel] { stop(); });
            staying([&, &c = ctx] { EXPECT_TRUE(c.err()); });
          }
        }
      });
    }
    wg.wait();
  });
}

// Should the caller leave its thread in the call, then somebody takes the thread and keeps it until the caller has returned.
template <class F>
void beside_keepers(calls& staying, F&& call) {
  weft::wait_group keepers;
  std::atomic<bool> returned{false};
  for (int i = 0; i < 3; ++i) {  // several, lest all of them be stolen
    keepers.go([&, home = this_thread()] {
      while (this_thread() == home && weft::runtime::gomaxprocs() > 1 && !returned) {
      }
    });
  }
  staying(call);
  returned = true;
  keepers.wait();
}

// Others wait for what is given up, so that somebody is woken each time.
TEST_P(Staying, UnlocksAndNotifications) {
  run([] {
    calls staying;
    for (int i = 0; i < weft::test::scaled(100, kRounds); ++i) {
      weft::mutex m;
      weft::recursive_mutex r;
      weft::shared_mutex s;
      weft::condition_variable cv;
      weft::counting_semaphore<> units{0};
      weft::latch l(1);
      weft::promise<int> p;
      bool told = false;
      weft::wait_group waiting, ended;
      m.lock();
      r.lock();
      i % 2 == 0 ? s.lock() : s.lock_shared();
      const auto waits = [&](auto wait) {
        waiting.add(1);
        ended.go([&waiting, wait] {
          waiting.done();
          wait();
        });
      };
      waits([&] { const std::lock_guard held(m); });
      waits([&] { const std::lock_guard held(r); });
      waits([&] { const std::lock_guard held(s); });
      waits([&] {
        std::unique_lock held(m);
        cv.wait(held, [&] { return told; });
      });
      waits([&] { units.acquire(); });
      waits([&] { l.wait(); });
      waits([f = p.get_future().share()] { EXPECT_EQ(f.get(), 7); });
      waiting.wait();
      weft::gosched();  // so that they do
      told = true;
      beside_keepers(staying, [&] { m.unlock(); });
      beside_keepers(staying, [&] { cv.notify_one(); });
      beside_keepers(staying, [&] { cv.notify_all(); });
      beside_keepers(staying, [&] { r.unlock(); });
      beside_keepers(staying, [&] { i % 2 == 0 ? s.unlock() : s.unlock_shared(); });
      beside_keepers(staying, [&] { units.release(); });
      beside_keepers(staying, [&] { l.count_down(); });
      beside_keepers(staying, [&] { p.set_value(7); });
      beside_keepers(staying, [&] { ended.go([] {}); });
      ended.wait();
    }
  });
}

WEFT_OVER_PROCS(Staying);
