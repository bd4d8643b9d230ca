// condition_variable_any with a stop token, std's three forms: what ends each of them, and what it says then.
#include <chrono>
#include <mutex>
#include <stop_token>
#include <thread>

#include <weft/condition_variable.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;
using weft::test::eventually;
using clock_type = std::chrono::steady_clock;

class CondStop : public weft::test::over_procs {
 protected:
  using lock_type = std::unique_lock<weft::mutex>;

  // For each form of waiting, with an hour's patience where it has a limit.
  template <class F>
  void each_form(F f) {
    run([&] {
      f([](auto& cv, lock_type& l, std::stop_token t, auto p) { return cv.wait(l, t, p); });
      f([](auto& cv, lock_type& l, std::stop_token t, auto p) { return cv.wait_for(l, t, 1h, p); });
      f([](auto& cv, lock_type& l, std::stop_token t, auto p) {
        return cv.wait_until(l, t, clock_type::now() + 1h, p);
      });
      f([](auto& cv, lock_type& l, std::stop_token t, auto p) {
        return cv.wait_until(l, t, std::chrono::system_clock::now() + 1h, p);
      });
    });
  }
};

// Somebody waits, and has asked the predicate at least once when make_end() is called.
template <class Thread, class Wait, class MakeEnd>
void waits(Wait wait, bool expected, MakeEnd make_end) {
  weft::mutex m;
  weft::condition_variable_any cv;
  bool waiting = false, ready = false, met = !expected;
  std::stop_source source;
  Thread t([&] {
    std::unique_lock<weft::mutex> l(m);
    met = wait(cv, l, source.get_token(), [&] {
      waiting = true;
      return ready;
    });
    EXPECT_TRUE(l.owns_lock());
    EXPECT_FALSE(m.try_lock());
  });
  // Who has asked and left the lock is waiting, or about to.
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard<weft::mutex> held(m);
    return waiting;
  }));
  make_end(m, cv, source, ready);
  t.join();
  EXPECT_EQ(met, expected);
}

TEST_P(CondStop, ArrivesWhileWaiting) {
  each_form([](auto form) {
    const auto stop = [](auto&, auto&, std::stop_source& s, bool&) {
      EXPECT_TRUE(s.request_stop());
    };
    waits<weft::thread>(form, false, stop);
    waits<std::thread>(form, false, stop);
  });
}

// The predicate is asked once more after a stop, and what it says then counts.
TEST_P(CondStop, WhenThePredicateHasBecomeTrue) {
  each_form([](auto form) {
    const auto stop = [](weft::mutex& m, auto&, std::stop_source& s, bool& ready) {
      {
        const std::lock_guard<weft::mutex> held(m);
        ready = true;
      }
      s.request_stop();  // nobody notifies
    };
    waits<weft::thread>(form, true, stop);
    waits<std::thread>(form, true, stop);
  });
}

TEST_P(CondStop, Notified) {
  each_form([](auto form) {
    const auto notify = [](weft::mutex& m, auto& cv, std::stop_source& s, bool& ready) {
      cv.notify_all();  // in vain
      {
        const std::lock_guard<weft::mutex> held(m);
        ready = true;
      }
      cv.notify_one();
      EXPECT_FALSE(s.stop_requested());
    };
    waits<weft::thread>(form, true, notify);
    waits<std::thread>(form, true, notify);
  });
}

// A stop that has come before ends them at once; a true predicate, too.
TEST_P(CondStop, CameBefore) {
  each_form([](auto form) {
    weft::mutex m;
    weft::condition_variable_any cv;
    std::unique_lock<weft::mutex> l(m);
    std::stop_source source;
    EXPECT_TRUE(form(cv, l, source.get_token(), [] { return true; }));
    EXPECT_TRUE(form(cv, l, std::stop_token(), [] { return true; }));
    source.request_stop();
    EXPECT_FALSE(form(cv, l, source.get_token(), [] { return false; }));
    EXPECT_TRUE(form(cv, l, source.get_token(), [] { return true; }));
    EXPECT_TRUE(l.owns_lock());
  });
}

TEST_P(CondStop, Limits) {
  const auto body = [] {
    weft::mutex m;
    weft::condition_variable_any cv;
    std::unique_lock<weft::mutex> l(m);
    std::stop_source source;
    const auto never = [] { return false; };
    const auto begin = clock_type::now();
    EXPECT_FALSE(cv.wait_for(l, source.get_token(), 2ms, never));
    EXPECT_GE(clock_type::now() - begin, 2ms);
    auto until = clock_type::now() + 2ms;
    EXPECT_FALSE(cv.wait_until(l, source.get_token(), until, never));
    EXPECT_GE(clock_type::now(), until);
    const auto wall = std::chrono::system_clock::now() + 2ms;
    EXPECT_FALSE(cv.wait_until(l, source.get_token(), wall, never));
    EXPECT_GE(std::chrono::system_clock::now(), wall);
    // It is asked once more when the time is over.
    int asked = 0;
    EXPECT_TRUE(cv.wait_for(l, source.get_token(), 1ms, [&] { return ++asked > 1; }));
    EXPECT_TRUE(l.owns_lock());
  };
  run(body);
  body();
}

WEFT_OVER_PROCS(CondStop);

}  // namespace
