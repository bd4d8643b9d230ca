// How often something took how long: Go's histogram of times, by powers of two with four steps each.
//
//   [0, 64) [64, 128) [128, 192) [192, 256) [256, 320) … [7/4 * 2^46, 2^47) ns, less than 0, and more
//
// A counter has one writer (its P's owner, or whoever holds a lock), or it is shared: record() and
// record_shared(). Anybody may read; sums are approximate while others write.
// Go: runtime/histogram.go timeHistogram
#pragma once

#include <bit>
#include <cstdint>

#include "base/atomic.h"

namespace weft::rt {

class time_histogram {
 public:
  static constexpr int kSubBuckets = 4;
  static constexpr int kMinBits = 9;   // below 2^8 ns there is one power
  static constexpr int kMaxBits = 48;  // from 2^47 ns on it overflows
  static constexpr int kBuckets = (kMaxBits - kMinBits + 1) * kSubBuckets;

  // The counter for a time, 0 … kBuckets - 1; -1 below, kBuckets above.
  static constexpr int bucket_of(std::int64_t ns) {
    if (ns < 0) return -1;
    const auto value = static_cast<std::uint64_t>(ns);
    const int width = std::bit_width(value);
    const int bits = width < kMinBits ? kMinBits : width;
    const int power = width < kMinBits ? 0 : width - kMinBits + 1;
    if (power > kMaxBits - kMinBits) return kBuckets;
    const auto step = static_cast<int>((value >> (bits - 3)) % kSubBuckets);
    return power * kSubBuckets + step;
  }
  // Where a counter begins, in ns; kBuckets: where the overflow does.
  static constexpr std::int64_t lower_bound(int bucket) {
    const int power = bucket / kSubBuckets;
    const std::int64_t step = bucket % kSubBuckets;
    if (power == 0) return step << (kMinBits - 3);
    const std::int64_t begin = std::int64_t{1} << (power + kMinBits - 2);
    return begin + step * (begin / kSubBuckets);
  }

  // By the only writer.
  void record(std::int64_t ns) {
    atomic<std::uint64_t>& c = counter(bucket_of(ns));
    // order: TH0 relaxed, statistics
    c.store(c.load(WEFT_ORDER(TH0, relaxed)) + 1, WEFT_ORDER(TH0, relaxed));
  }
  void record_shared(std::int64_t ns) {
    counter(bucket_of(ns)).fetch_add(1, WEFT_ORDER(TH0, relaxed));  // order: TH0 statistics
  }

  // -1: too small; kBuckets: too large.
  std::uint64_t count(int bucket) const {
    // order: TH0 relaxed, statistics
    return counts_[bucket + 1].load(WEFT_ORDER(TH0, relaxed));
  }

 private:
  atomic<std::uint64_t>& counter(int bucket) { return counts_[bucket + 1]; }

  atomic<std::uint64_t> counts_[kBuckets + 2] = {};
};

}  // namespace weft::rt
