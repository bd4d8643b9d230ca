// weft::promise, future, shared_future, packaged_task and async: what std says of them.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weft/condition_variable.h>
#include <weft/future.h>
#include <weft/go.h>
#include <weft/goroutine_local.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;
using weft::future_errc;
using weft::future_error;
using weft::future_status;

class Future : public weft::test::over_procs {};

template <class F>
void expect_error(future_errc expected, F&& f) {
  try {
    f();
    ADD_FAILURE() << "should throw future_error";
  } catch (const future_error& e) {
    EXPECT_EQ(e.code(), expected);
  }
}

TEST_P(Future, ValueThroughAPromise) {
  run([] {
    weft::promise<std::string> p;
    weft::future<std::string> f = p.get_future();
    EXPECT_TRUE(f.valid());
    EXPECT_EQ(f.wait_for(0ms), future_status::timeout);
    weft::go([&p] { p.set_value("done"); });
    EXPECT_EQ(f.get(), "done");
    EXPECT_FALSE(f.valid());
  });
}

TEST_P(Future, ReferenceVoidAndMoveOnly) {
  run([] {
    int x = 1;
    weft::promise<int&> r;
    auto fr = r.get_future();
    r.set_value(x);
    EXPECT_EQ(&fr.get(), &x);

    weft::promise<void> v;
    auto fv = v.get_future();
    weft::go([&v] { v.set_value(); });
    fv.get();

    weft::promise<std::unique_ptr<int>> m;
    auto fm = m.get_future();
    m.set_value(std::make_unique<int>(7));
    EXPECT_EQ(*fm.get(), 7);
  });
}

TEST_P(Future, Exception) {
  run([] {
    weft::promise<int> p;
    auto f = p.get_future();
    weft::go([&p] {
      try {
        throw std::runtime_error("no");
      } catch (...) {
        p.set_exception(std::current_exception());
      }
    });
    EXPECT_THROW(f.get(), std::runtime_error);
    EXPECT_FALSE(f.valid());
  });
}

TEST_P(Future, Misuse) {
  const auto body = [] {
    weft::promise<int> p;
    auto f = p.get_future();
    expect_error(future_errc::future_already_retrieved, [&] { p.get_future(); });
    p.set_value(1);
    expect_error(future_errc::promise_already_satisfied, [&] { p.set_value(2); });
    expect_error(future_errc::promise_already_satisfied,
                 [&] { p.set_exception(std::make_exception_ptr(1)); });
    EXPECT_EQ(f.get(), 1);
    expect_error(future_errc::no_state, [&] { f.get(); });
    expect_error(future_errc::no_state, [&] { f.wait(); });
    weft::promise<int> q(std::move(p));
    expect_error(future_errc::no_state, [&] { p.set_value(1); });
    expect_error(future_errc::no_state, [&] { p.get_future(); });
    weft::future<int> broken;
    {
      const weft::promise<int> dropped = [&] {
        weft::promise<int> d;
        broken = d.get_future();
        return d;
      }();
    }
    expect_error(future_errc::broken_promise, [&] { broken.get(); });
  };
  run(body);
  body();
}

// A value whose copy throws leaves the promise unsatisfied.
TEST_P(Future, ThrowingValue) {
  struct thrower {
    thrower() = default;
    thrower(const thrower& other) : fails(other.fails) {
      if (fails) throw std::runtime_error("copy");
    }
    bool fails = false;
  };
  run([] {
    weft::promise<thrower> p;
    auto f = p.get_future();
    thrower t;
    t.fails = true;
    EXPECT_THROW(p.set_value(t), std::runtime_error);
    t.fails = false;
    p.set_value(t);
    EXPECT_FALSE(f.get().fails);
  });
}

TEST_P(Future, Shared) {
  run([] {
    weft::promise<int> p;
    weft::shared_future<int> s = p.get_future().share();
    std::atomic<int> sum{0};
    weft::wait_group wg;
    for (int i = 0; i < 20; ++i) wg.go([s, &sum] { sum += s.get(); });
    std::thread plain([s, &sum] { sum += s.get(); });
    p.set_value(2);
    wg.wait();
    plain.join();
    EXPECT_EQ(sum, 42);
    EXPECT_EQ(&s.get(), &s.get()) << "a reference to the one value";
  });
}

TEST_P(Future, WaitsWithALimit) {
  run([] {
    weft::promise<int> p;
    auto f = p.get_future();
    EXPECT_EQ(f.wait_for(1ms), future_status::timeout);
    EXPECT_EQ(f.wait_until(std::chrono::system_clock::now() + 1ms), future_status::timeout);
    weft::go([&p] { p.set_value(1); });
    EXPECT_EQ(f.wait_for(1h), future_status::ready);
    EXPECT_EQ(f.wait_until(std::chrono::steady_clock::now()), future_status::ready);
    EXPECT_EQ(f.get(), 1);
  });
}

// Many wait with limits that end about when the value comes: each has it, or has timed out.
TEST_P(Future, LimitsBesideTheValue) {
  run([] {
    for (weft::test::budget b(200); b.next();) {
      weft::promise<int> p;
      weft::shared_future<int> s = p.get_future().share();
      std::atomic<int> ready{0}, late{0};
      weft::wait_group wg;
      for (int i = 0; i < 8; ++i) {
        wg.go([s, i, &ready, &late] {
          (s.wait_for(std::chrono::microseconds(10 * i)) == future_status::ready ? ready : late)++;
        });
      }
      wg.go([&p] { p.set_value(1); });
      wg.wait();
      ASSERT_EQ(ready + late, 8);
      EXPECT_EQ(s.get(), 1);
    }
  });
}

TEST_P(Future, Async) {
  const auto body = [] {
    auto f = weft::async([](int a, int b) { return a + b; }, 1, 2);
    auto g = weft::async(weft::launch::async, [p = std::make_unique<int>(4)] { return *p; });
    EXPECT_EQ(f.get() + g.get(), 7);
    auto thrown = weft::async([]() -> int { throw std::logic_error("x"); });
    EXPECT_THROW(thrown.get(), std::logic_error);
    struct counter {
      int n = 0;
      int bump(int by) { return n += by; }
    } c;
    EXPECT_EQ(weft::async(&counter::bump, &c, 3).get(), 3);
  };
  run(body);
  body();
}

TEST_P(Future, Deferred) {
  run([] {
    int ran = 0;
    const auto here = weft::this_thread::get_id();
    auto f = weft::async(weft::launch::deferred, [&ran, here] {
      EXPECT_EQ(weft::this_thread::get_id(), here);
      return ++ran;
    });
    EXPECT_EQ(f.wait_for(0s), future_status::deferred);
    EXPECT_EQ(ran, 0);
    f.wait();
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(f.wait_for(0s), future_status::ready);
    EXPECT_EQ(f.get(), 1);
    auto never = weft::async(weft::launch::deferred, [&ran] { ++ran; });
    static_cast<void>(never);
    EXPECT_EQ(ran, 1);
  });
}

// The last future of an asynchronous call waits for it.
TEST_P(Future, AsyncWaitsAtTheEnd) {
  run([] {
    std::atomic<bool> done{false};
    {
      auto f = weft::async(weft::launch::async, [&done] {
        for (int i = 0; i < 20; ++i) weft::gosched();
        done = true;
      });
    }
    EXPECT_TRUE(done);
    done = false;
    static_cast<void>(weft::async(weft::launch::async, [&done] {
      weft::gosched();
      done = true;
    }));
    EXPECT_TRUE(done) << "a temporary waits, too";
  });
}

// goexit() in an asynchronous call breaks its promise.
TEST_P(Future, AsyncThatEndsItsGoroutine) {
  run([] {
    auto f = weft::async([]() -> int { weft::goexit(); });
    expect_error(future_errc::broken_promise, [&] { f.get(); });
  });
}

TEST_P(Future, PackagedTask) {
  run([] {
    weft::packaged_task<int(int, int)> task([](int a, int b) { return a * b; });
    EXPECT_TRUE(task.valid());
    auto f = task.get_future();
    weft::thread t(std::move(task), 6, 7);
    EXPECT_EQ(f.get(), 42);
    t.join();

    weft::packaged_task<int()> again([n = 0]() mutable { return ++n; });
    auto first = again.get_future();
    again();
    EXPECT_EQ(first.get(), 1);
    expect_error(future_errc::promise_already_satisfied, [&] { again(); });
    again.reset();
    auto second = again.get_future();
    again();
    EXPECT_EQ(second.get(), 2);

    weft::packaged_task<void()> fails([] { throw 1; });
    auto thrown = fails.get_future();
    fails();
    EXPECT_THROW(thrown.get(), int);

    weft::packaged_task<void()> empty;
    EXPECT_FALSE(empty.valid());
    expect_error(future_errc::no_state, [&] { empty(); });
    weft::future<void> broken;
    {
      weft::packaged_task<void()> dropped([] {});
      broken = dropped.get_future();
    }
    expect_error(future_errc::broken_promise, [&] { broken.get(); });
  });
}

// Ready at the end of the goroutine, not before.
TEST_P(Future, AtThreadExit) {
  run([] {
    weft::promise<int> p;
    auto f = p.get_future();
    weft::wait_group set, go_on;
    set.add(1);
    go_on.add(1);
    weft::thread t([&] {
      p.set_value_at_thread_exit(5);
      EXPECT_EQ(f.wait_for(0s), future_status::timeout);
      set.done();
      go_on.wait();
    });
    set.wait();
    EXPECT_EQ(f.wait_for(0s), future_status::timeout);
    expect_error(future_errc::promise_already_satisfied, [&] { p.set_value(6); });
    go_on.done();
    EXPECT_EQ(f.get(), 5);
    t.join();

    weft::packaged_task<int()> task([] { return 3; });
    auto g = task.get_future();
    weft::go([task = std::move(task)]() mutable {
      task.make_ready_at_thread_exit();
      weft::goexit();
    });
    EXPECT_EQ(g.get(), 3);

    weft::promise<void> q;
    auto h = q.get_future();
    std::thread plain([&q] { q.set_value_at_thread_exit(); });
    h.get();
    plain.join();
  });
}

struct mark_end {
  std::atomic<bool>* ended = nullptr;
  ~mark_end() {
    if (ended == nullptr) return;
    for (int i = 0; i < 100; ++i) weft::gosched();
    *ended = true;
  }
};
weft::goroutine_local<mark_end> local_mark;

// … and after its own values are gone, in whatever order they came: a value's destructor may use what
// the waiter owns.
TEST_P(Future, AtThreadExitAfterItsOwnValues) {
  const auto expect_after = [](bool value_first, auto make_ready, auto start) {
    std::atomic<bool> ended{false};
    weft::promise<void> p;
    auto f = p.get_future();
    auto joined = start([&] {
      if (value_first) local_mark->ended = &ended;
      make_ready(p);
      local_mark->ended = &ended;
    });
    f.wait();
    EXPECT_TRUE(ended);
    joined.join();
  };
  const auto goroutine = [](auto f) { return weft::thread(f); };
  const auto plain = [](auto f) { return std::thread(f); };
  const auto value = [](weft::promise<void>& p) { p.set_value_at_thread_exit(); };
  const auto task = [](weft::promise<void>& p) {
    weft::packaged_task t([] {});
    auto shared = std::make_shared<weft::future<void>>(t.get_future());
    t.make_ready_at_thread_exit();
    weft::go([shared, &p] {
      shared->wait();
      p.set_value();
    });
  };
  run([&] {
    for (const bool value_first : {false, true}) {
      expect_after(value_first, value, goroutine);
      expect_after(value_first, value, plain);
      expect_after(value_first, task, goroutine);
      expect_after(value_first, task, plain);
    }
  });
}

TEST_P(Future, NotifiedAtExitAfterItsOwnValues) {
  run([] {
    std::atomic<bool> ended{false};
    weft::mutex m;
    weft::condition_variable cv;
    bool ready = false;
    weft::thread t([&] {
      local_mark->ended = &ended;
      weft::unique_lock<weft::mutex> l(m);
      ready = true;
      weft::notify_all_at_thread_exit(cv, std::move(l));
    });
    weft::unique_lock<weft::mutex> l(m);
    cv.wait(l, [&] { return ready; });
    EXPECT_TRUE(ended);
    l.unlock();
    t.join();
  });
}

// Of all who see an exception anybody may be the last, with the future gone long ago, and whoever has set
// it may still be handling it. (To be judged by TSan, which does not see libstdc++'s count.)
TEST_P(Future, AnExceptionSeenByMany) {
  struct four {
    std::size_t value = 4;
  };
  run([] {
    std::atomic<std::size_t> seen{0};
    weft::wait_group all;
    const int rounds = weft::test::scaled(200, 50);
    for (int i = 0; i < rounds; ++i) {
      weft::promise<int> p;
      weft::shared_future<int> f = p.get_future().share();
      for (int k = 0; k < 3; ++k) {
        all.go([f, &seen]() mutable {
          try {
            weft::shared_future<int>(std::move(f)).get();
          } catch (const four& e) {
            weft::gosched();
            seen.fetch_add(e.value, std::memory_order_relaxed);
          }
        });
      }
      f = {};
      try {
        throw four();
      } catch (...) {
        p.set_exception(std::current_exception());
        weft::gosched();
      }
    }
    all.wait();
    EXPECT_EQ(seen, 3u * 4u * static_cast<std::size_t>(rounds));
  });
}

// The waiter may drop everything as soon as it has the value.
TEST_P(Future, DroppedRightAfterGet) {
  run([] {
    for (int i = 0; i < weft::test::scaled(2000, 50); ++i) {
      auto p = std::make_unique<weft::promise<int>>();
      auto f = p->get_future();
      weft::go([q = p.get()] { q->set_value(1); });
      ASSERT_EQ(f.get(), 1);
      p.reset();
    }
  });
}

WEFT_OVER_PROCS(Future);

}  // namespace
