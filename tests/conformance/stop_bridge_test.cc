// Between contexts and std::stop_token while several parties stop, cancel and let go at once, on goroutines
// and on plain threads: everybody hears of it once, nothing is touched after its end (AddressSanitizer), and
// nothing is left (the fixture).
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/stop_token.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using weft::context;
using weft::test::eventually;

class StopBridge : public weft::test::over_procs {};

constexpr int kRounds = 40;

// Starts all of them at the same time; one runs on a plain thread.
template <class OnThread, class... F>
void at_once(OnThread on_thread, F... f) {
  weft::latch start(sizeof...(F) + 1);
  weft::latch over(1);
  std::thread thread([&] {
    start.arrive_and_wait();
    on_thread();
    over.count_down();
  });
  weft::wait_group wg;
  (wg.go([&start, f = std::move(f)]() mutable {
    start.arrive_and_wait();
    f();
  }),
   ...);
  wg.wait();
  over.wait();  // as a goroutine, so that nobody's processor is held
  thread.join();
}

}  // namespace

// A token stops a context while that is cancelled and dropped.
TEST_P(StopBridge, StopAgainstCancelAndRelease) {
  run([] {
    for (int i = 0; i < kRounds; ++i) {
      auto source = std::make_unique<std::stop_source>();
      auto [ctx, cancel] = weft::with_stop_token(context::background(), source->get_token());
      auto owner = std::make_shared<weft::cancellable<weft::cancel_func>>(
          weft::cancellable<weft::cancel_func>{std::move(ctx), std::move(cancel)});
      const auto done = owner->ctx.done();
      auto second = owner;
      auto third = owner;
      at_once(
          [&] {
            source->request_stop();
            source.reset();
          },
          [o = std::move(second)] { o->cancel(); },
          [o = std::move(third)] {
            o->ctx.done().recv();
            EXPECT_EQ(o->ctx.err(), std::errc::operation_canceled);
          },
          [o = std::move(owner)]() mutable { o.reset(); });
      EXPECT_TRUE(done.try_recv().closed());
    }
  });
}

// Goroutines only: the token is asked while the context is cancelled by other means, or right after.
TEST_P(StopBridge, CancelAgainstLateStop) {
  run([] {
    for (int i = 0; i < kRounds; ++i) {
      std::stop_source source;
      auto [ctx, cancel] = weft::with_stop_token(context::background(), source.get_token());
      auto [inner, cancel_inner] = weft::with_cancel(ctx);
      weft::latch start(3);
      std::atomic<int> first{0};
      weft::wait_group wg;
      wg.go([&, &stop = cancel] {
        start.arrive_and_wait();
        stop();
      });
      wg.go([&] {
        start.arrive_and_wait();
        first += source.request_stop() ? 1 : 0;
      });
      wg.go([&, &seen = inner] {
        start.arrive_and_wait();
        seen.done().recv();
        first += source.request_stop() ? 1 : 0;
        EXPECT_TRUE(seen.err());
      });
      wg.wait();
      EXPECT_EQ(first, 1);
      EXPECT_EQ(inner.err(), std::errc::operation_canceled);
    }
  });
}

// The request is all that ends it: the last handles go while its callback runs.
TEST_P(StopBridge, ReleaseWhileStopping) {
  run([] {
    for (int i = 0; i < kRounds; ++i) {
      std::stop_source source;
      auto bridged = weft::with_stop_token(context::background(), source.get_token());
      const auto done = bridged.ctx.done();
      std::optional<weft::cancellable<weft::cancel_func>> last(std::move(bridged));
      at_once([&] { source.request_stop(); }, [&last] { last.reset(); }, [&done] { done.recv(); });
      EXPECT_TRUE(done.try_recv().closed());
    }
  });
}

// A context stops tokens while callbacks come and go, and the context itself goes.
TEST_P(StopBridge, CancelAgainstCallbacks) {
  run([] {
    std::atomic<int> heard{0};
    for (int i = 0; i < kRounds; ++i) {
      auto [ctx, cancel] = weft::with_cancel(context::background());
      const std::stop_token token = weft::stop_token_of(ctx);
      auto own = std::make_shared<context>(std::move(ctx));
      auto second = own;
      weft::chan<int> stays(1);
      const std::stop_callback callback(token, [&] { stays.send(1); });
      const auto come_and_go = [token, &heard] {
        for (int k = 0; k < 20; ++k) {
          const std::stop_callback passing(token, [&heard] { ++heard; });
        }
      };
      at_once(
          come_and_go, come_and_go, [&stop = cancel] { stop(); },
          [o = std::move(second)] { EXPECT_TRUE(weft::stop_token_of(*o).stop_possible()); },
          [o = std::move(own)]() mutable { o.reset(); });
      EXPECT_EQ(stays.recv(), 1);
      EXPECT_TRUE(token.stop_requested());
    }
  });
}

// There and back again: a token that stops a context that stops a token.
TEST_P(StopBridge, Chain) {
  run([] {
    for (int i = 0; i < kRounds; ++i) {
      std::stop_source first;
      auto [outer, cancel_outer] = weft::with_stop_token(context::background(), first.get_token());
      auto [inner, cancel_inner] =
          weft::with_stop_token(outer, weft::stop_token_of(outer));  // twice the same news
      const std::stop_token last = weft::stop_token_of(inner);
      at_once([&] { first.request_stop(); }, [&stop = cancel_inner] { stop(); },
              [&c = inner] { c.done().recv(); });
      EXPECT_TRUE(eventually([&] { return last.stop_requested(); }));
    }
  });
}

namespace {

// A value whose destructor parks.
struct slow_to_go {
  explicit slow_to_go(std::atomic<int>* g) : gone(g) {}
  slow_to_go(slow_to_go&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
  ~slow_to_go() {
    if (gone != nullptr) {
      for (int i = 0; i < 3; ++i) weft::gosched();
      ++*gone;
    }
  }
  std::atomic<int>* gone;
};
struct slow_key {
  using type = slow_to_go;
};

}  // namespace

// The last reference to a value goes with the cancellation. If that parked inside the token's callback, the
// goroutine that takes the callback off would wait for it as a thread, with the only processor.
TEST_P(StopBridge, ValueThatParksAsItGoes) {
  run([] {
    std::atomic<int> gone{0};
    for (int i = 0; i < kRounds; ++i) {
      weft::latch over(1);
      weft::jthread thread([&](const std::stop_token&) { over.wait(); });
      auto [ctx, cancel] = weft::with_stop_token(context::background(), thread.get_stop_token());
      std::vector<weft::recv_chan<weft::unit>> done;
      for (int k = 0; k < 3; ++k) {
        auto [inner, unused] =
            weft::with_cancel(weft::with_value<slow_key>(ctx, slow_to_go(&gone)));
        done.push_back(inner.done());
      }
      thread.request_stop();
      for (const auto& d : done) d.recv();
      over.count_down();
    }
    EXPECT_TRUE(eventually([&] { return gone == 3 * kRounds; }));
  });
}

WEFT_OVER_PROCS(StopBridge);
