// Hunts for lost wake-ups: wakeup_test.cc hunts where all is well, lost_wakeup_process_test.cc where they are lost.
//
// A submitter keeps its P, also against sysmon, and never comes to a scheduling point; what it has made runnable can only
// run if somebody else is awake, or is woken. If the wake-up was lost, nothing else will happen, and
// the submitter sees it. The pauses vary around the time that an M looks for work before it sleeps,
// since that is where the protocol is delicate.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/go.h>
#include <weft/io.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "gmp/sched.h"
#include "sched/park.h"
#include "support/patience.h"
#include "support/seed.h"
#include "sync/count_gate.h"

namespace weft::rt::hunts {

// How one hunts.
struct terms {
  int procs;
  int only_way = -1;  // of submitting; -1: in all of them, by turns
  std::chrono::milliseconds time{1000};
  std::chrono::seconds patience{20};    // who has not come by then was not woken
  void (*before)(int round) = nullptr;  // each round
  void (*lost)() = nullptr;  // as soon as somebody is missed; a hunt may not come to its end then

  // A round of a hunt: fails if it does.
  template <class F>
  bool round(int n, F&& submits_and_waits) const {
    if (before != nullptr) before(n);
    if (submits_and_waits()) return true;
    if (lost != nullptr) lost();
    return false;
  }
  template <class Predicate>
  bool comes(Predicate&& p) const {
    return test::eventually_hogging(p, patience);
  }
};

constexpr int kRounds = 20000;
constexpr int kWays = 5;

inline void pause_for(int us) {
  const auto until = test::test_clock::now() + std::chrono::microseconds(us);
  while (test::test_clock::now() < until) cpu_pause();
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
  submitter(std::uint64_t number, const terms& t, weft::wait_group& wg) : t_(t), random_(number) {
    s_.start(wg);
    for (sleeper& one : crowd_) one.start(wg);
  }

  bool hunt() {
    bool good = test::eventually([this] { return s_.asleep() && crowd_sleeps(); });
    const weft::no_preempt or_whom_nobody_woke_would_run_here;
    for (test::budget b(kRounds, t_.time); good && b.next();) {
      good = t_.round(b.round(), [this] {
        pause_for(random_.below(60));
        const int way = t_.only_way >= 0 ? t_.only_way : random_.below(kWays);
        return way == 4 ? rouse_crowd() : one_round(way);
      });
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
    return t_.comes([&] { return crowds_runs() == runs + kCrowd && crowd_sleeps(); });
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
    return t_.comes(
        [&] { return ended == started && (!roused || (s_.runs() > runs && s_.asleep())); });
  }

  static constexpr int kCrowd = 4;

  const terms& t_;
  test::random_source random_;
  sleeper s_;
  sleeper crowd_[kCrowd];
};

// Some who wait for descriptors that become ready at the same instant, so that whoever polls finds them all at once. They meet
// before they go on, and keep their Ps meanwhile: one M alone does not run them.
class poll_crowd {
 public:
  explicit poll_crowd(const terms& t)
      : t_(t), meet_(t.procs - 1 < kReaders ? t.procs - 1 : kReaders) {
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
    if (!t_.comes([this] { return served_ == kReaders; })) return false;
    std::uint64_t count = 0;
    EXPECT_EQ(::read(event_, &count, sizeof count), 8);
    ++round_;
    return t_.comes(sleeps);
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

  const terms& t_;
  const int meet_;
  const int event_ = ::eventfd(0, EFD_CLOEXEC);
  std::atomic<int> met_{0}, served_{0}, round_{0};
  std::atomic<bool> over_{false};
  weft::wait_group readers_;
};

// X3: one submitter, all other Ps free to sleep.
inline bool by_one_submitter(const terms& t) {
  bool good = false;
  weft::run(
      [&] {
        weft::wait_group wg;
        submitter s(1, t, wg);
        good = s.hunt();
        wg.wait();
      },
      {.max_procs = t.procs});
  return good;
}

// X5: as many submitters as leave one P free: now and then nobody is idle when work is submitted, and
// the last searcher is just going to sleep (needspinning).
inline bool by_many_submitters(const terms& t) {
  std::atomic<bool> good{true};
  weft::run(
      [&] {
        weft::wait_group wg, sleepers;
        for (int i = 0; i < t.procs - 1; ++i) {
          wg.go([&, i] {
            submitter s(10 + static_cast<std::uint64_t>(i), t, sleepers);
            if (!s.hunt()) good = false;
            sleepers.wait();
          });
        }
        wg.wait();
      },
      {.max_procs = t.procs});
  return good;
}

// A plain thread submits.
inline bool plain_rounds(const terms& t) {
  test::random_source random(20);
  bool good = true;
  for (test::budget b(kRounds, t.time / 2); good && b.next();) {
    good = t.round(b.round(), [&] {
      pause_for(random.below(60));
      std::atomic<int> ended{0};
      const int n = 1 + random.below(3);
      for (int i = 0; i < n; ++i) weft::go([&ended] { ++ended; });
      return t.comes([&] { return ended == n; });
    });
  }
  return good;
}

// First beside a goroutine that computes; then every M may be asleep, or on the way there. [IJ] (One of those looks for a
// deadlock every so often, and finds what it was not woken for.)
inline bool by_a_plain_thread(const terms& t) {
  weft::runtime::gomaxprocs(t.procs);
  std::atomic<bool> over{false};
  weft::thread computes([&over] {
    const weft::no_preempt of_its_p;
    while (!over) sched_yield();
  });
  const bool good = plain_rounds(t);
  over = true;
  computes.join();
  return good && plain_rounds(t);
}

// X3, and X5's poller: what comes in a batch, and not from the submitter's own P.
inline bool by_the_poller(const terms& t) {
  bool good = false;
  weft::run(
      [&] {
        poll_crowd crowd(t);
        test::random_source random(30);
        good = test::eventually(poll_crowd::sleeps);
        const weft::no_preempt or_whom_nobody_woke_would_run_here;
        for (test::budget b(kRounds, t.time); good && b.next();) {
          good = t.round(b.round(), [&] {
            pause_for(random.below(60));
            return crowd.one_round();
          });
        }
        crowd.give_up();
      },
      {.max_procs = t.procs});
  return good;
}

}  // namespace weft::rt::hunts
