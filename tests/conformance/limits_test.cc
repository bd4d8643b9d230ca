// Everything that blocks has a form that takes a context: all of them, by the same questions.
//
// A subject is something to wait for. wait() is false only if the context was cancelled first, and then
// nothing has happened: what is released later can still be had, by anybody.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weft/weft.h>

#include "support/fixture.h"
#include "support/tasks.h"
#include "support/witness.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually;

struct subject {
  subject() = default;
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;
  virtual ~subject() = default;
  virtual bool wait(const weft::context& ctx) = 0;
  virtual void release() = 0;  // once; who waits, now or later, gets it
  const char* name = "";       // for messages: SCOPED_TRACE belongs to a thread
};

template <class Mutex>
struct locked : subject {
  Mutex m;
  locked() { m.lock(); }
  ~locked() override { m.unlock(); }
  bool wait(const weft::context& ctx) override { return m.lock(ctx); }
  void release() override { m.unlock(); }
};

// Its owner may lock it again, so that it is held by somebody else.
template <class Mutex>
struct locked_by_another : subject {
  Mutex m;
  weft::wait_group locked, go_on;
  weft::thread owner;
  locked_by_another() {
    locked.add(1);
    go_on.add(1);
    owner = weft::thread([this] {
      const std::lock_guard held(m);
      locked.done();
      go_on.wait();
    });
    locked.wait();
  }
  ~locked_by_another() override { owner.join(); }
  bool wait(const weft::context& ctx) override {
    if (!m.lock(ctx)) return false;
    EXPECT_TRUE(m.lock(ctx)) << "it is its own already";
    m.unlock();
    m.unlock();
    return true;
  }
  void release() override { go_on.done(); }
};

struct locked_by_writer : subject {
  weft::shared_mutex m;
  locked_by_writer() { m.lock(); }
  ~locked_by_writer() override { m.unlock_shared(); }
  bool wait(const weft::context& ctx) override { return m.lock_shared(ctx); }
  void release() override { m.unlock(); }
};

struct locked_by_reader : subject {
  weft::shared_timed_mutex m;
  locked_by_reader() { m.lock_shared(); }
  ~locked_by_reader() override { m.unlock(); }
  bool wait(const weft::context& ctx) override { return m.lock(ctx); }
  void release() override { m.unlock_shared(); }
};

template <class Condition>
struct condition : subject {
  weft::mutex m;
  Condition cv;
  bool holds = false;
  bool wait(const weft::context& ctx) override {
    std::unique_lock<weft::mutex> l(m);
    const bool in_time = cv.wait(l, ctx, [this] { return holds; });
    EXPECT_TRUE(l.owns_lock());
    EXPECT_EQ(in_time, holds);
    return in_time;
  }
  void release() override {
    const std::lock_guard held(m);
    holds = true;
    cv.notify_one();
  }
};

struct units : subject {
  weft::counting_semaphore<> s{0};
  bool wait(const weft::context& ctx) override { return s.acquire(ctx); }
  void release() override { s.release(); }
};

struct result : subject {
  weft::promise<int> p;
  weft::shared_future<int> f = p.get_future().share();
  bool wait(const weft::context& ctx) override { return f.wait(ctx) && f.get() == 7; }
  void release() override { p.set_value(7); }
};

struct group : subject {
  weft::wait_group g;
  group() { g.add(1); }
  bool wait(const weft::context& ctx) override { return g.wait(ctx); }
  void release() override { g.done(); }
};

struct countdown : subject {
  weft::latch l{1};
  bool wait(const weft::context& ctx) override { return l.wait(ctx); }
  void release() override { l.count_down(); }
};

struct meeting : subject {
  weft::barrier<> b{2};
  std::optional<weft::barrier<>::arrival_token> token;
  bool wait(const weft::context& ctx) override {
    if (!token) token.emplace(b.arrive());
    return b.wait(*token, ctx);
  }
  void release() override { static_cast<void>(b.arrive()); }
};

// Something that runs until it is released.
struct running : subject {
  weft::wait_group go_on;
  running() { go_on.add(1); }
  void release() override { go_on.done(); }
};

template <class Thread>
struct join : running {
  Thread t{[this] { go_on.wait(); }};
  ~join() override { EXPECT_FALSE(t.joinable()); }
  bool wait(const weft::context& ctx) override { return t.join_until(ctx); }
};

struct tasks : running {
  weft::task_group g;
  tasks() {
    g.run([this] { go_on.wait(); });
  }
  bool wait(const weft::context& ctx) override { return g.wait(ctx); }
};

struct place : running {
  weft::task_group g;
  std::atomic<int> ran{0};
  int started = 0;
  place() {
    g.set_limit(1);
    g.run([this] { go_on.wait(); });
  }
  ~place() override {
    g.wait();
    EXPECT_EQ(ran, started);
  }
  bool wait(const weft::context& ctx) override {
    const bool in_time = g.run(ctx, [this] { ++ran; });
    started += in_time;
    return in_time;
  }
};

struct flight : running {
  weft::singleflight<int, int> flights;
  weft::wait_group under_way;
  weft::thread pilot;
  flight() {
    under_way.add(1);
    pilot = weft::thread([this] {
      flights.run(1, [this] {
        under_way.done();
        go_on.wait();
        return 7;
      });
    });
    under_way.wait();
  }
  ~flight() override { pilot.join(); }
  bool wait(const weft::context& ctx) override {
    const auto r = flights.run(ctx, 1, [] { return 7; });  // called only if the pilot has landed
    return r && r->value == 7;
  }
};

struct called_once : running {
  weft::once_flag once;
  weft::wait_group under_way;
  weft::thread caller;
  called_once() {
    under_way.add(1);
    caller = weft::thread([this] {
      weft::call_once(once, [this] {
        under_way.done();
        go_on.wait();
      });
    });
    under_way.wait();
  }
  ~called_once() override { caller.join(); }
  bool wait(const weft::context& ctx) override {
    return weft::call_once(once, ctx, [] { ADD_FAILURE() << "called twice"; });
  }
};

struct kind {
  const char* name;
  std::unique_ptr<subject> (*make)();
};

template <class Subject>
constexpr kind kind_of(const char* name) {
  return {name, [] { return std::unique_ptr<subject>(std::make_unique<Subject>()); }};
}

const kind kKinds[] = {
    kind_of<locked<weft::mutex>>("mutex"),
    kind_of<locked<weft::timed_mutex>>("timed_mutex"),
    kind_of<locked_by_another<weft::recursive_mutex>>("recursive_mutex"),
    kind_of<locked_by_another<weft::recursive_timed_mutex>>("recursive_timed_mutex"),
    kind_of<locked<weft::shared_mutex>>("shared_mutex"),
    kind_of<locked_by_writer>("shared_mutex, shared"),
    kind_of<locked_by_reader>("shared_timed_mutex"),
    kind_of<condition<weft::condition_variable>>("condition_variable"),
    kind_of<condition<weft::condition_variable_any>>("condition_variable_any"),
    kind_of<units>("semaphore"),
    kind_of<result>("future"),
    kind_of<group>("wait_group"),
    kind_of<countdown>("latch"),
    kind_of<meeting>("barrier"),
    kind_of<join<weft::thread>>("thread"),
    kind_of<join<weft::jthread>>("jthread"),
    kind_of<tasks>("task_group, wait"),
    kind_of<place>("task_group, run"),
    kind_of<flight>("singleflight"),
    kind_of<called_once>("call_once"),
};

weft::context cancelled() {
  auto [ctx, cancel] = weft::with_cancel(weft::context::background());
  cancel();
  return ctx;
}

class Limits : public weft::test::over_procs {
 protected:
  // f(subject) for every kind, in a goroutine of a run().
  template <class F>
  void for_each_kind(F&& f) {
    run([&f] {
      for (const kind& k : kKinds) {
        const std::unique_ptr<subject> s = k.make();
        s->name = k.name;
        f(*s);
      }
    });
  }
};

TEST_P(Limits, CancelledAlready) {
  for_each_kind([](subject& s) {
    EXPECT_FALSE(s.wait(cancelled())) << s.name;
    s.release();
    EXPECT_TRUE(s.wait(weft::context::background())) << s.name;
  });
}

// What is possible at once is done, whatever the context says.
TEST_P(Limits, PossibleAtOnce) {
  for_each_kind([](subject& s) {
    s.release();
    EXPECT_TRUE(eventually([&] { return s.wait(cancelled()); }))
        << s.name;  // those that run must end first
  });
}

TEST_P(Limits, CancelledMeanwhile) {
  for_each_kind([](subject& s) {
    auto [ctx, cancel] = weft::with_cancel(weft::context::background());
    weft::go([cancel = cancel] { cancel(); });
    EXPECT_FALSE(s.wait(ctx)) << s.name;
    auto [soon, stop] = weft::with_timeout(weft::context::background(), 1ms);
    EXPECT_FALSE(s.wait(soon)) << s.name;
    EXPECT_EQ(soon.err(), std::errc::timed_out);
    stop();
    s.release();
    EXPECT_TRUE(s.wait(weft::context::background())) << s.name;
  });
}

TEST_P(Limits, ReleasedMeanwhile) {
  for_each_kind([](subject& s) {
    auto [ctx, cancel] = weft::with_timeout(weft::context::background(), 1h);
    weft::wait_group released;
    released.go([&s] { s.release(); });
    EXPECT_TRUE(s.wait(ctx)) << s.name;
    cancel();
    released.wait();
  });
}

// A plain thread that waits for s, in vain or not; returns when its thread sleeps.
std::thread waits_beside(subject& s, const weft::context& ctx, bool in_vain,
                         std::atomic<bool>& ended) {
  std::atomic<long> tid{0};
  std::thread plain([&s, &tid, &ended, ctx, in_vain] {
    tid = weft::test::thread_now();
    EXPECT_EQ(s.wait(ctx), !in_vain) << s.name;
    ended = true;
  });
  EXPECT_TRUE(eventually([&] { return tid != 0 && weft::test::sleeps(std::to_string(tid)); }))
      << s.name;
  EXPECT_FALSE(ended) << s.name;
  return plain;
}

TEST_P(Limits, OnPlainThreads) {
  for_each_kind([](subject& s) {
    auto [ctx, cancel] = weft::with_cancel(weft::context::background());
    std::atomic<bool> gave_up{false};
    std::thread plain = waits_beside(s, ctx, /*in_vain=*/true, gave_up);
    cancel();
    EXPECT_TRUE(eventually([&] { return gave_up.load(); })) << s.name;
    plain.join();
    s.release();
    EXPECT_TRUE(s.wait(weft::context::background())) << s.name;
  });
}

TEST_P(Limits, ReleasedMeanwhileOnPlainThreads) {
  for_each_kind([](subject& s) {
    auto [ctx, cancel] = weft::with_timeout(weft::context::background(), 1h);
    std::atomic<bool> has_it{false};
    std::thread plain = waits_beside(s, ctx, /*in_vain=*/false, has_it);
    s.release();
    EXPECT_TRUE(eventually([&] { return has_it.load(); })) << s.name;
    plain.join();
    cancel();
  });
}

// Released and cancelled at once: one of them ends the wait, and what was released is not lost.
TEST_P(Limits, ReleaseBesideCancel) {
  std::atomic<int> outcomes[2] = {};
  run([&outcomes] {
    for (const kind& k : kKinds) {
      for (weft::test::budget b(60, 60ms); b.next();) {
        const std::unique_ptr<subject> s = k.make();
        auto [ctx, cancel] = weft::with_cancel(weft::context::background());
        bool in_time = false;
        weft::wait_group ended;
        ended.go([&, c = ctx] { in_time = s->wait(c); });
        const int order = b.round() % 3;
        if (order != 0) weft::gosched();
        ended.go([&, cancel = cancel] { order == 1 ? cancel() : s->release(); });
        ended.go([&, cancel = cancel] { order == 1 ? s->release() : cancel(); });
        ended.wait();
        ++outcomes[in_time];
        ASSERT_TRUE(in_time || s->wait(weft::context::background())) << "lost: " << k.name;
      }
    }
  });
  EXPECT_GT(outcomes[true], 0);
  EXPECT_GT(outcomes[false], 0) << "the cancellation never came first";
}

// --- deadlines where std has none -------------------------------------------------------------

TEST_P(Limits, LatchDeadlines) {
  run([] {
    weft::latch l(1);
    EXPECT_FALSE(l.wait_for(0s));
    EXPECT_FALSE(l.wait_for(1ms));
    EXPECT_FALSE(l.wait_until(std::chrono::steady_clock::now() + 1ms));
    EXPECT_FALSE(l.wait_until(std::chrono::system_clock::now() + 1ms));
    weft::go([&l] { l.count_down(); });
    EXPECT_TRUE(l.wait_for(1h));
    EXPECT_TRUE(l.wait_for(0s));
  });
}

TEST_P(Limits, BarrierDeadlines) {
  run([] {
    int completed = 0;
    auto count = [&completed]() noexcept { ++completed; };
    weft::barrier b(2, count);
    for (int phase = 0; phase < 3; ++phase) {
      auto token = b.arrive();
      EXPECT_FALSE(b.wait_for(token, 0s));
      EXPECT_FALSE(b.wait_for(token, 1ms)) << "once more";
      EXPECT_FALSE(b.wait_until(token, std::chrono::steady_clock::now() + 1ms));
      EXPECT_EQ(completed, phase) << "it has arrived once";
      weft::thread other([&b] { b.arrive_and_wait(); });
      EXPECT_TRUE(b.wait_for(token, 1h));
      EXPECT_EQ(completed, phase + 1);
      EXPECT_TRUE(b.wait_for(token, 0s)) << "the phase is over";
      other.join();
    }
    auto gone = b.arrive();
    EXPECT_FALSE(b.wait_for(gone, 1ms));
    b.arrive_and_wait();  // is not waited for, and does not wait for who has given up
  });
}

TEST_P(Limits, JoinDeadlines) {
  run([] {
    weft::wait_group gate;
    gate.add(1);
    weft::jthread t([&gate] { gate.wait(); });
    EXPECT_FALSE(t.join_for(0s));
    EXPECT_FALSE(t.join_for(1ms));
    EXPECT_FALSE(t.join_until(std::chrono::system_clock::now() + 1ms));
    EXPECT_TRUE(t.joinable());
    gate.done();
    EXPECT_TRUE(t.join_for(1h));
    EXPECT_FALSE(t.joinable());
    EXPECT_THROW(t.join_for(1ms), std::system_error);

    weft::wait_group started;
    started.add(1);
    weft::thread self;
    self = weft::thread([&] {
      started.wait();
      EXPECT_THROW(self.join_for(1ms), std::system_error) << "itself";
    });
    started.done();
    self.join();

    gate.add(1);
    weft::wait_group ended;
    ended.add(1);
    weft::thread left([&] {
      gate.wait();
      ended.done();
    });
    EXPECT_FALSE(left.join_for(1ms));
    left.detach();  // after having given up
    gate.done();
    ended.wait();
  });
}

TEST_P(Limits, TaskGroupDeadlines) {
  run([] {
    weft::wait_group gate;
    gate.add(1);
    weft::task_group g;
    g.run([&gate] {
      gate.wait();
      throw std::runtime_error("task");
    });
    EXPECT_FALSE(g.wait_for(1ms));
    EXPECT_FALSE(g.wait_until(std::chrono::steady_clock::now() + 1ms));
    EXPECT_FALSE(g.ctx().err()) << "nothing has been cancelled";
    gate.done();
    EXPECT_THROW(g.wait_for(1h), std::runtime_error);
    EXPECT_TRUE(g.wait_for(0s));
  });
}

TEST_P(Limits, ConditionWithoutAPredicate) {
  run([] {
    weft::mutex m;
    weft::condition_variable cv;
    weft::unique_lock<weft::mutex> l(m);
    EXPECT_FALSE(cv.wait(l, cancelled()));
    EXPECT_FALSE(m.try_lock()) << "locked again";
    weft::go([&] {
      const std::lock_guard held(m);
      cv.notify_all();
    });
    auto [ctx, cancel] = weft::with_cancel(weft::context::background());
    EXPECT_TRUE(cv.wait(l, ctx));
    cancel();
  });
}

// --- times that do not fit into nanoseconds ---------------------------------------------------------

// Whatever the clock, and whatever it counts in. Past: nothing is waited for. Far: for as long as it takes.
template <class Time>
void expect_past(Time t) {
  weft::timed_mutex m;
  m.lock();
  EXPECT_FALSE(m.try_lock_until(t));
  weft::mutex mine;
  weft::unique_lock<weft::mutex> l(mine);
  weft::condition_variable cv;
  EXPECT_EQ(cv.wait_until(l, t), weft::cv_status::timeout);
  weft::chan<int> c;
  EXPECT_FALSE(c.recv_until(t).has_value());
  EXPECT_FALSE(weft::sleep_until(weft::context::background(), t));
  weft::this_thread::sleep_until(t);  // sleep-ok: the subject
  m.unlock();
}
template <class Time>
void expect_far(Time t) {
  const auto later = [](auto f) {
    weft::go([f] {
      weft::this_thread::sleep_for(1ms);  // sleep-ok: who waits in vain shall have time to say so
      f();
    });
  };
  weft::timed_mutex m;
  m.lock();
  later([&m] { m.unlock(); });
  EXPECT_TRUE(m.try_lock_until(t));
  m.unlock();
  weft::mutex mine;
  weft::unique_lock<weft::mutex> l(mine);
  weft::condition_variable cv;
  later([&] {
    const std::lock_guard held(mine);
    cv.notify_one();
  });
  EXPECT_EQ(cv.wait_until(l, t), weft::cv_status::no_timeout);
  weft::chan<int> c;
  later([c] { c.send(1); });
  EXPECT_TRUE(c.recv_until(t).has_value());
  auto [ctx, cancel] = weft::with_cancel(weft::context::background());
  later(cancel);
  EXPECT_TRUE(weft::sleep_until(ctx, t)) << "it has not slept";
}

// 32 bits of days, or more hours than there are nanoseconds.
template <class Clock>
using day_of = std::chrono::time_point<Clock, std::chrono::days>;
template <class Clock>
using hour_of = std::chrono::time_point<Clock, std::chrono::hours>;

TEST_P(Limits, TimesLongPast) {
  run([] {
    expect_past(std::chrono::steady_clock::time_point::min());
    expect_past(std::chrono::system_clock::time_point::min());
    expect_past(std::chrono::file_clock::time_point::min());  // counts from a time to come
    expect_past(std::chrono::sys_days(std::chrono::year::min() / 1 / 1));
    expect_past(day_of<std::chrono::steady_clock>::min());
    expect_past(hour_of<std::chrono::system_clock>::min());
  });
}

TEST_P(Limits, TimesFarAway) {
  run([] {
    expect_far(std::chrono::steady_clock::time_point::max());
    expect_far(std::chrono::system_clock::time_point::max());
    expect_far(std::chrono::file_clock::time_point::max());
    expect_far(std::chrono::sys_days(std::chrono::year(9999) / 12 / 31));
    expect_far(day_of<std::chrono::steady_clock>::max());
    expect_far(hour_of<std::chrono::system_clock>::max());
  });
}

// Fractions that fit, but would not if they were multiplied in their own type, which rounds up.
TEST_P(Limits, LongFractions) {
  run([] {
    const auto ends_late = [](auto d) {
      weft::chan<int> c;
      weft::go([c] {
        weft::this_thread::sleep_for(1ms);  // sleep-ok: who waits in vain shall have time to say so
        c.send(1);
      });
      EXPECT_TRUE(c.recv_for(d).has_value());
    };
    ends_late(std::chrono::duration<double, std::milli>(9223372036854.775390625));
    ends_late(std::chrono::duration<float>(9223371776.f));
    ends_late(std::chrono::duration<float, std::nano>(9e18f));
    EXPECT_EQ(weft::detail::nanoseconds_of(std::chrono::duration<double, std::nano>(0.25)), 1);
    EXPECT_EQ(weft::detail::nanoseconds_of(std::chrono::duration<double, std::micro>(1.5)), 1500);
  });
}

// A deferred function is the waiter's own work.
TEST_P(Limits, DeferredFuture) {
  run([] {
    auto f = weft::async(weft::launch::deferred, [] { return 3; });
    EXPECT_TRUE(f.wait(cancelled()));
    EXPECT_EQ(f.get(), 3);
  });
}

WEFT_OVER_PROCS(Limits);

}  // namespace
