// weft::context. [CX-1] to [CX-6]; Go: context/context_test.go, afterfunc_test.go, x_test.go
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/run.h>
#include <weft/select.h>
#include <weft/stop_token.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;
using weft::context;
using weft::with_cancel;
using weft::test::eventually;

class Context : public weft::test::over_procs {};

struct user {
  using type = std::string;
};
struct request {
  using type = int;
};
struct held {
  using type = std::shared_ptr<std::string>;
};

bool closed(const weft::recv_chan<weft::unit>& c) { return c.try_recv().closed(); }

void expect_canceled(const context& c) {
  EXPECT_TRUE(closed(c.done()));
  EXPECT_EQ(c.err(), std::errc::operation_canceled);
  EXPECT_EQ(c.err().message(), "context canceled");
}
void expect_alive(const context& c) {
  EXPECT_FALSE(c.done() && closed(c.done()));
  EXPECT_FALSE(c.err());
  EXPECT_EQ(c.cause(), nullptr);
}
std::string text_of(const std::exception_ptr& e) {
  if (e == nullptr) return "none";
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  }
}
std::exception_ptr reason(const char* text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

// Go: TestBackground
TEST_P(Context, Background) {
  run([] {
    const context c = context::background();
    EXPECT_FALSE(c.done()) << "nil";
    expect_alive(c);
    EXPECT_EQ(c.deadline(), std::nullopt);
    EXPECT_EQ(c.value<user>(), nullptr);
    EXPECT_EQ(c, context());
  });
}

// Go: TestWithCancel
TEST_P(Context, Cancel) {
  run([] {
    auto [c, cancel] = with_cancel(context::background());
    expect_alive(c);
    EXPECT_TRUE(c.done());
    EXPECT_EQ(c.done(), c.done());
    const auto before = c.done();
    cancel();
    expect_canceled(c);
    EXPECT_EQ(before, c.done()) << "the same channel, before and after";
    cancel();
    auto copy = cancel;
    copy();
    expect_canceled(c);
    EXPECT_EQ(text_of(c.cause()), "context canceled");
  });
}

// Go: TestParentFinishesChild, TestChildFinishesFirst
TEST_P(Context, ParentCancelsChildAndNotTheOtherWay) {
  run([] {
    auto [parent, cancel_parent] = with_cancel(context::background());
    auto [child, cancel_child] = with_cancel(parent);
    auto [sibling, cancel_sibling] = with_cancel(weft::with_value<user>(parent, "x"));
    cancel_child();
    expect_canceled(child);
    expect_alive(parent);
    expect_alive(sibling);
    cancel_parent();
    expect_canceled(sibling);
    auto [late, cancel_late] = with_cancel(parent);
    expect_canceled(late);
  });
}

TEST_P(Context, WakesWhoWaits) {
  run([] {
    auto [c, cancel] = with_cancel(context::background());
    weft::wait_group wg;
    std::atomic<int> woken{0};
    for (int i = 0; i < 50; ++i) {
      wg.go([&woken, c = c] {
        EXPECT_EQ(c.done().recv(), std::nullopt);
        EXPECT_EQ(c.err(), std::errc::operation_canceled);
        ++woken;
      });
    }
    std::thread plain([&, c = c] {
      c.done().recv();
      ++woken;
    });
    cancel();
    wg.wait();
    plain.join();
    EXPECT_EQ(woken, 51);
  });
}

// A receiver of done() need not keep the context: its ancestor, or its deadline, still closes it.
TEST_P(Context, DoneOutlivesTheHandle) {
  run([] {
    auto [parent, cancel] = with_cancel(context::background());
    auto of_child = with_cancel(parent).ctx.done();
    auto of_deadline = weft::with_timeout(context::background(), 1ms).ctx.done();
    EXPECT_FALSE(closed(of_child));
    cancel();
    EXPECT_TRUE(closed(of_child));
    of_deadline.recv();
  });
}

// Go: TestDeadline, TestTimeout, TestCanceledTimeout
TEST_P(Context, Deadline) {
  run([] {
    const auto at = weft::clock::now() + 5ms;
    auto [c, cancel] = weft::with_deadline(context::background(), at);
    EXPECT_EQ(c.deadline(), at);
    c.done().recv();
    EXPECT_GE(weft::clock::now(), at) << "never early";
    EXPECT_EQ(c.err(), std::errc::timed_out);
    EXPECT_EQ(c.err().message(), "context deadline exceeded");
    cancel();
    EXPECT_EQ(c.err(), std::errc::timed_out) << "first wins";

    auto [past, cancel_past] = weft::with_timeout(context::background(), -1s);
    EXPECT_EQ(past.err(), std::errc::timed_out);
    EXPECT_TRUE(closed(past.done()));

    auto [early, cancel_early] = weft::with_timeout(context::background(), 1h);
    cancel_early();
    expect_canceled(early);

    auto [outer, cancel_outer] = weft::with_deadline(context::background(), at + 1h);
    auto [inner, cancel_inner] = weft::with_deadline(outer, at + 2h);
    EXPECT_EQ(inner.deadline(), at + 1h) << "the parent's is earlier";
    auto [tighter, cancel_tighter] = weft::with_deadline(outer, at + 30min);
    EXPECT_EQ(tighter.deadline(), at + 30min);
    EXPECT_EQ(weft::with_value<user>(tighter, "x").deadline(), at + 30min);
    cancel_outer();
    expect_canceled(inner);
    expect_canceled(tighter);
  });
}

// Go: TestLayersTimeout: a deadline reaches all below it.
TEST_P(Context, DeadlineOfAnAncestor) {
  run([] {
    auto [top, cancel] = weft::with_timeout(context::background(), 2ms);
    const context below = with_cancel(weft::with_value<request>(top, 1)).ctx;
    below.done().recv();
    EXPECT_EQ(below.err(), std::errc::timed_out);
    EXPECT_EQ(top.err(), std::errc::timed_out);
  });
}

// Go: TestValues
TEST_P(Context, Values) {
  run([] {
    const context one = weft::with_value<user>(context::background(), "ann");
    const context two = weft::with_value<request>(one, 7);
    const context three = weft::with_value<user>(with_cancel(two).ctx, std::string("bob"));
    ASSERT_NE(three.value<user>(), nullptr);
    EXPECT_EQ(*three.value<user>(), "bob") << "the nearest";
    EXPECT_EQ(*three.value<request>(), 7);
    EXPECT_EQ(*one.value<user>(), "ann");
    EXPECT_EQ(one.value<request>(), nullptr);
  });
}

// Go: TestCause, in the shapes that weft has
TEST_P(Context, Cause) {
  run([] {
    auto [a, cancel_a] = weft::with_cancel_cause(context::background());
    auto [b, cancel_b] = weft::with_cancel_cause(a);
    auto [c, cancel_c] = with_cancel(b);
    cancel_b(reason("b went wrong"));
    cancel_a(reason("a went wrong"));
    cancel_b(reason("too late"));
    EXPECT_EQ(text_of(a.cause()), "a went wrong");
    EXPECT_EQ(text_of(b.cause()), "b went wrong");
    EXPECT_EQ(text_of(c.cause()), "b went wrong");
    EXPECT_EQ(a.err(), std::errc::operation_canceled);

    auto [plain, cancel_plain] = weft::with_cancel_cause(context::background());
    cancel_plain();
    EXPECT_EQ(text_of(plain.cause()), "context canceled");

    auto [slow, cancel_slow] =
        weft::with_timeout_cause(context::background(), 1ms, reason("too slow"));
    slow.done().recv();
    EXPECT_EQ(text_of(slow.cause()), "too slow");
    EXPECT_EQ(slow.err(), std::errc::timed_out);
    auto [quick, cancel_quick] =
        weft::with_timeout_cause(context::background(), 1h, reason("too slow"));
    cancel_quick();
    EXPECT_EQ(text_of(quick.cause()), "context canceled") << "not the deadline's cause";
  });
}

// Go: TestWithoutCancel
TEST_P(Context, WithoutCancel) {
  run([] {
    auto [c, cancel] = weft::with_timeout(weft::with_value<user>(context::background(), "u"), 1h);
    const context free = weft::without_cancel(c);
    cancel();
    EXPECT_FALSE(free.done());
    expect_alive(free);
    EXPECT_EQ(free.deadline(), std::nullopt);
    EXPECT_EQ(*free.value<user>(), "u");
  });
}

// Go: TestSimultaneousCancels, TestInterlockedCancels, TestLayersCancel
TEST_P(Context, TreesAreCancelledConcurrently) {
  run([] {
    for (int round = 0; round < weft::test::scaled(50, 5); ++round) {
      std::vector<weft::cancellable<weft::cancel_func>> nodes{with_cancel(context::background())};
      for (std::size_t i = 0; i < 60; ++i) nodes.push_back(with_cancel(nodes[i / 2].ctx));
      weft::wait_group wg;
      for (auto& n : nodes) wg.go([&n] { n.cancel(); });
      for (auto& n : nodes) {
        wg.go([&n] {
          n.ctx.done().recv();
          EXPECT_EQ(n.ctx.err(), std::errc::operation_canceled);
        });
      }
      wg.wait();
    }
  });
}

// No recursion: a chain of any depth on a goroutine's stack.
TEST_P(Context, DeepChain) {
  run([] {
    auto [root, cancel] = with_cancel(context::background());
    context deep = root;
    for (int i = 0; i < 20'000; ++i) deep = with_cancel(deep).ctx;
    cancel();
    expect_canceled(deep);
  });
}

// Go: TestWithCancelCanceledParent, TestWithCancelSimultaneouslyCanceledParent
TEST_P(Context, BornWhileTheParentIsCancelled) {
  run([] {
    for (int i = 0; i < weft::test::scaled(500, 20); ++i) {
      auto [parent, cancel] = weft::with_cancel_cause(context::background());
      weft::wait_group wg;
      wg.go([cancel = cancel] { cancel(reason("parent")); });
      auto child = with_cancel(parent).ctx;
      child.done().recv();
      EXPECT_EQ(text_of(child.cause()), "parent");
      wg.wait();
    }
  });
}

// The first reason counts, and a parent that is cancelled already was first, however late it is. [CX-3]
TEST_P(Context, BornTooLateOfACancelledParent) {
  run([] {
    auto [parent, cancel] = weft::with_cancel_cause(context::background());
    cancel(reason("parent"));
    for (const auto d : {-1s, 0s, 1s}) {
      const auto child = with_timeout(parent, d).ctx;
      EXPECT_EQ(child.err(), std::errc::operation_canceled);
      EXPECT_EQ(text_of(child.cause()), "parent");
      EXPECT_TRUE(closed(child.done()));
    }
    const auto late = with_timeout(context::background(), 0s).ctx;
    EXPECT_EQ(with_timeout(late, -1s).ctx.err(), std::errc::timed_out);
  });
}

// Go: TestContextErrDoneRace [CX-2]
TEST_P(Context, AnErrorMeansThatDoneIsClosed) {
  run([] {
    for (int i = 0; i < weft::test::scaled(500, 20); ++i) {
      auto [c, cancel] = with_cancel(context::background());
      weft::wait_group wg;
      wg.go([cancel = cancel] { cancel(); });
      while (!c.err()) weft::gosched();
      EXPECT_TRUE(closed(c.done()));
      wg.wait();
    }
  });
}

// Go: TestAfterFuncCalledAfterCancel, …AfterTimeout, …Immediately, …NotCalledAfterStop
TEST_P(Context, AfterFunc) {
  run([] {
    auto [c, cancel] = with_cancel(context::background());
    weft::chan<int> called(8);
    auto stop = weft::after_func(c, [called] { called.send(1); });
    auto stopped = weft::after_func(c, [called] { called.send(2); });
    EXPECT_TRUE(stopped());
    EXPECT_FALSE(stopped()) << "once";
    EXPECT_EQ(called.size(), 0u);
    cancel();
    EXPECT_EQ(called.recv(), 1);
    EXPECT_FALSE(stop()) << "it has run";
    weft::after_func(c, [called] { called.send(3); });
    EXPECT_EQ(called.recv(), 3) << "at once";
    auto never = weft::after_func(context::background(), [] { FAIL(); });
    EXPECT_TRUE(never());
    EXPECT_FALSE(never());
    auto [slow, cancel_slow] = weft::with_timeout(context::background(), 1ms);
    weft::after_func(slow, [called] { called.send(4); });
    EXPECT_EQ(called.recv(), 4);
    EXPECT_EQ(called.size(), 0u);
  });
}

// Go: TestAfterFuncCalledAsynchronously. Whoever cancels does not wait for f, however long that takes.
TEST_P(Context, AfterFuncIsCalledAsynchronously) {
  run([] {
    auto [c, cancel] = with_cancel(context::background());
    weft::chan<int> called, go_on;
    weft::wait_group ended;
    ended.add(2);
    for (int i = 0; i < 2; ++i) {
      weft::after_func(c, [called, go_on, &ended] {
        called.send(1);  // blocks: nobody receives before cancel() has returned
        go_on.recv();
        ended.done();
      });
    }
    cancel();
    EXPECT_EQ(called.recv(), 1);
    EXPECT_EQ(called.recv(), 1) << "nor does the one wait for the other";
    EXPECT_FALSE(ended.wait_for(1ms));
    go_on.close();
    ended.wait();
  });
}

// Exactly one of stop and the callback.
TEST_P(Context, StopAgainstCancel) {
  run([] {
    for (int i = 0; i < weft::test::scaled(500, 20); ++i) {
      auto [c, cancel] = with_cancel(context::background());
      std::atomic<int> ran{0};
      weft::wait_group wg;
      wg.add();
      auto stop = weft::after_func(c, [&] {
        ++ran;
        wg.done();
      });
      wg.go([cancel = cancel] { cancel(); });
      const bool prevented = stop();
      if (prevented) wg.done();
      wg.wait();
      EXPECT_EQ(ran, prevented ? 0 : 1);
    }
  });
}

// Nothing is left of contexts that were dropped without having been observed, nor of cancelled ones.
TEST_P(Context, CancelRemoves) {
  run([] {
    auto [parent, cancel] = with_cancel(context::background());
    const auto token = std::make_shared<std::string>("held");
    {
      const context child = weft::with_value<held>(with_cancel(parent).ctx, token);
      EXPECT_EQ(token.use_count(), 2);
    }
    EXPECT_EQ(token.use_count(), 1) << "dropped";
    {
      auto [child, cancel_child] = with_cancel(weft::with_value<held>(parent, token));
      child.done();
      EXPECT_EQ(token.use_count(), 2);
      cancel_child();
    }
    EXPECT_EQ(token.use_count(), 1) << "cancelled";
    {
      auto [child, cancel_child] =
          weft::with_timeout(weft::with_value<held>(context::background(), token), 1h);
      cancel_child();
    }
    EXPECT_EQ(token.use_count(), 1) << "its timer is gone";
    cancel();
  });
}

// A value whose destructor waits for another context's end.
struct patient {
  explicit patient(weft::recv_chan<weft::unit>* other) : awaits(other) {}
  patient(patient&& other) noexcept : awaits(std::exchange(other.awaits, nullptr)) {}
  ~patient() {
    if (awaits != nullptr) awaits->recv();
  }
  weft::recv_chan<weft::unit>* awaits;
};
struct patience {
  using type = patient;
};

// Nobody keeps the siblings but whoever cancels them: it lets go of none before all are cancelled.
TEST_P(Context, ValuesThatWaitForSiblingsAsTheyGo) {
  run([] {
    for (const int n : {2, 3}) {
      std::vector<weft::recv_chan<weft::unit>> done(static_cast<std::size_t>(n), nullptr);
      auto [parent, cancel] = with_cancel(context::background());
      for (std::size_t i = 0; i < done.size(); ++i) {
        patient value(&done[(i + 1) % done.size()]);
        done[i] = with_cancel(weft::with_value<patience>(parent, std::move(value))).ctx.done();
      }
      cancel();
      for (const auto& d : done) EXPECT_TRUE(closed(d));
    }
  });
}

TEST_P(Context, StopTokens) {
  run([] {
    std::stop_source source;
    auto [c, cancel] = weft::with_stop_token(context::background(), source.get_token());
    expect_alive(c);
    source.request_stop();
    c.done().recv();
    expect_canceled(c);
    auto [already, cancel_already] =
        weft::with_stop_token(context::background(), source.get_token());
    expect_canceled(already);

    auto [parent, cancel_parent] = with_cancel(context::background());
    const std::stop_token token = weft::stop_token_of(parent);
    weft::chan<int> stopped(1);
    const std::stop_callback callback(token, [&] { stopped.send(1); });
    EXPECT_FALSE(token.stop_requested());
    cancel_parent();
    EXPECT_EQ(stopped.recv(), 1);
    EXPECT_TRUE(token.stop_requested());
  });
}

// However many tokens a context hands out, it keeps one callback for them.
TEST_P(Context, StopTokensAreShared) {
  run([] {
    EXPECT_FALSE(weft::stop_token_of(context::background()).stop_possible());
    auto [c, cancel] = with_cancel(context::background());
    const context with = weft::with_value<request>(c, 1);
    const std::stop_token first = weft::stop_token_of(c);
    std::atomic<int> others{0};
    weft::wait_group wg;
    for (int i = 0; i < 50; ++i) {
      wg.go([&, &parent = c] {
        others += weft::stop_token_of(parent) == first ? 0 : 1;
        others += weft::stop_token_of(with) == first ? 0 : 1;
      });
    }
    wg.wait();
    EXPECT_EQ(others, 0);
    cancel();
    EXPECT_TRUE(eventually([&] { return first.stop_requested(); }));
  });
}

// A value that needs the processor when it goes.
struct reluctant {
  explicit reluctant(std::atomic<int>* n) : gone(n) {}
  reluctant(reluctant&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
  ~reluctant() {
    if (gone == nullptr) return;
    weft::gosched();
    ++*gone;
  }
  std::atomic<int>* gone;
};
struct reluctant_key {
  using type = reluctant;
};

// Whoever waits for done may destroy what the cancel function is part of: the call is still under way,
// and what it drops last is a value that parks.
TEST_P(Context, CancelDestroyedByWhoHeardOfIt) {
  run([] {
    constexpr int kRounds = 200;
    std::atomic<int> gone{0};
    for (int i = 0; i < kRounds; ++i) {
      auto [root, cancel_root] = with_cancel(context::background());
      auto owner = std::make_unique<weft::cancellable<weft::cancel_func>>(
          with_cancel(weft::with_value<reluctant_key>(root, reluctant(&gone))));
      const auto done = owner->ctx.done();
      weft::wait_group wg;
      for (int k = 0; k < 2; ++k) {  // leaves while it is woken
        wg.go([done] { done.recv_for(1h); });
        wg.go([ctx = owner->ctx] { weft::sleep_for(ctx, 1h); });
      }
      wg.go([&owner, done] {
        done.recv();
        owner.reset();
      });
      owner->cancel();
      wg.wait();
    }
    EXPECT_EQ(gone, kRounds);
  });
}

TEST_P(Context, SelectsBetweenWorkAndCancellation) {
  run([] {
    auto [c, cancel] = weft::with_timeout(context::background(), 1h);
    weft::chan<int> work;
    weft::go([work, cancel = cancel] {
      work.send(1);
      cancel();
    });
    std::vector<int> got;
    for (bool on = true; on;) {
      weft::select(weft::recv(work, [&](std::optional<int> v) { got.push_back(*v); }),
                   weft::recv(c.done(), [&](auto) { on = false; }));
    }
    EXPECT_EQ(got, std::vector<int>{1});
  });
}

// Channel operations and sleep, ended by a context: on goroutines and plain threads.
TEST_P(Context, EndsWaits) {
  run([] {
    auto [c, cancel] = with_cancel(context::background());
    const weft::chan<int> full(1), nil(nullptr);
    full.send(1);
    const weft::chan<std::string> empty, unread;
    std::atomic<int> ended{0};
    const std::vector<std::function<void()>> waits = {
        [&, c = c] { EXPECT_FALSE(full.send(2, c)); },
        [&, c = c] { EXPECT_FALSE(empty.recv(c)); },
        [&, c = c] { EXPECT_FALSE(unread.send("x", c)); },
        [&, c = c] { EXPECT_FALSE(nil.recv(c)); },
        [&, c = c] { EXPECT_FALSE(nil.send(1, c)); },
        [&, c = c] { EXPECT_EQ(weft::sleep_for(c, 1h), std::errc::operation_canceled); },
    };
    weft::wait_group wg;
    std::vector<std::thread> threads;
    for (const auto& wait : waits) {
      wg.go([&] { wait(), ++ended; });
      threads.emplace_back([&] { wait(), ++ended; });
    }
    weft::gosched();
    EXPECT_EQ(ended, 0);
    cancel();
    wg.wait();
    for (auto& t : threads) t.join();
    EXPECT_EQ(ended, 12);
    EXPECT_EQ(full.recv(c).has_value(), true) << "what is possible is done, cancelled or not";
    EXPECT_FALSE(full.recv(c));
    EXPECT_FALSE(full.recv(c).closed());
    full.close();
    EXPECT_TRUE(full.recv(c).closed());
    EXPECT_THROW(full.send(3, c), weft::closed_channel);
    const auto began = weft::clock::now();
    EXPECT_FALSE(weft::sleep_for(context::background(), 2ms));
    EXPECT_GE(weft::clock::now() - began, 2ms);
  });
}

// A value is received, or the wait ends: never both, never neither.
TEST_P(Context, CancelAgainstSend) {
  run([] {
    const weft::chan<int> ch;
    for (int i = 0; i < weft::test::scaled(1000, 30); ++i) {
      auto [c, cancel] = with_cancel(context::background());
      weft::wait_group wg;
      bool sent = false;
      wg.go([&, c = c] { sent = ch.send(i, c); });
      wg.go([cancel = cancel] { cancel(); });
      const auto got = ch.recv(c);
      wg.wait();
      EXPECT_EQ(sent, got.has_value());
      if (got) {
        EXPECT_EQ(*got, i);
      }
    }
  });
}

WEFT_OVER_PROCS(Context);

}  // namespace
