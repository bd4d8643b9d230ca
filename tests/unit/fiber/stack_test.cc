// fiber/stack.h: the pool. Guards have their own tests (guard_test.cc).
#include "fiber/stack.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <errno.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "fiber/sanitizer.h"
#include "os/memory.h"
#include "os/test_hooks.h"
#include "support/patience.h"

namespace weft::rt {
namespace {

/// A pool that has never been used. Its mappings stay: pools are not made to be destroyed.
stack_pool& fresh_pool() {
  static std::vector<std::unique_ptr<stack_pool>> pools;
  return *pools.emplace_back(std::make_unique<stack_pool>());
}

class StackTest : public testing::Test {
 protected:
  void SetUp() override { os::test_hooks.reset(); }
  void TearDown() override { os::test_hooks.reset(); }
};

std::vector<stack> take_all(stack_pool& pool, std::size_t count) {
  std::vector<stack> taken(count);
  std::size_t got = 0;
  while (got < count) {
    const std::size_t more = pool.take(taken.data() + got, count - got);
    if (more == 0) break;
    got += more;
  }
  taken.resize(got);
  return taken;
}

std::size_t resident_pages(const std::byte* lo, const std::byte* hi) {
  const auto bytes = static_cast<std::size_t>(hi - lo);
  std::vector<unsigned char> map(bytes / page_size());
  EXPECT_EQ(mincore(const_cast<std::byte*>(lo), bytes, map.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(map.begin(), map.end(), [](int x) { return x & 1; }));
}

TEST_F(StackTest, GivesAtLeastOneAndAtMostWhatWasAskedFor) {
  stack_pool& pool = fresh_pool();
  std::array<stack, 100> taken;
  const std::size_t got = pool.take(taken.data(), taken.size());
  EXPECT_GE(got, 1u);
  EXPECT_LE(got, taken.size());
  for (std::size_t i = 0; i < got; ++i) {
    EXPECT_TRUE(taken[i]);
    EXPECT_EQ(taken[i].size(), kStackReserve - round_to_pages(kGuardBytes));
  }
  EXPECT_EQ(pool.stats().live, got);
  pool.give(taken.data(), got);
  EXPECT_EQ(pool.stats().live, 0u);
}

// A table of translations is indexed by the low bits of the page's number.
TEST_F(StackTest, TopsMeetInNoFewSetsOfTheTlb) {
  constexpr std::uintptr_t kSets = 128;
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 512);
  std::set<std::uintptr_t> sets;
  for (const stack& s : taken) {
    sets.insert((reinterpret_cast<std::uintptr_t>(s.hi) - 1) / page_size() % kSets);
  }
  EXPECT_GE(sets.size(), kSets / 2);
  pool.give(taken.data(), taken.size());
}

TEST_F(StackTest, StacksAreWritableFromEndToEndAndDisjoint) {
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 300);
  ASSERT_EQ(taken.size(), 300u);
  std::map<std::byte*, std::byte*> ranges;
  for (const stack& each : taken) {
    *each.lo = std::byte{1};
    each.hi[-1] = std::byte{2};
    ranges[each.lo] = each.hi;
  }
  ASSERT_EQ(ranges.size(), taken.size());
  std::byte* last_end = nullptr;
  for (auto [lo, hi] : ranges) {
    EXPECT_GE(lo - kGuardBytes, last_end);
    last_end = hi;
  }
}

TEST_F(StackTest, ReusesTheHottestFirst) {
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 5);
  for (const stack& each : taken) pool.give(&each, 1);
  for (std::size_t i = taken.size(); i-- > 0;) {
    stack again;
    ASSERT_EQ(pool.take(&again, 1), 1u);
    EXPECT_EQ(again.hi, taken[i].hi);
  }
  pool.give(taken.data(), taken.size());  // a batch: the last of it is the hottest
  std::array<stack, 5> batch;
  ASSERT_EQ(pool.take(batch.data(), 5), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(batch[i].hi, taken[4 - i].hi);
}

TEST_F(StackTest, AUsedStackComesBeforeAnUntouchedOne) {
  stack_pool& pool = fresh_pool();
  stack used;
  ASSERT_EQ(pool.take(&used, 1), 1u);
  EXPECT_GT(pool.stats().idle, 0u) << "the rest of the batch";
  pool.give(&used, 1);
  stack again;
  ASSERT_EQ(pool.take(&again, 1), 1u);
  EXPECT_EQ(again.hi, used.hi);
}

TEST_F(StackTest, FewGoroutinesCostFewGuards) {
  stack_pool& pool = fresh_pool();
  ASSERT_EQ(take_all(pool, 3).size(), 3u);
  const stack_stats stats = pool.stats();
  EXPECT_LE(stats.installed + stats.protected_ + stats.unguarded, 4u);
}

TEST_F(StackTest, AnUntouchedStackHasNoPage) {
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 1000);
  for (const stack& each : taken) EXPECT_EQ(resident_pages(each.lo, each.hi), 0u);
  taken[0].hi[-1] = std::byte{1};
  EXPECT_EQ(resident_pages(taken[0].lo, taken[0].hi), 1u) << "no huge pages";
  pool.give(taken.data(), taken.size());
  EXPECT_EQ(resident_pages(taken[1].lo, taken[1].hi), 0u) << "nothing is stored in idle stacks";
}

// Mapping a chunk keeps everybody else from installing guards: it must not happen every few hundred stacks.
TEST_F(StackTest, ManyStacksComeFromFewMappings) {
  stack_pool& pool = fresh_pool();
  ASSERT_EQ(take_all(pool, 4096).size(), 4096u);
  EXPECT_LE(pool.stats().chunks, 7u) << "64, and then as many as there are";
}

TEST_F(StackTest, TrimReturnsThePagesOfIdleStacks) {
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 40);
  for (const stack& each : taken) each.hi[-1] = each.lo[0] = std::byte{1};
  pool.give(taken.data(), 39);
  EXPECT_EQ(resident_pages(taken[0].lo, taken[0].hi), 2u);
  pool.trim();
  for (std::size_t i = 0; i < 39; ++i) EXPECT_EQ(resident_pages(taken[i].lo, taken[i].hi), 0u);
  EXPECT_EQ(resident_pages(taken[39].lo, taken[39].hi), 2u) << "still in use";
  const stack_stats stats = pool.stats();
  EXPECT_EQ(stats.clean, stats.idle);
  const auto again = take_all(pool, 39);
  EXPECT_EQ(again[0].hi, taken[38].hi) << "order is kept";
  EXPECT_EQ(again[0].hi[-1], std::byte{0});
  for (const stack& each : again) each.hi[-1] = std::byte{1};
  pool.give(again.data(), again.size());
  pool.trim();
  for (const stack& each : again) EXPECT_EQ(resident_pages(each.lo, each.hi), 0u) << "once more";
}

TEST_F(StackTest, TrimSparesTheHottest) {
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 40);
  for (const stack& each : taken) each.hi[-1] = std::byte{1};
  pool.give(taken.data(), taken.size());
  pool.trim(10);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(resident_pages(taken[i].lo, taken[i].hi), 0u) << i;
  for (std::size_t i = 30; i < 40; ++i)
    EXPECT_EQ(resident_pages(taken[i].lo, taken[i].hi), 1u) << i;
}

TEST_F(StackTest, ColoursSpreadAndStayInTheTopPage) {
  stack_pool& pool = fresh_pool();
  std::map<std::ptrdiff_t, int> colours;
  const auto taken = take_all(pool, 1600);
  for (const stack& each : taken) {
    const auto offset = each.hi - static_cast<std::byte*>(coloured_top(each));
    EXPECT_GE(offset, 64) << "perf wants something above";
    EXPECT_LE(offset, 16 * 64);
    EXPECT_EQ(offset % 64, 0);
    EXPECT_EQ(coloured_top(each), coloured_top(each)) << "derived from the address alone";
    ++colours[offset];
  }
  EXPECT_EQ(colours.size(), 16u);
  for (auto [offset, count] : colours) {
    EXPECT_GT(count, 50) << offset;
    EXPECT_LT(count, 200) << offset;
  }
}

TEST_F(StackTest, MemoryFailureIsReportedAndLeavesThePoolUsable) {
  stack_pool& pool = fresh_pool();
  os::test_hooks.force_mmap_fail_after.set(0);
  stack out;
  errno = 0;
  EXPECT_EQ(pool.take(&out, 1), 0u);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_FALSE(pool.take_sized(1 << 20));
  EXPECT_EQ(errno, ENOMEM);
  os::test_hooks.force_mmap_fail_after.set(1);  // a list of idle stacks, but no chunk
  EXPECT_EQ(pool.take(&out, 1), 0u);
  EXPECT_EQ(errno, ENOMEM);
  os::test_hooks.reset();
  errno = 0;
  EXPECT_EQ(pool.take(&out, 1), 1u);
  EXPECT_EQ(errno, 0);
  out.hi[-1] = std::byte{1};
  pool.give(&out, 1);
}

TEST_F(StackTest, IdleStacksAreServedWhenTheKernelHasNoMore) {
  stack_pool& pool = fresh_pool();
  const auto taken = take_all(pool, 10);
  pool.give(taken.data(), taken.size());
  os::test_hooks.force_mmap_fail_after.set(0);
  const auto again = take_all(pool, 100000);
  EXPECT_GE(again.size(), 10u);
  EXPECT_LT(again.size(), 100000u);
}

TEST_F(StackTest, ScarceAddressSpaceGivesSmallerChunks) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "they need the address space themselves";
  EXPECT_EXIT(
      {
        std::size_t used_pages = 0;
        std::ifstream("/proc/self/statm") >> used_pages;
        const rlim_t room = used_pages * page_size() + 3 * stack_stride();  // far from a chunk
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = room;
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
        stack_pool& pool = fresh_pool();
        stack out;
        _exit(pool.take(&out, 1) == 1 ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

// The next chunk would be of a gigabyte.
TEST_F(StackTest, ScarceAddressSpaceGivesSmallerChunksAlsoWhenThereAreMany) {
  if (WEFT_ASAN || WEFT_TSAN) GTEST_SKIP() << "they need the address space themselves";
  if (weft::test::emulated()) GTEST_SKIP() << "qemu keeps the limit to itself";
  EXPECT_EXIT(
      {
        stack_pool& pool = fresh_pool();
        const std::size_t many = take_all(pool, 8192).size();
        std::size_t used_pages = 0;
        std::ifstream("/proc/self/statm") >> used_pages;
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = used_pages * page_size() + 100 * stack_stride();
        if (many != 8192 || setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
        const std::size_t more = take_all(pool, 1000).size();
        _exit(more >= 64 && more < 1000 ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(StackTest, SizedStacksHaveTheSizeAskedFor) {
  stack_pool& pool = fresh_pool();
  for (std::size_t bytes : {std::size_t{1}, std::size_t{65536}, std::size_t{3} << 20}) {
    const stack made = pool.take_sized(bytes);
    ASSERT_TRUE(made);
    EXPECT_GE(made.size(), bytes);
    EXPECT_LT(made.size(), bytes + page_size());
    made.lo[0] = made.hi[-1] = std::byte{1};
    EXPECT_EQ(pool.stats().sized, 1u);
    pool.give_sized(made);
    EXPECT_EQ(pool.stats().sized, 0u);
  }
  const stack large = pool.take_sized(std::size_t{16} << 20);
  large.hi[-1] = std::byte{1};
  EXPECT_EQ(resident_pages(large.lo, large.hi), 1u) << "no huge pages";
  pool.give_sized(large);
  EXPECT_FALSE(pool.take_sized(SIZE_MAX));
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(StackTest, GivingBackTooManyIsFatal) {
  stack_pool& pool = fresh_pool();
  stack out;
  ASSERT_EQ(pool.take(&out, 1), 1u);
  pool.give(&out, 1);
  EXPECT_EXIT(pool.give(&out, 1), testing::ExitedWithCode(2), "more stacks given back than taken");
}

TEST_F(StackTest, AHundredThousandGuardedStacksNeedFewMappings) {
  constexpr std::size_t kMany = 100000;
  stack_pool& pool = fresh_pool();
  auto taken = take_all(pool, 1);
  ASSERT_EQ(taken.size(), 1u);
  // Before all the others: their mappings would stay, and leave none to the next test.
  if (pool.stats().installed != 1 + pool.stats().idle) {
    pool.give(taken.data(), taken.size());
    GTEST_SKIP() << "no MADV_GUARD_INSTALL here";
  }
  for (const stack& one : take_all(pool, kMany - 1)) taken.push_back(one);
  ASSERT_EQ(taken.size(), kMany);
  const stack_stats stats = pool.stats();
  EXPECT_EQ(stats.live, kMany);
  EXPECT_EQ(stats.installed, kMany + stats.idle);
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  EXPECT_LT(lines, 1000u);
  pool.give(taken.data(), taken.size());
}

TEST_F(StackTest, ThreadsNeverShareAStack) {
  stack_pool& pool = fresh_pool();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      std::vector<stack> mine;
      std::uint32_t random = 17 + static_cast<std::uint32_t>(t);
      for (int i = 0; i < 2000; ++i) {
        random = random * 1664525 + 1013904223;
        if (random >> 31 != 0 || mine.empty()) {
          std::array<stack, 8> got;
          const std::size_t count = pool.take(got.data(), 1 + (random >> 20) % 8);
          for (std::size_t k = 0; k < count; ++k) {
            got[k].hi[-1] = std::byte(t);
            mine.push_back(got[k]);
          }
        } else {
          ASSERT_EQ(mine.back().hi[-1], std::byte(t));
          pool.give(&mine.back(), 1);
          mine.pop_back();
        }
        if (i % 500 == 0) pool.trim();
      }
      pool.give(mine.data(), mine.size());
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(pool.stats().live, 0u);
}

}  // namespace
}  // namespace weft::rt
