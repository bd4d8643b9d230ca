// One-way views of a channel: everything that a send_chan and a recv_chan can do, and nothing else.
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <weft/chan.h>
#include <weft/context.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"

namespace {

using namespace std::chrono_literals;
using weft::chan;
using weft::recv_chan;
using weft::send_chan;

class ChanViews : public weft::test::over_procs {
 protected:
  // As a goroutine, then as a plain thread.
  template <class F>
  void both(F f) {
    run(f);
    f();
  }
};

// A view is made from a channel, and never turned round.
static_assert(std::convertible_to<chan<int>, send_chan<int>>);
static_assert(std::convertible_to<chan<int>, recv_chan<int>>);
static_assert(!std::convertible_to<send_chan<int>, chan<int>>);
static_assert(!std::convertible_to<recv_chan<int>, chan<int>>);
static_assert(!std::convertible_to<send_chan<int>, recv_chan<int>>);
static_assert(!std::constructible_from<send_chan<int>, recv_chan<int>>);
static_assert(!std::constructible_from<recv_chan<int>, send_chan<int>>);
static_assert(!std::constructible_from<chan<int>, recv_chan<int>>);
static_assert(!std::constructible_from<chan<int>, send_chan<int>>);
// … nor into one of other values.
static_assert(!std::constructible_from<recv_chan<int>, chan<long>>);
static_assert(!std::constructible_from<send_chan<int>, chan<long>>);
static_assert(!std::constructible_from<recv_chan<int>, recv_chan<long>>);
static_assert(!std::constructible_from<send_chan<int>, send_chan<long>>);
static_assert(!std::constructible_from<chan<int>, chan<long>>);
template <class C>
concept receives = requires(C c) {
  c.recv();
}
|| requires(C c) { c.try_recv(); }
|| requires(C c) { c.begin(); }
|| requires(C c) { weft::recv(c); };
template <class C>
concept sends = requires(C c) {
  c.send(1);
}
|| requires(C c) { c.try_send(1); }
|| requires(C c) { c.close(); }
|| requires(C c) { weft::send(c, 1); };
static_assert(sends<send_chan<int>> && !receives<send_chan<int>>);
static_assert(receives<recv_chan<int>> && !sends<recv_chan<int>>);

TEST_P(ChanViews, TrySend) {
  both([] {
    const chan<std::unique_ptr<int>> c(1);
    const send_chan<std::unique_ptr<int>> out = c;
    auto value = std::make_unique<int>(1);
    EXPECT_TRUE(out.try_send(value));
    EXPECT_EQ(value, nullptr);
    value = std::make_unique<int>(2);
    EXPECT_FALSE(out.try_send(value));
    EXPECT_NE(value, nullptr) << "moved from only on success";
    EXPECT_FALSE(out.try_send(std::make_unique<int>(3)));
    EXPECT_EQ(**c.recv(), 1);
    EXPECT_TRUE(out.try_send(std::move(value)));
    EXPECT_EQ(**c.recv(), 2);
    EXPECT_EQ(out.capacity(), 1u);
    EXPECT_EQ(out.size(), 0u);
  });
}

TEST_P(ChanViews, SendsWithALimit) {
  both([] {
    const chan<int> c(1);
    const send_chan<int> out = c;
    EXPECT_TRUE(out.send_for(1, 1h));
    EXPECT_TRUE(c.try_recv());
    EXPECT_TRUE(out.send_until(2, std::chrono::steady_clock::now() + 1h));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(out.send_for(3, 2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(out.send_until(4, std::chrono::steady_clock::now() + 1ms));
    EXPECT_FALSE(out.send_until(5, std::chrono::system_clock::now() + 1ms));
    EXPECT_EQ(out.size(), 1u);
    EXPECT_EQ(c.recv(), 2);
    // Somebody comes while it waits.
    const chan<int> unbuffered;
    weft::thread receiver([unbuffered] {
      EXPECT_EQ(unbuffered.recv(), 6);
      EXPECT_EQ(unbuffered.recv(), 7);
    });
    EXPECT_TRUE(send_chan<int>(unbuffered).send_for(6, 1h));
    EXPECT_TRUE(send_chan<int>(unbuffered).send_until(7, std::chrono::steady_clock::now() + 1h));
    receiver.join();
  });
}

TEST_P(ChanViews, SendsWithAContext) {
  both([] {
    const chan<int> c(1);
    const send_chan<int> out = c;
    auto [ctx, cancel] = weft::with_cancel(weft::context::background());
    EXPECT_TRUE(out.send(1, ctx));
    weft::thread sender([out, ctx = ctx] { EXPECT_FALSE(out.send(2, ctx)); });
    cancel();
    sender.join();
    EXPECT_FALSE(out.send(3, ctx)) << "there is no room";
    EXPECT_EQ(c.recv(), 1);
    EXPECT_FALSE(c.try_recv());
  });
}

TEST_P(ChanViews, Close) {
  both([] {
    const chan<int> c(1);
    const send_chan<int> out = c;
    const recv_chan<int> in = c;
    weft::thread receiver([in] {
      std::optional<int> last = 1;
      while ((last = in.recv())) EXPECT_EQ(last, 5);
      EXPECT_TRUE(in.try_recv().closed());
    });
    out.send(5);
    out.close();
    receiver.join();
    EXPECT_THROW(out.send(1), weft::closed_channel);
    EXPECT_THROW(out.try_send(1), weft::closed_channel);
    EXPECT_THROW(out.send_for(1, 1h), weft::closed_channel);
    EXPECT_THROW(out.send(1, weft::context::background()), weft::closed_channel);
    EXPECT_THROW(out.close(), weft::closed_channel);
    EXPECT_THROW(weft::select(weft::send(out, 1)), weft::closed_channel);
    EXPECT_THROW(send_chan<int>(nullptr).close(), weft::nil_channel);
    EXPECT_TRUE(in.recv_for(1h).closed());
    EXPECT_TRUE(in.recv(weft::context::background()).closed());
  });
}

TEST_P(ChanViews, Iteration) {
  both([] {
    const chan<int> c;
    const recv_chan<int> in = c;
    weft::thread sender([out = send_chan<int>(c)] {
      for (int i = 0; i < 10; ++i) out.send(i);
      out.close();
    });
    std::vector<int> got;
    for (int v : in) got.push_back(v);
    sender.join();
    EXPECT_EQ(got, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    for (int v : in) ADD_FAILURE() << v << " after the end";
    EXPECT_TRUE(in.begin() == in.end());
  });
}

TEST_P(ChanViews, InSelect) {
  both([] {
    const chan<int> a(1), b;
    const send_chan<int> to_a = a, to_b = b, to_nobody = nullptr;
    const recv_chan<int> from_a = a, from_nobody = nullptr;
    bool sent = false;
    EXPECT_EQ(weft::select(weft::send(to_b, 1), weft::send(to_a, 2, [&] { sent = true; }),
                           weft::send(to_nobody, 3), weft::recv(from_nobody)),
              1u);
    EXPECT_TRUE(sent);
    EXPECT_EQ(weft::select(weft::send(to_a, 4), weft::otherwise()), 1u) << "it is full";
    EXPECT_EQ(weft::select(weft::recv(from_a, [](std::optional<int> v) { EXPECT_EQ(v, 2); })), 0u);
    // Parked at both ends, by views that live no longer than the case.
    weft::thread partner([b] { EXPECT_EQ(b.recv(), 5); });
    EXPECT_EQ(weft::select(weft::recv(recv_chan<int>(a)), weft::send(send_chan<int>(b), 5)), 1u);
    partner.join();
    EXPECT_EQ(to_a, send_chan<int>(a));
    EXPECT_NE(to_a, to_b);
  });
}

WEFT_OVER_PROCS(ChanViews);

}  // namespace
