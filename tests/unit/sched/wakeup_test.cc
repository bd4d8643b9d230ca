// X3 and X5: hunters of lost wake-ups. [SP-1], [SP-2], [SP-7], [SP-10]
//
// A submitter keeps its P and never comes to a scheduling point; what it has made runnable can only
// run if somebody else is awake, or is woken. If the wake-up was lost, nothing else will happen, and
// the submitter sees it. The pauses vary around the time that an M looks for work before it sleeps,
// since that is where the protocol is delicate. Exhaustive proof: tests/model.
//
// Would they fail? A missing fence on x86 seldom loses anything, so that no hunt is sure to show it: that each fence is
// needed the models show, which take them away one by one (idle_model.cc, nap_model.cc, netpoll_model.cc, timer_watch_model.cc).
// That a wake-up which is lost is noticed here lost_wakeup_process_test.cc shows, which drops FUTEX_WAKE.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <weft/go.h>
#include <weft/io.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/wait_group.h>

#include "gmp/sched.h"
#include "sched/park.h"
#include "support/fixture.h"
#include "support/seed.h"
#include "sync/count_gate.h"

namespace weft::rt {
namespace {

using weft::test::budget;
using weft::test::random_source;
using weft::test::test_clock;

constexpr auto kPerProcs = std::chrono::milliseconds(1000);

class WakeUp : public weft::test::runtime_test, public testing::WithParamInterface<int> {};

void pause_for(int us) {
  const auto until = test_clock::now() + std::chrono::microseconds(us);
  while (test_clock::now() < until) cpu_pause();
}

// Somebody who parks until woken, again and again.
class sleeper {
 public:
  void start(weft::wait_group& wg) {
    wg.go([this] {
      while (!stop_) {
        waiter w;
        block(w, publish, this, &waiting_, wait_reason::semacquire);
        ++runs_;
      }
    });
  }
  bool asleep() const { return waiting_.load(std::memory_order_acquire) != nullptr; }
  // Whoever takes it wakes it.
  waiter* take() { return waiting_.exchange(nullptr, std::memory_order_acquire); }
  void rouse() { wake(take()); }
  void stop() {
    stop_ = true;
    rouse();
  }
  long runs() const { return runs_; }

 private:
  static bool publish(waiter* w, void* self) {
    auto* s = static_cast<sleeper*>(self);
    s->waiting_.store(w, WEFT_COMMIT_ORDER(WT1, release));  // order: WT1 release to rouse()
    return true;
  }
  std::atomic<waiter*> waiting_{nullptr};
  std::atomic<bool> stop_{false};
  std::atomic<long> runs_{0};
};

// Submits in one of five ways and waits, without giving up the P, until it has run.
class submitter {
 public:
  submitter(std::uint64_t number, weft::wait_group& wg) : random_(number) {
    s_.start(wg);
    for (sleeper& one : crowd_) one.start(wg);
  }

  bool hunt(int rounds) {
    bool good = weft::test::eventually([this] { return s_.asleep() && crowd_sleeps(); });
    for (budget b(rounds, kPerProcs); good && b.next();) {
      pause_for(random_.below(60));
      const int way = random_.below(5);
      good = way == 4 ? rouse_crowd() : one_round(way);
    }
    s_.stop();
    for (sleeper& one : crowd_) one.stop();
    return good;
  }

 private:
  bool crowd_sleeps() const {
    for (const sleeper& one : crowd_) {
      if (!one.asleep()) return false;
    }
    return true;
  }
  long crowds_runs() const {
    long runs = 0;
    for (const sleeper& one : crowd_) runs += one.runs();
    return runs;
  }

  // All at once, as a barrier or a wait group does: each pushes the one before out of runnext.
  bool rouse_crowd() {
    const long runs = crowds_runs();
    waiter* all = nullptr;
    for (sleeper& one : crowd_) {
      waiter* w = one.take();
      w->next = all;
      all = w;
    }
    wake_all(all, nullptr);
    return weft::test::eventually_hogging(
        [&] { return crowds_runs() == runs + kCrowd && crowd_sleeps(); });
  }

  bool one_round(int way) {
    const long runs = s_.runs();
    int started = 0;
    std::atomic<int> ended{0};
    switch (way) {
      case 0:  // ready: into runnext
        s_.rouse();
        break;
      case 1:  // spawn: into runnext
        weft::go([&ended] { ++ended; });
        started = 1;
        break;
      case 2:  // the first one is pushed out to the ring
        weft::go([&ended] { ++ended; });
        weft::go([&ended] { ++ended; });
        started = 2;
        break;
      default:  // both
        s_.rouse();
        weft::go([&ended] { ++ended; });
        started = 1;
        break;
    }
    const bool roused = way == 0 || way == 3;
    return weft::test::eventually_hogging(
        [&] { return ended == started && (!roused || (s_.runs() > runs && s_.asleep())); });
  }

  static constexpr int kCrowd = 4;

  random_source random_;
  sleeper s_;
  sleeper crowd_[kCrowd];
};

// X3: one submitter, all other Ps free to sleep.
TEST_P(WakeUp, NoneIsLostByOneSubmitter) {
  weft::run(
      [] {
        weft::wait_group wg;
        submitter s(1, wg);
        EXPECT_TRUE(s.hunt(20000)) << "a lost wake-up";
        wg.wait();
      },
      {.max_procs = GetParam()});
}

// X5: as many submitters as leave one P free: now and then nobody is idle when work is submitted, and
// the last searcher is just going to sleep (needspinning).
TEST_P(WakeUp, NoneIsLostByManySubmitters) {
  weft::run(
      [] {
        std::atomic<bool> good{true};
        weft::wait_group wg, sleepers;
        for (int i = 0; i < GetParam() - 1; ++i) {
          wg.go([&, i] {
            submitter s(10 + static_cast<std::uint64_t>(i), sleepers);
            if (!s.hunt(20000)) good = false;
            sleepers.wait();
          });
        }
        wg.wait();
        EXPECT_TRUE(good) << "a lost wake-up";
      },
      {.max_procs = GetParam()});
}

// A plain thread submits; every M may be asleep, or on the way there. [IJ]
TEST_P(WakeUp, NoneIsLostByAPlainThread) {
  weft::runtime::gomaxprocs(GetParam());
  random_source random(20);
  for (budget b(20000, kPerProcs); b.next();) {
    pause_for(random.below(60));
    std::atomic<int> ended{0};
    const int n = 1 + random.below(3);
    for (int i = 0; i < n; ++i) weft::go([&ended] { ++ended; });
    ASSERT_TRUE(weft::test::eventually_hogging([&] { return ended == n; })) << "a lost wake-up";
  }
}

// Some who wait for descriptors that become ready at the same instant, so that whoever polls finds them all at once. They meet
// before they go on, and keep their Ps meanwhile: one M alone does not run them.
class poll_crowd {
 public:
  explicit poll_crowd(int procs) : meet_(procs - 1 < kReaders ? procs - 1 : kReaders) {
    for (int i = 0; i < kReaders; ++i) {
      readers_.go([this] { read(); });
    }
  }
  ~poll_crowd() {
    over_ = true;
    announce();
    readers_.wait();
    ::close(event_);
  }
  poll_crowd(const poll_crowd&) = delete;
  poll_crowd& operator=(const poll_crowd&) = delete;

  static bool sleeps() { return sched.io_waiters.load(std::memory_order_acquire) == kReaders; }

  // They have all met and wait again.
  bool one_round() {
    met_ = served_ = 0;
    announce();
    if (!weft::test::eventually_hogging([this] { return served_ == kReaders; })) return false;
    std::uint64_t count = 0;
    EXPECT_EQ(::read(event_, &count, sizeof count), 8);
    ++round_;
    return weft::test::eventually_hogging(sleeps);
  }
  void give_up() { met_ = kReaders; }

 private:
  static constexpr int kReaders = 4;

  void announce() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(event_, &one, sizeof one), 8);
  }

  void read() {
    const int fd = ::dup(event_);  // a descriptor is watched once
    {
      weft::io::poll_fd p(fd);
      for (int round = 0;; ++round) {
        p.wait_readable();
        if (over_) break;
        {
          const weft::no_preempt or_the_next_one_gets_the_p;
          ++met_;
          while (met_ < meet_) sched_yield();
        }
        ++served_;
        while (round_ == round && !over_)
          weft::gosched();  // it is readable until the submitter has read
      }
    }
    ::close(fd);
  }

  const int meet_;
  const int event_ = ::eventfd(0, EFD_CLOEXEC);
  std::atomic<int> met_{0}, served_{0}, round_{0};
  std::atomic<bool> over_{false};
  weft::wait_group readers_;
};

// X3, and X5's poller: what comes in a batch, and not from the submitter's own P.
TEST_P(WakeUp, NoneIsLostByThePoller) {
  weft::run(
      [] {
        poll_crowd crowd(GetParam());
        random_source random(30);
        bool good = weft::test::eventually(poll_crowd::sleeps);
        for (budget b(20000, kPerProcs); good && b.next();) {
          pause_for(random.below(60));
          good = crowd.one_round();
        }
        EXPECT_TRUE(good) << "a lost wake-up";
        crowd.give_up();
      },
      {.max_procs = GetParam()});
}

// After all that, nobody pretends to look for work, and every P is idle.
TEST_P(WakeUp, EverythingFallsAsleep) {
  weft::run(
      [] {
        weft::wait_group wg;
        for (int i = 0; i < 1000; ++i) wg.go([] { weft::gosched(); });
        wg.wait();
      },
      {.max_procs = GetParam()});
  EXPECT_TRUE(weft::test::eventually_hogging([] {
    return sched.idle.spinning() == 0 && sched.idle.idle() == GetParam();
  })) << sched.idle.spinning()
      << " spinning, " << sched.idle.idle() << " idle of " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(, WakeUp, testing::Values(2, 4, 16), weft::test::procs_name);

}  // namespace
}  // namespace weft::rt
