// chan/: queues, the lock, hooks, claims, and that blocking allocates nothing.
#include "chan/chan_core.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <weft/chan.h>
#include <weft/go.h>
#include <weft/select.h>
#include <weft/wait_group.h>

#include "base/tls.h"
#include "chan/channel.h"
#include "gmp/m.h"
#include "gmp/wait_claim.h"
#include "support/fixture.h"
#include "support/waiting.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// A sanitizer has its own.
#if !WEFT_TEST_TSAN && !WEFT_TEST_ASAN
// NOLINTBEGIN: counted, and otherwise as ever
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
// NOLINTEND
#endif

namespace weft::rt {
namespace {

struct item {
  cell<item*> next{};
  cell<item*> prev{};
  cell<bool> queued{false};
};

TEST(ChanQueue, FirstInFirstOutAndOutOfTheMiddle) {
  chan_queue<item> q;
  item a, b, c;
  EXPECT_TRUE(q.empty());
  for (item* i : {&a, &b, &c}) q.push_back(i);
  q.remove(&b);
  EXPECT_FALSE(b.queued.get());
  EXPECT_EQ(q.first(), &a);
  q.remove(&a);
  EXPECT_EQ(q.first(), &c);
  q.push_back(&b);
  q.remove(&c);
  EXPECT_EQ(q.first(), &b);
  q.remove(&b);
  EXPECT_TRUE(q.empty());
  q.push_back(&a);
  EXPECT_EQ(q.first(), &a);
}

TEST(ChanLock, ExcludesThreads) {
  chan_lock lock;
  // Read and written in two steps that only the lock joins. Atomic, since TSan does not see the lock.
  std::atomic<long> n{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < test::scaled(20000, 500); ++i) {
        const unseen here;  // as all of a channel is accessed
        lock.lock();
        n.store(n.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        lock.unlock();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(n, 4L * test::scaled(20000, 500));
  EXPECT_FALSE(lock.held());
}

TEST(ChanLock, BusyIsNotWaitedForWithoutEnd) {
  chan_lock lock;
  EXPECT_TRUE(lock.try_lock_spinning());
  EXPECT_FALSE(lock.try_lock_spinning());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock_spinning());
  lock.unlock();
}

TEST(WaitClaim, OnceUntilReset) {
  wait_claim claim;
  EXPECT_FALSE(claim.taken());
  EXPECT_TRUE(claim.take());
  EXPECT_TRUE(claim.taken());
  EXPECT_FALSE(claim.take());
  claim.reset();
  EXPECT_TRUE(claim.take());
  waiter w;
  EXPECT_TRUE(w.take());
  EXPECT_TRUE(w.take()) << "without a claim there is nobody else";
  w.claim = &claim;
  EXPECT_FALSE(w.take());
}

// A channel with a hook that offers a value when somebody looks, as a timer's does.
struct counting_hook : chan_hook {
  counting_hook() {
    before_receive = [](chan_hook* h) {
      auto* self = static_cast<counting_hook*>(h);
      ++self->looks;
      if (self->due) {
        self->due = false;
        long v = 7;
        EXPECT_TRUE(chan_offer(self->c, &v));
      }
    };
    blocked = [](chan_hook* h, int change) { static_cast<counting_hook*>(h)->waiting += change; };
    released = [](chan_hook* h) noexcept { static_cast<counting_hook*>(h)->gone = true; };
  }
  channel* c = nullptr;
  std::atomic<bool> due{false}, gone{false};
  std::atomic<int> looks{0}, waiting{0};
};

class ChanHook : public test::over_procs {};

TEST_P(ChanHook, LooksBlocksAndGoes) {
  counting_hook hook;
  run([&] {
    hook.c = chan_make(detail::element_of<long>, 1, &hook);
    const auto c = detail::channel_access::adopt<weft::recv_chan<long>>(hook.c);
    EXPECT_EQ(c.size(), 0u);
    EXPECT_EQ(c.capacity(), 0u);
    EXPECT_FALSE(c.try_recv());
    EXPECT_EQ(hook.looks, 1);
    hook.due = true;
    EXPECT_EQ(c.recv(), 7);
    EXPECT_EQ(hook.waiting, 0);
    hook.due = true;
    EXPECT_EQ(weft::select(weft::otherwise(), weft::recv(c)), 1u);
    // Nothing there: it blocks, and is counted.
    weft::wait_group wg;
    wg.go([&] { EXPECT_EQ(c.recv(), 8); });
    EXPECT_TRUE(test::eventually([&] { return hook.waiting == 1; }));
    long v = 8;
    EXPECT_TRUE(chan_offer(hook.c, &v));
    wg.wait();
    EXPECT_EQ(hook.waiting, 0);
    const weft::chan<int> other;
    wg.go([&] { weft::select(weft::recv(c), weft::recv(other)); });
    EXPECT_TRUE(test::eventually([&] { return hook.waiting == 1; }));
    other.send(1);
    wg.wait();
    EXPECT_EQ(hook.waiting, 0);
    // One value fits; it can be thrown away.
    EXPECT_TRUE(chan_offer(hook.c, &v));
    EXPECT_FALSE(chan_offer(hook.c, &v));
    EXPECT_TRUE(chan_drain(hook.c));
    EXPECT_FALSE(chan_drain(hook.c));
    EXPECT_FALSE(c.try_recv());
    EXPECT_FALSE(hook.gone);
  });
  EXPECT_TRUE(hook.gone);
}

class ChanBlocking : public test::over_procs {};

// Neither sending, nor receiving, nor selecting allocates, whether it waits or not.
TEST_P(ChanBlocking, AllocatesNothing) {
  run([] {
    const weft::chan<int> there, back, side(2);
    weft::wait_group wg;
    wg.go([&] {
      for (int i = 0; i < 200; ++i) {
        std::optional<int> got;
        weft::select(weft::recv(there, [&](std::optional<int> v) { got = v; }), weft::recv(side));
        back.send(*got);
      }
    });
    for (int i = 0; i < 50; ++i) {  // until everything that is made once is made
      there.send(i);
      back.recv();
    }
    const long before = allocations;
    for (int i = 50; i < 200; ++i) {
      there.send(i);
      back.recv();
    }
    EXPECT_EQ(allocations, before);
    wg.wait();
  });
}

class ChanThrows : public test::over_procs {};

// Where a receiver lets a sender's value in, its exception ends in the user's part: he could be frozen there, and whoever
// is inside waits for nobody.
TEST_P(ChanThrows, ExceptionsEndOutside) {
  static std::atomic<bool> throws;
  static std::atomic<int> ended_outside;
  struct thrown {
    thrown() = default;
    thrown(const thrown&) = delete;
    thrown& operator=(const thrown&) = delete;
    ~thrown() { ended_outside += current_m()->border.outside() ? 1 : 0; }
  };
  struct value {
    explicit value(int n) : number(n) {}
    value(value&& other) noexcept(false) : number(other.number) {
      if (number == 2 && throws.exchange(false)) throw thrown();
    }
    value& operator=(value&&) = delete;
    int number;
  };
  ended_outside = 0;
  run([] {
    const weft::chan<value> c(1);
    c.send(value(1));
    weft::wait_group sender;
    sender.go([&] { c.send(value(2)); });
    ASSERT_TRUE(test::eventually([] { return test::somebody_waits_in("chan send"); }));
    throws = true;
    EXPECT_EQ(c.recv()->number, 1);
    EXPECT_FALSE(throws);
    EXPECT_EQ(c.recv()->number, 2) << "he has tried again";
    sender.wait();
  });
  EXPECT_EQ(ended_outside, 1);
}

WEFT_OVER_PROCS(ChanThrows);
WEFT_OVER_PROCS(ChanHook);
WEFT_OVER_PROCS(ChanBlocking);

}  // namespace
}  // namespace weft::rt
