// sched/timed.h: waits that end by the object, by a deadline or by a cancellation, exactly once.
#include "sched/timed.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "base/lock.h"
#include "gmp/inside.h"
#include "os/clock.h"
#include "sched/timers.h"
#include "support/fixture.h"
#include "support/seed.h"

namespace weft::rt {
namespace {

constexpr std::int64_t kMs = 1'000'000;

class Timed : public weft::test::over_procs {};

// A semaphore with the simplest of queues.
class gate {
 public:
  wait_end pass(const wait_limit& limit) {
    const inside here;
    wait_claim claim;
    waiter w;
    w.claim = &claim;
    const wait_end end = block_until(w, enlist, this, &lock_, wait_reason::semacquire, limit);
    if (end != wait_end::woken) {
      leave(w);
    }
    return end;
  }
  // False: nobody waits, so that the next one does not have to.
  bool open() {
    const inside here;
    waiter* w = nullptr;
    {
      const scoped_lock held(lock_);
      while (first_ != nullptr && w == nullptr) {
        w = first_;
        first_ = w->next;
        if (!w->take()) {
          w->next = nullptr;
          w = nullptr;
        }
      }
      permits_ += w == nullptr ? 1 : 0;
    }
    if (w != nullptr) {
      wake(w);
    }
    return w != nullptr;
  }
  int permits() {
    const inside here;
    const scoped_lock held(lock_);
    return permits_;
  }
  bool empty() {
    const inside here;
    const scoped_lock held(lock_);
    return first_ == nullptr;
  }

 private:
  static bool enlist(waiter* w, void* self) {
    auto* g = static_cast<gate*>(self);
    const scoped_lock held(g->lock_);
    if (g->permits_ > 0) {
      --g->permits_;
      return false;
    }
    w->next = g->first_;
    g->first_ = w;
    return true;
  }
  void leave(waiter& w) {
    const scoped_lock held(lock_);
    for (waiter** link = &first_; *link != nullptr; link = &(*link)->next) {
      if (*link == &w) {
        *link = w.next;
        return;
      }
    }
  }

  ranked_lock lock_{lock_rank::leaf};
  waiter* first_ = nullptr;
  int permits_ = 0;
};

TEST_P(Timed, EndsAtTheDeadline) {
  run([] {
    gate g;
    for (const std::int64_t d : {std::int64_t{0}, kMs / 10, 3 * kMs}) {
      const std::int64_t deadline = nanotime() + d;
      EXPECT_EQ(g.pass({.deadline = deadline}), wait_end::timed_out);
      EXPECT_GE(nanotime(), deadline);
      EXPECT_TRUE(g.empty());
    }
  });
}

TEST_P(Timed, EndsAtTheDeadlineOnAPlainThread) {
  gate g;
  const std::int64_t deadline = nanotime() + 2 * kMs;
  EXPECT_EQ(g.pass({.deadline = deadline}), wait_end::timed_out);
  EXPECT_GE(nanotime(), deadline);
  EXPECT_EQ(g.pass({.deadline = 0}), wait_end::timed_out);
  EXPECT_TRUE(g.empty());
}

TEST_P(Timed, LooksAtTheObjectFirst) {
  run([] {
    gate g;
    g.open();
    EXPECT_EQ(g.pass({.deadline = 0}), wait_end::woken);
    cancel_source source;
    source.cancel();
    g.open();
    EXPECT_EQ(g.pass({.source = &source}), wait_end::woken);
    EXPECT_EQ(g.pass({.source = &source}), wait_end::cancelled);
  });
}

TEST_P(Timed, IsWokenBeforeIt) {
  gate g;
  auto waits = [&g] {
    EXPECT_EQ(g.pass({.deadline = nanotime() + 100'000 * kMs}), wait_end::woken);
  };
  run([&] {
    weft::thread t(waits);
    g.open();
    t.join();
  });
  std::thread plain(waits);
  run([&] { g.open(); });
  plain.join();
}

TEST_P(Timed, IsCancelled) {
  for (const bool plain : {false, true}) {
    gate g;
    cancel_source source;
    std::atomic<int> cancelled{0};
    auto waits = [&] {
      cancelled += g.pass({.source = &source}) == wait_end::cancelled ? 1 : 0;
      cancelled += g.pass({.source = &source}) == wait_end::cancelled ? 1 : 0;
    };
    run([&] {
      std::unique_ptr<std::thread> thread;
      weft::thread t;
      if (plain) {
        thread = std::make_unique<std::thread>(waits);
      } else {
        t = weft::thread(waits);
      }
      EXPECT_TRUE(weft::test::eventually([&g] { return !g.empty(); }));
      EXPECT_TRUE(source.cancel());
      EXPECT_TRUE(weft::test::eventually([&] { return cancelled == 2; }));
      if (plain) {
        thread->join();
      } else {
        t.join();
      }
    });
    EXPECT_TRUE(g.empty());
  }
}

// Deadlines, cancellations and permits at once: every permit is used once, and everybody returns.
TEST_P(Timed, Storm) {
  gate g;
  std::atomic<int> woken{0}, opened{0}, ended{0};
  const int rounds = weft::test::scaled(400, 20);
  std::vector<cancel_source> sources(static_cast<std::size_t>(rounds));
  auto one = [&](std::uint64_t number) {
    weft::test::random_source random(number);
    for (int i = 0; i < rounds; ++i) {
      wait_limit limit{.deadline = nanotime() + random.below(60) * 1000};
      if (random.one_in(2)) {
        limit.source = &sources[static_cast<std::size_t>(i)];
      }
      if (random.one_in(8)) {
        limit.source = &sources[static_cast<std::size_t>(i)];
        limit.deadline = kNever;
      }
      (g.pass(limit) == wait_end::woken ? woken : ended)++;
    }
  };
  std::thread plain;  // joined outside: inside it would hold a P up
  run([&] {
    weft::wait_group wg;
    for (std::uint64_t i = 0; i < 6; ++i) {
      wg.go([&, i] { one(i); });
    }
    plain = std::thread([&] { one(100); });
    weft::thread helper([&] {
      weft::test::random_source random(200);
      for (std::size_t i = 0; i < sources.size();) {
        if (random.one_in(3)) {
          sources[i++].cancel();
        } else {
          g.open();
          ++opened;
        }
        weft::gosched();
      }
    });
    wg.wait();
    helper.join();
  });
  plain.join();
  EXPECT_EQ(woken + ended, 7 * rounds);
  EXPECT_EQ(woken + g.permits(), opened);
  EXPECT_TRUE(g.empty());
}

// Who cancels may be preempted while he is at a hook; whoever waits for that lets him run, even if it keeps its P.
TEST_P(Timed, RemovalWaitsForOneWhoIsPreempted) {
  run([] {
    struct slow_hook : cancel_hook {
      std::atomic<bool> entered{false}, awaited{false}, over{false};
    } hook;
    hook.fire = [](cancel_hook* h) {
      auto* me = static_cast<slow_hook*>(h);
      me->entered = true;
      while (!me->awaited) {  // with one P it is frozen here
      }
      me->over = true;
    };
    cancel_source source;
    ASSERT_TRUE(source.add(hook));
    weft::wait_group canceller;
    canceller.go([&] { source.cancel(); });
    while (!hook.entered) weft::gosched();
    {
      const weft::no_preempt scope;
      hook.awaited = true;
      EXPECT_FALSE(source.remove(hook));
      EXPECT_TRUE(hook.over);
    }
    canceller.wait();
  });
}

WEFT_OVER_PROCS(Timed);

}  // namespace
}  // namespace weft::rt
