// The explorer's own tests beyond memory: blocking, bounds, mutants, and what a trace looks like.
#include <cstdint>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <new>
#include <string>

#include "base/futex.h"
#include "base/lock.h"
#include "base/note.h"
#include "model/protocol.h"

namespace weft::model {
namespace {

using rt::atomic;

report explore(const std::function<void(world&)>& build, const options& bounds = {}) {
  return engine::get().explore(build, bounds);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct state {
  atomic<std::uint32_t> word{0}, other{0};
  rt::cell<int> data;
  rt::ranked_lock a{rt::lock_rank::sched}, b{rt::lock_rank::all_g};
  rt::note note;
};

constexpr auto rlx = std::memory_order_relaxed;

TEST(Explorer, FindsADeadlock) {
  const auto build = [](world& w) {
    auto* s = w.make<state>();
    w.thread("one", [s] { s->a.lock(), s->b.lock(), s->b.unlock(), s->a.unlock(); });
    w.thread("two", [s] { s->b.lock(), s->a.lock(), s->a.unlock(), s->b.unlock(); });
  };
  const report r = explore(build);
  EXPECT_FALSE(r.ok);
  EXPECT_EQ(r.failure, "deadlock: one waits in lock; two waits in lock;");
  EXPECT_TRUE(explore(build, {.preemptions = 0}).ok) << "it takes a preemption";
}

TEST(Explorer, LocksExcludeAndPublish) {
  const report r = explore([](world& w) {
    auto* s = w.make<state>();
    for (const char* name : {"one", "two", "three"}) {
      w.thread(name, [s] {
        rt::scoped_lock guard(s->a);
        s->data.set(s->data.get() + 1);
        s->a.assert_held();
      });
    }
    w.finally([s] { check(s->data.get() == 3, "lost update"); });
  });
  EXPECT_TRUE(r.ok) << r.trace;
}

TEST(Explorer, TryLockSeesTheLockHeld) {
  int failed = 0, took = 0;
  const report r = explore(
      [&](world& w) {
        auto* s = w.make<state>();
        w.thread("holder", [s] { s->a.lock(), s->a.unlock(); });
        w.thread("trier", [&, s] {
          if (!s->a.try_lock()) {
            ++failed;
            return;
          }
          ++took;
          s->a.unlock();
        });
      },
      {.try_locks = true});
  EXPECT_TRUE(r.ok) << r.trace;
  EXPECT_GT(failed, 0);
  EXPECT_GT(took, 0);
}

TEST(Explorer, NotesSleepUntilWoken) {
  const report r = explore([](world& w) {
    auto* s = w.make<state>();
    w.thread("sleeper", [s] {
      if (!s->note.sleep_for(1)) s->note.sleep();
      check(s->data.get() == 1, "not published");
    });
    w.thread("waker", [s] { s->data.set(1), s->note.wake(); });
  });
  EXPECT_TRUE(r.ok) << r.trace;
  EXPECT_EQ(explore([](world& w) {
              auto* s = w.make<state>();
              w.thread("sleeper", [s] { s->note.clear(), s->note.sleep(); });
              w.thread("waker", [s] { s->note.wake(); });
            }).failure,
            "deadlock: sleeper waits in sleep on a note;")
      << "a wake-up before the clear is lost";
}

// The futex compares and queues in one step: without the compare in the kernel a wake-up is lost.
TEST(Explorer, FutexComparesAndQueuesAtOnce) {
  const auto build = [](bool kernel_compares) {
    return [kernel_compares](world& w) {
      auto* s = w.make<state>();
      w.thread("sleeper", [s, kernel_compares] {
        const std::uint32_t seen = s->word.load(rlx);
        if (seen != 0) return;
        rt::futex_wait(kernel_compares ? s->word : s->other, 0);
      });
      w.thread("waker", [s, kernel_compares] {
        s->word.store(1, rlx);
        rt::futex_wake(kernel_compares ? s->word : s->other, 1);
      });
    };
  };
  EXPECT_TRUE(explore(build(true)).ok);
  EXPECT_EQ(explore(build(false)).failure, "deadlock: sleeper waits in futex_wait;");
}

// What the kernel has seen its caller has seen: no older value comes after that, and a loop that sleeps on what it
// has loaded ends, however old that was.
TEST(Explorer, FutexThatDoesNotSleepHasSeenWhy) {
  int refused = 0;
  const report once = explore([&refused](world& w) {
    auto* s = w.make<state>();
    w.thread("sleeper", [s, &refused] {
      const std::uint32_t seen = s->word.load(rlx);
      if (seen == 2 || rt::futex_wait(s->word, seen) != rt::futex_result::would_block) return;
      ++refused;
      check(s->word.load(rlx) > seen, "an older value after a newer one");
    });
    w.thread("waker", [s] {
      s->word.store(1, rlx);
      s->word.store(2, rlx);
      rt::futex_wake(s->word, 1);
    });
  });
  EXPECT_TRUE(once.ok) << once.trace;
  EXPECT_GT(refused, 0);
  const report loop = explore(
      [](world& w) {
        auto* s = w.make<state>();
        w.thread("sleeper", [s] {
          for (std::uint32_t seen = 0; seen != 2; seen = s->word.load(rlx)) {
            rt::futex_wait(s->word, seen);
          }
        });
        w.thread("waker", [s] {
          for (const std::uint32_t value : {1u, 0u, 1u, 0u, 2u}) s->word.store(value, rlx);
          rt::futex_wake(s->word, 1);
        });
      },
      {.preemptions = 4, .rereads = 1000, .max_steps = 200});
  EXPECT_TRUE(loop.ok) << loop.trace;
}

// A waker that skips the system call when it sees no waiter needs a full fence on both sides.
TEST(Explorer, SkippedWakeNeedsFences) {
  const auto build = [](std::memory_order fence) {
    return [fence](world& w) {
      auto* s = w.make<state>();
      w.thread("sleeper", [s, fence] {
        s->other.fetch_add(1, rlx);
        rt::fence(fence);
        while (s->word.load(rlx) == 0) rt::futex_wait(s->word, 0);
      });
      w.thread("waker", [s, fence] {
        s->word.store(1, rlx);
        rt::fence(fence);
        if (s->other.load(rlx) != 0) rt::futex_wake(s->word, 1);
      });
    };
  };
  EXPECT_TRUE(explore(build(std::memory_order_seq_cst), {.preemptions = 4}).ok);
  EXPECT_FALSE(explore(build(std::memory_order_acq_rel), {.preemptions = 4}).ok);
}

// The futex itself publishes nothing.
TEST(Explorer, FutexPublishesNoData) {
  const report r = explore([](world& w) {
    auto* s = w.make<state>();
    w.thread("sleeper", [s] {
      while (s->word.load(rlx) == 0) rt::futex_wait(s->word, 0);
      s->data.get();
    });
    w.thread("waker", [s] {
      s->data.set(1);
      s->word.store(1, rlx);
      rt::futex_wake(s->word, 1);
    });
  });
  EXPECT_EQ(r.failure, "data race: a read beside a write");
}

TEST(Explorer, SpuriousWakeUps) {
  const auto build = [](world& w) {
    auto* s = w.make<state>();
    w.thread("sleeper", [s] {
      if (s->word.load(rlx) == 0) rt::futex_wait(s->word, 0);  // no loop: wrong
      check(s->word.load(rlx) == 1, "awake too early");
    });
    w.thread("waker", [s] {
      s->word.store(1, rlx);
      rt::futex_wake(s->word, 1);
    });
  };
  EXPECT_TRUE(explore(build, {.stale = false}).ok);
  EXPECT_EQ(explore(build, {.stale = false, .spurious = 1}).failure, "awake too early");
}

TEST(Explorer, SpinLoopsEnd) {
  const report r = explore([](world& w) {
    auto* s = w.make<state>();
    w.thread("spinner", [s] {
      while (s->word.load(rlx) == 0) rt::cpu_pause();
    });
    w.thread("other", [s] { s->word.store(1, rlx); });
  });
  EXPECT_TRUE(r.ok) << r.trace;
  EXPECT_EQ(explore([](world& w) {
              auto* s = w.make<state>();
              w.thread("spinner", [s] {
                while (s->word.load(rlx) == 0) rt::cpu_pause();
              });
            }).failure,
            "livelock: the execution does not end");
}

TEST(Explorer, SlotsAreCheckedWhenACompareExchangeConfirms) {
  struct queue {
    rt::slot<int> slot;
    atomic<std::uint32_t> head{0}, tail{0};
  };
  // The owner reuses the slot once the taker has moved head on.
  const auto build = [](std::memory_order moved, std::memory_order seen) {
    return [=](world& w) {
      auto* q = w.make<queue>();
      q->slot.set(1);
      w.thread("taker", [=] {
        std::uint32_t h = 0;
        check(q->slot.get() == 1, "not the first one");
        q->head.compare_exchange_strong(h, 1, moved, rlx);
      });
      w.thread("owner", [=] {
        if (q->head.load(seen) == 1) q->slot.set(2);
      });
    };
  };
  EXPECT_TRUE(explore(build(std::memory_order_release, std::memory_order_acquire)).ok);
  const char* race = "data race: a slot is overwritten beside the read that took it";
  EXPECT_EQ(explore(build(rlx, std::memory_order_acquire)).failure, race);
  EXPECT_EQ(explore(build(std::memory_order_release, rlx)).failure, race);
}

// --- mutants and traces ----------------------------------------------------------------------

void hand_over(world& w) {
  auto* s = w.make<state>();
  w.thread("producer", [s] {
    s->data.set(1);
    s->word.store(1, WEFT_ORDER(XT1, release));
  });
  w.thread("consumer", [s] {
    if (s->word.load(WEFT_ORDER(XT1, acquire)) == 1 && !mutant("forget-to-look")) {
      check(s->data.get() == 1, "torn");
    }
  });
}

TEST(Explorer, NobodyComesAfterTheEnd) {
  struct short_lived {
    atomic<std::uint32_t> word{0};
    rt::cell<int> data;
  };
  const auto build = [](bool atomically) {
    return [atomically](world& w) {
      auto* s = w.make<state>();
      auto* o = new (engine::get().allocate(sizeof(short_lived), alignof(short_lived))) short_lived;
      w.thread("owner", [=] {
        o->~short_lived();
        s->other.store(1, rlx);
      });
      w.thread("late", [=] {
        while (s->other.load(rlx) == 0) rt::cpu_pause();
        static_cast<void>(atomically ? static_cast<int>(o->word.load(rlx)) : o->data.get());
      });
    };
  };
  EXPECT_EQ(explore(build(true)).failure, "an atomic is used after its end");
  EXPECT_EQ(explore(build(false)).failure, "data race: a read beside a write");
}

TEST(Explorer, TraceTellsTheSchedule) {
  for (const site* s : all_sites()) {
    if (std::string(s->label) != "XT1" || s->order != std::memory_order_acquire) continue;
    active() = {s, std::memory_order_relaxed, ""};
  }
  const report r = explore(hand_over);
  active() = {};
  ASSERT_FALSE(r.ok);
  EXPECT_TRUE(contains(r.trace, "producer   store @0 release  1   [XT1 model/explorer_test.cc:"))
      << r.trace;
  EXPECT_TRUE(contains(r.trace, "consumer   load @0 relaxed  -> 1   [XT1 ")) << r.trace;
  EXPECT_TRUE(contains(r.trace, " WEAKENED]")) << r.trace;
  EXPECT_TRUE(contains(r.trace, "=> data race: a read beside a write")) << r.trace;
}

TEST(Explorer, WeakensByOneStep) {
  using v = std::vector<std::memory_order>;
  EXPECT_EQ(weaker_orders(std::memory_order_seq_cst), v{std::memory_order_acq_rel});
  EXPECT_EQ(weaker_orders(std::memory_order_acq_rel),
            (v{std::memory_order_release, std::memory_order_acquire}));
  EXPECT_EQ(weaker_orders(std::memory_order_acquire), v{rlx});
  EXPECT_EQ(weaker_orders(rlx), v{});
}

const protocol kProtocol{
    "self-test", {"model/explorer_test.cc"}, {"XT1"}, {{"hand over", {}, hand_over}}};
const enrol_protocol kEnrolled(kProtocol);

TEST(Explorer, MissedMutantsAreReported) {
  EXPECT_NONFATAL_FAILURE(expect_all_mutants_caught(kProtocol), "no scenario notices");
}

}  // namespace
}  // namespace weft::model
