// gmp/run_queue.h: what a single thread can see of it, and what survives several real ones.
// Every interleaving of small cases is in tests/model/; here are the full capacity and real
// threads.
#include "gmp/run_queue.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

namespace weft::rt {
namespace {

struct item {
  int id = 0;
  int payload = 0;  // plain: TSan sees whether the queue publishes it
  std::atomic<int> taken{0};
};
using queue = run_queue<item>;

std::vector<item> make_items(int n) {
  std::vector<item> items(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) items[static_cast<std::size_t>(i)].id = i;
  return items;
}

// Go: TestSchedLocalQueue
TEST(RunQueue, ReturnsEachOnceInOrder) {
  auto q = std::make_unique<queue>();
  auto items = make_items(queue::kCapacity);
  for (std::uint32_t n = 0; n < queue::kCapacity; ++n) {
    EXPECT_EQ(q->pop(), nullptr);
    EXPECT_TRUE(q->empty());
    for (std::uint32_t i = 0; i < n; ++i) ASSERT_TRUE(q->push(&items[i]));
    EXPECT_EQ(q->size(), n);
    EXPECT_EQ(q->empty(), n == 0);
    for (std::uint32_t i = 0; i < n; ++i) {
      EXPECT_EQ(q->peek_two().first, &items[i]);
      EXPECT_EQ(q->peek_two().second, i + 1 < n ? &items[i + 1] : nullptr);
      ASSERT_EQ(q->pop(), &items[i]) << n;
    }
    EXPECT_EQ(q->peek_two().first, nullptr);
    EXPECT_EQ(q->pop(), nullptr);
    EXPECT_TRUE(q->empty());
  }
}

// Go: TestSchedLocalQueueSteal
TEST(RunQueue, StealTakesHalfAndRunsTheLast) {
  auto from = std::make_unique<queue>();
  auto to = std::make_unique<queue>();
  auto items = make_items(queue::kCapacity);
  for (std::uint32_t n = 0; n <= queue::kCapacity; ++n) {
    for (auto& it : items) it.taken = 0;
    for (std::uint32_t i = 0; i < n; ++i) ASSERT_TRUE(from->push(&items[i]));
    item* last = from->steal_into(*to);
    const std::uint32_t stolen = to->size() + (last != nullptr ? 1 : 0);
    EXPECT_EQ(stolen, n - n / 2);
    if (last != nullptr) {
      EXPECT_EQ(last, &items[stolen - 1]) << "the last one stolen is run";
      ++last->taken;
    }
    while (item* it = to->pop()) ++it->taken;
    while (item* it = from->pop()) ++it->taken;
    for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(items[i].taken, 1) << i << " of " << n;
  }
}

TEST(RunQueue, GrabTakesTheOlderHalf) {
  auto q = std::make_unique<queue>();
  auto items = make_items(5);
  for (auto& it : items) ASSERT_TRUE(q->push(&it));
  item* out[queue::kHalf];
  ASSERT_EQ(q->grab(out), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i], &items[i]);
  ASSERT_EQ(q->grab(out), 1u);
  EXPECT_EQ(out[0], &items[3]);
  EXPECT_EQ(q->size(), 1u);
}

TEST(RunQueue, TakeHalfOfAFullRingKeepsOrder) {
  auto q = std::make_unique<queue>();
  auto items = make_items(queue::kCapacity);
  item* out[queue::kHalf];
  // At several offsets, so that both halves wrap around the end of the ring.
  for (std::uint32_t offset : {0u, 1u, queue::kHalf, queue::kCapacity - 1}) {
    for (std::uint32_t i = 0; i < offset; ++i) {
      ASSERT_TRUE(q->push(&items[0]));
      ASSERT_NE(q->pop(), nullptr);
    }
    for (auto& it : items) {
      EXPECT_EQ(q->take_half(out), 0u) << "not full";
      ASSERT_TRUE(q->push(&it));
    }
    item extra;
    EXPECT_FALSE(q->push(&extra));
    ASSERT_EQ(q->take_half(out), queue::kHalf);
    for (std::uint32_t i = 0; i < queue::kHalf; ++i) ASSERT_EQ(out[i], &items[i]);
    EXPECT_TRUE(q->push(&extra));
    for (std::uint32_t i = queue::kHalf; i < queue::kCapacity; ++i) ASSERT_EQ(q->pop(), &items[i]);
    EXPECT_EQ(q->pop(), &extra);
    EXPECT_EQ(q->pop(), nullptr);
  }
}

TEST(RunQueue, BatchFillsWhatFits) {
  auto q = std::make_unique<queue>();
  auto items = make_items(queue::kCapacity + 10);
  std::vector<item*> all;
  for (auto& it : items) all.push_back(&it);
  EXPECT_EQ(q->push_batch(all.data(), 0), 0u);
  EXPECT_EQ(q->push_batch(all.data(), 10), 10u);
  EXPECT_EQ(q->push_batch(all.data() + 10, queue::kCapacity), queue::kCapacity - 10);
  EXPECT_EQ(q->push_batch(all.data(), 1), 0u);
  for (std::uint32_t i = 0; i < queue::kCapacity; ++i) ASSERT_EQ(q->pop(), all[i]);
}

TEST(RunQueue, RunnextIsOneSlotInFront) {
  for (const bool lone : {false, true}) {
    auto q = std::make_unique<queue>();
    q->set_lone(lone);
    auto items = make_items(3);
    EXPECT_EQ(q->pop_next(), nullptr);
    EXPECT_EQ(q->put_next(&items[0]), nullptr);
    EXPECT_FALSE(q->empty());
    EXPECT_EQ(q->size(), 0u) << "the ring only";
    EXPECT_EQ(q->put_next(&items[1]), &items[0]);
    ASSERT_TRUE(q->push(&items[0]));
    EXPECT_EQ(q->peek_next(), &items[1]);
    EXPECT_EQ(q->pop_next(), &items[1]);
    EXPECT_EQ(q->pop_next(), nullptr);
    EXPECT_EQ(q->pop(), &items[0]);
    EXPECT_TRUE(q->empty());
  }
}

TEST(RunQueue, StealNextNeedsTheExpectedOne) {
  queue q;
  auto items = make_items(2);
  EXPECT_EQ(q.steal_next(nullptr), nullptr);
  EXPECT_EQ(q.put_next(&items[0]), nullptr);
  EXPECT_EQ(q.steal_next(&items[1]), nullptr);
  EXPECT_EQ(q.steal_next(&items[0]), &items[0]);
  EXPECT_EQ(q.steal_next(&items[0]), nullptr);
  EXPECT_TRUE(q.empty());
}

TEST(RunQueue, DrainTakesRunnextThenTheRing) {
  queue q;
  auto items = make_items(4);
  EXPECT_EQ(q.put_next(&items[0]), nullptr);
  for (std::size_t i = 1; i < 4; ++i) ASSERT_TRUE(q.push(&items[i]));
  item* out[4];
  ASSERT_EQ(q.drain(out, 3), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i], &items[i]);
  EXPECT_EQ(q.drain(out, 4), 1u);
  EXPECT_EQ(out[0], &items[3]);
  EXPECT_TRUE(q.empty());
}

TEST(RunQueueDeathTest, StealIntoANonEmptyRingIsFatal) {
  queue from, to;
  auto items = make_items(2);
  ASSERT_TRUE(from.push(&items[0]));
  ASSERT_TRUE(to.push(&items[1]));
  EXPECT_EXIT(static_cast<void>(from.steal_into(to)), testing::ExitedWithCode(2), "not empty");
}

// Nothing may depend on head <= tail as numbers.
TEST(RunQueue, CountersWrap) {
  auto items = make_items(8);
  for (std::uint32_t before = 0; before <= 8; ++before) {
    run_queue<item, 8> q(0u - before), to(0u - before);
    for (auto& it : items) ASSERT_TRUE(q.push(&it));
    item extra;
    EXPECT_FALSE(q.push(&extra));
    EXPECT_EQ(q.size(), 8u);
    EXPECT_FALSE(q.empty());
    item* out[4];
    ASSERT_EQ(q.take_half(out), 4u);
    EXPECT_EQ(q.steal_into(to), &items[5]);
    EXPECT_EQ(to.pop(), &items[4]);
    EXPECT_EQ(q.pop(), &items[6]);
    EXPECT_EQ(q.peek_two().first, &items[7]);
    EXPECT_EQ(q.peek_two().second, nullptr);
    EXPECT_EQ(q.pop(), &items[7]);
    EXPECT_TRUE(q.empty());
  }
}

// --- with threads ----------------------------------------------------------------------------

// Lets two threads go through numbered rounds side by side. Spins before it yields, so that with
// two processors both leave at the same moment.
class rounds {
 public:
  void arrive(int round) {
    arrived_.fetch_add(1);
    for (int spins = 0; arrived_.load() < 2 * (round + 1); ++spins) {
      if (spins > 200) std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> arrived_{0};
};

#if WEFT_TSAN
constexpr int kRounds = 5'000;
constexpr int kItems = 20'000;
#else
constexpr int kRounds = 100'000;
constexpr int kItems = 300'000;
#endif

// Go: TestSchedLocalQueueEmpty. One thread puts a second element and takes one; the queue is never
// empty meanwhile, and the other thread must not be told so. Where the two have to share a processor with others a round takes
// milliseconds, and shows nothing: then a part of them will do.
void empty_never_spurious(bool first_next, bool second_next) {
  constexpr int kLeast = 1000;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  queue q;
  item a, b;
  rounds together;
  int step = 0;
  bool wrong = false;
  bool over = false;  // as the barrier says
  const auto put = [&q](item* it, bool next) {
    if (next) it = q.put_next(it);
    if (it != nullptr) {
      ASSERT_TRUE(q.push(it));
    }
  };
  std::thread observer([&] {
    rounds* r = &together;
    for (int i = 0; i < kRounds; ++i) {
      r->arrive(2 * i);
      if (over) break;
      for (int delay = i % 64; delay > 0; --delay) asm volatile("");  // meets every step in turn
      if (q.empty()) wrong = true;
      r->arrive(2 * i + 1);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    put(&a, first_next);
    over = i >= kLeast && std::chrono::steady_clock::now() > until;
    together.arrive(step++);
    if (over) break;
    put(&b, second_next);
    item* got = q.pop_next();
    if (got == nullptr) got = q.pop();
    together.arrive(step++);
    EXPECT_NE(got, nullptr);
    while (q.pop_next() != nullptr || q.pop() != nullptr) {
    }
  }
  observer.join();
  EXPECT_FALSE(wrong);
}

TEST(RunQueue, EmptyIsNeverSpurious) {
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) empty_never_spurious(first, second);
  }
}

void take(item* it, int& count) {
  EXPECT_EQ(it->payload, it->id * 2 + 1) << "half written";
  it->payload = -1;
  EXPECT_EQ(it->taken.fetch_add(1), 0) << "taken twice";
  ++count;
}

// One owner, several thieves; everything taken once, with its payload.
void owner_and_thieves(int thieves) {
  auto q = std::make_unique<queue>();
  auto items = make_items(kItems);
  std::atomic<bool> done{false};
  std::vector<int> counts(static_cast<std::size_t>(thieves) + 1, 0);
  std::vector<std::thread> threads;
  for (int t = 1; t <= thieves; ++t) {
    threads.emplace_back([&, t] {
      int& count = counts[static_cast<std::size_t>(t)];
      auto own = std::make_unique<queue>();
      while (!done.load(std::memory_order_acquire)) {
        if (item* it = q->steal_into(*own)) take(it, count);
        while (item* it = own->pop()) take(it, count);
        if (item* it = q->steal_next(q->peek_next())) take(it, count);
      }
    });
  }
  int& mine = counts[0];
  for (auto& it : items) {
    it.payload = it.id * 2 + 1;
    item* put = &it;
    if (it.id % 3 == 0) put = q->put_next(put);
    while (put != nullptr && !q->push(put)) {
      item* half[queue::kHalf];
      const std::uint32_t n = q->take_half(half);
      for (std::uint32_t i = 0; i < n; ++i) take(half[i], mine);
    }
    if (it.id % 5 == 0) {
      if (item* got = q->pop_next()) take(got, mine);
      if (item* got = q->pop()) take(got, mine);
    }
  }
  while (item* it = q->pop()) take(it, mine);
  if (item* it = q->pop_next()) take(it, mine);
  done.store(true, std::memory_order_release);
  for (auto& t : threads) t.join();
  int sum = 0;
  for (const int n : counts) sum += n;
  EXPECT_EQ(sum, kItems);
}

// Only runnext: nothing but its own orders can publish the payload.
TEST(RunQueue, RunnextThief) {
  queue q;
  auto items = make_items(kItems);
  std::atomic<bool> done{false};
  int mine = 0, theirs = 0;
  std::thread thief([&] {
    while (!done.load(std::memory_order_acquire)) {
      if (item* it = q.steal_next(q.peek_next())) take(it, theirs);
    }
  });
  for (auto& it : items) {
    it.payload = it.id * 2 + 1;
    if (item* old = q.put_next(&it)) take(old, mine);
    if (it.id % 4 == 0) {
      if (item* got = q.pop_next()) take(got, mine);
    }
  }
  done.store(true, std::memory_order_release);
  thief.join();
  if (item* got = q.pop_next()) take(got, mine);
  EXPECT_EQ(mine + theirs, kItems);
}

TEST(RunQueue, OneThief) { owner_and_thieves(1); }
TEST(RunQueue, ThreeThieves) { owner_and_thieves(3); }

}  // namespace
}  // namespace weft::rt
