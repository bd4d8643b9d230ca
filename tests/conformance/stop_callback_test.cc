// jthread and std::stop_callback: the C++ library knows by the thread's id who runs a callback, so
// request_stop() keeps its goroutine on one thread, and that thread to itself.
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/condition_variable.h>
#include <weft/go.h>
#include <weft/mutex.h>
#include <weft/run.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/patience.h"

namespace {

using weft::test::eventually;
using weft::test::eventually_hogging;

class StopCallback : public weft::test::over_procs {};

using callback = std::stop_callback<std::function<void()>>;

long thread_now() { return syscall(SYS_gettid); }

void idle_until_stopped(const std::stop_token& stop) {
  while (!stop.stop_requested()) weft::gosched();
}

// Nobody else runs on the thread of a callback that is parked.
TEST_P(StopCallback, HasItsThreadToItself) {
  run([] {
    weft::jthread t(idle_until_stopped);
    long before = 0, after = 0, other = 0;
    const callback cb(t.get_stop_token(), [&] {
      before = thread_now();
      weft::wait_group done;
      done.go([&other] { other = thread_now(); });
      done.wait();
      after = thread_now();
    });
    EXPECT_TRUE(t.request_stop());
    EXPECT_NE(before, 0);
    EXPECT_EQ(after, before);
    EXPECT_NE(other, before);
    // … and afterwards it is shared again.
    long here = thread_now();
    bool met = false;
    const bool in_time = eventually([&] {
      weft::wait_group done;
      done.go([&] { met = met || thread_now() == here; });
      done.wait();
      met = met || thread_now() != here;
      here = thread_now();
      return met;
    });
    EXPECT_TRUE(in_time) << "the goroutine is still alone on its thread";
  });
}

// The same as SwitchState.ForcedThreadChange; the callback then removes itself.
TEST_P(StopCallback, MayRemoveItselfAfterItHasParked) {
  run([] {
    for (int i = 0; i < weft::test::scaled(50, 5); ++i) {
      weft::jthread t(idle_until_stopped);
      std::optional<callback> cb;
      bool ran = false;
      cb.emplace(t.get_stop_token(), [&] {
        std::atomic<bool> back{false};
        weft::wait_group gate, ended;
        gate.add(1);
        ended.go([&] {
          gate.done();
          EXPECT_TRUE(eventually_hogging([&] { return back.load(); }));
        });
        gate.wait();
        back = true;
        ended.wait();
        ran = true;
        cb.reset();
      });
      t.request_stop();
      EXPECT_TRUE(ran);
      EXPECT_FALSE(cb.has_value());
    }
  });
}

// Whoever removes a callback that runs waits for its end, although it is parked now and then.
TEST_P(StopCallback, IsAwaitedByWhoeverRemovesIt) {
  run([] {
    for (int i = 0; i < weft::test::scaled(200, 10); ++i) {
      weft::jthread t(idle_until_stopped);
      std::atomic<bool> entered{false}, finished{false};
      std::optional<callback> cb;
      cb.emplace(t.get_stop_token(), [&] {
        entered = true;
        for (int k = 0; k < 20; ++k) weft::gosched();
        finished = true;
      });
      weft::wait_group removed;
      removed.go([&] {
        EXPECT_TRUE(eventually([&] { return entered.load(); }));
        cb.reset();
        EXPECT_TRUE(finished) << "removed while it runs";
      });
      t.request_stop();
      removed.wait();
    }
  });
}

// One that computes in its callback is frozen there, so that another one runs; that one takes the callback off,
// which waits as a thread, with the only P. It loses the P, and the first one goes on.
TEST_P(StopCallback, IsAwaitedWhileItsRequesterIsFrozen) {
  run([] {
    for (weft::test::budget rounds(20); rounds.next();) {
      std::stop_source source;
      std::atomic<bool> entered{false}, removing{false}, finished{false};
      std::optional<callback> cb;
      cb.emplace(source.get_token(), [&] {
        entered = true;
        while (!removing) asm volatile("");
        finished = true;
      });
      weft::wait_group removed;
      removed.go([&] {
        EXPECT_TRUE(eventually([&] { return entered.load(); }));
        removing = true;
        cb.reset();
        EXPECT_TRUE(finished) << "removed while it runs";
      });
      EXPECT_TRUE(source.request_stop());
      removed.wait();
    }
  });
}

// The same for the callback of a wait with a token, beside others that compute: it is taken off by whoever
// was notified meanwhile.
TEST_P(StopCallback, OfAWaitBesideHogs) {
  run([&] {
    std::atomic<bool> stop{false};
    weft::wait_group hogs;
    for (int i = 0; i < procs(); ++i) {
      hogs.go([&stop] {
        while (!stop) asm volatile("");
      });
    }
    for (weft::test::budget rounds(40); rounds.next();) {
      std::stop_source source;
      weft::mutex lock;
      weft::condition_variable_any changed;
      bool ready = false;
      weft::wait_group ended;
      for (int i = 0; i < 3; ++i) {
        ended.go([&] {
          std::unique_lock held(lock);
          changed.wait(held, source.get_token(), [&] { return ready; });
        });
      }
      ended.go([&] { source.request_stop(); });
      ended.go([&] {
        const std::lock_guard held(lock);
        ready = true;
        changed.notify_all();
      });
      ended.wait();
    }
    stop = true;
    hogs.wait();
  });
}

WEFT_OVER_PROCS(StopCallback);

}  // namespace
