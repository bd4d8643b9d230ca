// A stop callback that cancels a context must wait for a channel's lock, and gives up its processor
// meanwhile. Whoever takes the callback off then waits for it to end; if as a thread, then with the only
// processor, for ever.
#include <atomic>
#include <thread>

#include <weft/context.h>
#include <weft/go.h>
#include <weft/latch.h>
#include <weft/stop_token.h>
#include <weft/thread.h>

#include "chan/channel.h"
#include "support/fixture.h"

namespace weft::rt {
namespace {

class StopToken : public test::over_procs {};

TEST_P(StopToken, CallbackThatHasToWait) {
  run([] {
    latch over(1);
    weft::jthread asked([&](const std::stop_token&) { over.wait(); });
    auto [ctx, cancel] = with_stop_token(weft::context::background(), asked.get_stop_token());
    auto [inner, cancel_inner] = with_cancel(ctx);
    channel* done = weft::detail::context_done(context_access::node(inner));
    std::atomic<bool> held{false}, another_ran{false};
    std::thread holder([&] {
      done->lock();
      held = true;
      while (!another_ran) std::this_thread::yield();
      done->unlock();
    });
    while (!held) gosched();
    // Behind the goroutine that takes the callback off, which goes first as the newest.
    weft::go([&another_ran] { another_ran = true; });
    asked.request_stop();
    EXPECT_TRUE(ctx.err());
    EXPECT_TRUE(inner.err());
    holder.join();
    weft::detail::chan_release(done);
    over.count_down();
  });
}

// The context is cancelled by other means, and whoever does so is held up; then the token is asked to stop.
// The callback comes too late, and waits for nobody: with the only processor it would keep those waiting who
// take it off.
TEST_P(StopToken, CallbackThatComesTooLate) {
  run([] {
    std::stop_source source;
    auto [ctx, cancel] = with_stop_token(weft::context::background(), source.get_token());
    auto [inner, cancel_inner] = with_cancel(ctx);
    channel* done = weft::detail::context_done(context_access::node(inner));
    std::atomic<bool> held{false}, asked{false};
    std::thread holder([&] {
      done->lock();
      held = true;
      while (!asked) std::this_thread::yield();
      done->unlock();
    });
    while (!held) gosched();
    latch over(1);
    weft::after_func(ctx, [&] {
      source.request_stop();
      asked = true;
      over.count_down();
    });
    cancel();  // closes ctx's channel, starts that function, and waits for the lock of inner's
    EXPECT_TRUE(asked);
    EXPECT_TRUE(inner.err());
    over.wait();
    holder.join();
    weft::detail::chan_release(done);
  });
}

WEFT_OVER_PROCS(StopToken);

}  // namespace
}  // namespace weft::rt
