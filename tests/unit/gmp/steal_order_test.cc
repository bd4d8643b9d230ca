// gmp/steal_order.h. [ST-1]; Go: TestStealOrder
#include "gmp/steal_order.h"

#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace weft::rt {
namespace {

TEST(StealOrder, VisitsEveryPOnce) {
  for (std::uint32_t n = 1; n <= 64; ++n) {
    for (std::uint32_t r = 0; r < 500; ++r) {
      std::vector<bool> visited(n);
      std::uint32_t visits = 0;
      for (steal_order::walk w(r, n); !w.done(); w.next()) {
        ASSERT_LT(w.position(), n);
        ASSERT_FALSE(visited[w.position()]) << w.position() << " twice, r=" << r << " n=" << n;
        visited[w.position()] = true;
        ++visits;
      }
      ASSERT_EQ(visits, n);
    }
  }
}

// Every start and every stride coprime to n comes up, and nothing else.
TEST(StealOrder, DistinctSeedsGiveDistinctWalks) {
  for (std::uint32_t n = 1; n <= 64; ++n) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> walks;
    for (std::uint32_t r = 0; r < n * n; ++r) {
      const steal_order::walk w(r, n);
      EXPECT_EQ(std::gcd(w.stride(), n), 1u);
      EXPECT_LE(w.stride(), n);
      walks.emplace(w.position(), w.stride());
    }
    std::uint32_t coprimes = 0;
    for (std::uint32_t i = 1; i <= n; ++i) coprimes += std::gcd(i, n) == 1 ? 1 : 0;
    EXPECT_EQ(walks.size(), n * coprimes) << n;
  }
}

TEST(StealOrder, LargeNumbers) {
  for (const std::uint32_t n : {1024u, 4096u, 1000u, 9973u}) {
    for (const std::uint32_t r : {0u, 1u, 12345678u, 0xffffffffu, 0x80000000u}) {
      std::vector<bool> visited(n);
      for (steal_order::walk w(r, n); !w.done(); w.next()) visited[w.position()] = true;
      for (std::uint32_t i = 0; i < n; ++i) ASSERT_TRUE(visited[i]);
    }
  }
}

}  // namespace
}  // namespace weft::rt
