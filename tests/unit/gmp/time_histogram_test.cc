// Go: TestTimeHistogram, TestTimeHistogramMetricsBuckets
#include "gmp/time_histogram.h"

#include <gtest/gtest.h>

namespace weft::rt {
namespace {

using h = time_histogram;

TEST(TimeHistogram, Bounds) {
  EXPECT_EQ(h::kBuckets, 160);
  EXPECT_EQ(h::lower_bound(0), 0);
  EXPECT_EQ(h::lower_bound(1), 64);
  EXPECT_EQ(h::lower_bound(4), 256);
  EXPECT_EQ(h::lower_bound(5), 320);
  EXPECT_EQ(h::lower_bound(8), 512);
  EXPECT_EQ(h::lower_bound(9), 640);
  EXPECT_EQ(h::lower_bound(h::kBuckets), std::int64_t{1} << 47);
}

TEST(TimeHistogram, EveryBucketBeginsWhereTheOneBeforeEnds) {
  for (int i = 0; i < h::kBuckets; ++i) {
    EXPECT_EQ(h::bucket_of(h::lower_bound(i)), i);
    EXPECT_EQ(h::bucket_of(h::lower_bound(i + 1) - 1), i);
  }
}

TEST(TimeHistogram, UnderflowAndOverflow) {
  time_histogram counts;
  counts.record(-1);
  counts.record(0);
  counts.record((std::int64_t{1} << 47) - 1);
  counts.record(std::int64_t{1} << 47);
  counts.record_shared(INT64_MAX);
  EXPECT_EQ(counts.count(-1), 1u);
  EXPECT_EQ(counts.count(0), 1u);
  EXPECT_EQ(counts.count(h::kBuckets - 1), 1u);
  EXPECT_EQ(counts.count(h::kBuckets), 2u);
}

}  // namespace
}  // namespace weft::rt
