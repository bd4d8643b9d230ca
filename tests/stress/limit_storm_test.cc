// Waits that end by a cancellation, by a deadline or by what they wait for, all at about the same time: nobody
// gets what he did not wait for, and nothing is lost.
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include <weft/condition_variable.h>
#include <weft/context.h>
#include <weft/mutex.h>
#include <weft/semaphore.h>
#include <weft/shared_mutex.h>
#include <weft/thread.h>

#include "support/storm.h"

namespace {

using weft::test::random_source;

// Contexts that many wait with, and that anybody cancels; then others take their place.
class weather {
 public:
  weather() : slots_(kSlots) {
    for (auto& s : slots_) s.emplace(fresh(0));
  }
  ~weather() {
    for (auto& s : slots_) s->cancel();
  }

  weft::context some(random_source& random) {
    auto& slot = slots_[static_cast<std::size_t>(random.below(kSlots))];
    if (!random.one_in(3)) {
      const std::lock_guard held(mutex_);
      return slot->ctx;
    }
    auto next = fresh(random.one_in(2) ? 0 : 1 + random.below(60));
    std::unique_lock held(mutex_);
    std::swap(*slot, next);
    held.unlock();
    next.cancel();
    return next.ctx;
  }

 private:
  static constexpr int kSlots = 4;
  using cancellable = weft::cancellable<weft::cancel_func>;

  static cancellable fresh(int microseconds) {
    const weft::context root = weft::context::background();
    return microseconds == 0 ? weft::with_cancel(root)
                             : weft::with_timeout(root, std::chrono::microseconds(microseconds));
  }

  weft::mutex mutex_;
  std::vector<std::optional<cancellable>> slots_;
};

class LimitStorm : public weft::test::storm {
 protected:
  weather weather_;
};

TEST_P(LimitStorm, Mutexes) {
  weft::mutex m;
  weft::shared_mutex rw;
  int inside = 0, inside_rw = 0;  // guarded by them: sanitizers watch
  blow(8, [&](random_source& random) {
    const weft::context ctx = weather_.some(random);
    switch (random.below(4)) {
      case 0: m.lock(); break;
      case 1:
      case 2:
        if (m.lock(ctx)) break;
        [[fallthrough]];
      default:
        if (random.one_in(3)) {
          if (!rw.lock(ctx)) return;
          ASSERT_EQ(inside_rw++, 0);
          --inside_rw;
          rw.unlock();
        } else if (random.one_in(3)) {
          rw.lock_shared();  // patient: one whom a writer leaves behind when it gives up stays for ever
          ASSERT_EQ(inside_rw, 0);
          rw.unlock_shared();
        } else if (rw.lock_shared(ctx)) {
          ASSERT_EQ(inside_rw, 0);
          rw.unlock_shared();
        }
        return;
    }
    ASSERT_EQ(inside++, 0);
    if (random.one_in(4)) weft::gosched();
    --inside;
    m.unlock();
  });
  EXPECT_TRUE(m.try_lock());
  m.unlock();
  EXPECT_TRUE(rw.try_lock());
  rw.unlock();
}

TEST_P(LimitStorm, Units) {
  constexpr int kUnits = 2;
  weft::counting_semaphore<kUnits> units(kUnits);
  std::atomic<int> taken{0};
  blow(8, [&](random_source& random) {
    if (random.one_in(4)) {
      units.acquire();
    } else if (!units.acquire(weather_.some(random))) {
      return;
    }
    ASSERT_LE(++taken, kUnits);
    if (random.one_in(4)) weft::gosched();
    --taken;
    units.release();
  });
  for (int i = 0; i < kUnits; ++i) EXPECT_TRUE(units.try_acquire()) << "lost";
  EXPECT_FALSE(units.try_acquire());
}

// Tokens that are passed by notify_one(): one who leaves because of its context takes no notification along.
TEST_P(LimitStorm, Notifications) {
  weft::mutex m;
  weft::condition_variable cv;
  weft::condition_variable_any any;
  long tokens[2] = {1, 1};
  blow(8, [&](random_source& random) {
    const weft::context ctx = weather_.some(random);
    std::unique_lock<weft::mutex> l(m);
    const int which = random.below(2);
    long& pile = tokens[which];
    const auto some = [&pile] { return pile > 0; };
    if (!(which == 0 ? cv.wait(l, ctx, some) : any.wait(l, ctx, some))) return;
    --pile;
    l.unlock();
    if (random.one_in(4)) weft::gosched();
    l.lock();
    ++pile;
    which == 0 ? cv.notify_one() : any.notify_one();
  });
  EXPECT_EQ(tokens[0], 1);
  EXPECT_EQ(tokens[1], 1);
}

// The same with one who is patient, and others that leave without a look at what they waited for: whoever is
// notified passes it on, so that the notification must come to the patient one, or all would sleep for ever.
template <class Condition>
void one_is_patient(random_source& random) {
  const auto some_time = [&random](int microseconds) {
    return std::chrono::nanoseconds(1000 * random.below(microseconds));
  };
  weft::mutex m;
  Condition cv;
  bool told = false;
  std::atomic<int> waiting{0};  // changed under the mutex
  auto [ctx, cancel] = weft::with_cancel(weft::context::background());
  weft::wait_group wg;
  for (int i = 0; i < 3; ++i) {
    wg.go([&, i, limit = some_time(30), c = ctx] {
      std::unique_lock<weft::mutex> l(m);
      ++waiting;
      if (i == 2 ? cv.wait(l, c) : cv.wait_for(l, limit) == std::cv_status::no_timeout) {
        cv.notify_one();
      }
    });
  }
  wg.go([&] {
    std::unique_lock<weft::mutex> l(m);
    ++waiting;
    cv.wait(l, [&told] { return told; });
  });
  while (waiting < 4) weft::gosched();
  for (const auto end = weft::test::test_clock::now() + some_time(20);
       weft::test::test_clock::now() < end;) {
  }
  wg.go([stop = cancel] { stop(); });
  {
    const std::lock_guard<weft::mutex> l(m);
    told = true;
  }
  cv.notify_one();
  wg.wait();
}

TEST_P(LimitStorm, OneIsPatient) {
  run([this] {
    random_source random(1);
    while (blowing()) {
      one_is_patient<weft::condition_variable>(random);
      one_is_patient<weft::condition_variable_any>(random);
    }
  });
}

TEST_P(LimitStorm, Joins) {
  blow(4, [&](random_source& random) {
    int result = 0;
    weft::thread t([&result, yields = random.below(4)] {
      for (int i = 0; i < yields; ++i) weft::gosched();
      result = 1;
    });
    while (!t.join_until(weather_.some(random))) {
      ASSERT_TRUE(t.joinable());
      weft::gosched();
    }
    ASSERT_EQ(result, 1);
  });
}

WEFT_OVER_PROCS(LimitStorm);

}  // namespace
