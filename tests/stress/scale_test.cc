// Numbers: very many goroutines alive at once, and very many one after the other without growth.
//   WEFT_SCALE_LIVE      alive at once (default 100,000; the full size is 1,000,000)
//   WEFT_SCALE_SEQUENCE  one after the other (default 1,000,000; the full size is 10,000,000)
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <weft/go.h>
#include <weft/run.h>
#include <weft/runtime.h>
#include <weft/thread.h>
#include <weft/wait_group.h>

#include "support/fixture.h"
#include "support/resident.h"

namespace {

using weft::test::resident_kib;

class Scale : public weft::test::over_procs {};

// A thread sanitizer allows a few thousand fibers, and an emulator's patience is short.
int size(const char* variable, int usual, int most_under_tsan) {
  const char* text = std::getenv(variable);
  const int n = text != nullptr ? std::atoi(text) : usual;
  if (WEFT_TEST_TSAN && n > most_under_tsan) return most_under_tsan;
  return weft::test::emulated() ? n / 20 : n;
}
int live_size() { return size("WEFT_SCALE_LIVE", 100'000, 2'000); }
int sequence_size() { return size("WEFT_SCALE_SEQUENCE", 1'000'000, 50'000); }

// Created, run, parked, woken and ended.
TEST_P(Scale, ManyAlive) {
  const int n = live_size();
  const long before = resident_kib();
  run([&] {
    weft::wait_group gate, parked, ended;
    std::atomic<long> sum{0};
    gate.add(1);
    for (int i = 0; i < n; ++i) {
      parked.add(1);
      ended.go([&, i] {
        sum += i;
        parked.done();
        gate.wait();
        sum -= i;
      });
    }
    parked.wait();
    EXPECT_EQ(weft::runtime::num_goroutine(), n + 1);
    EXPECT_EQ(sum, static_cast<long>(n) * (n - 1) / 2);
    std::printf("%d alive: %.2f KiB each\n", n,
                static_cast<double>(resident_kib() - before) / static_cast<double>(n));
    gate.done();
    ended.wait();
    EXPECT_EQ(sum, 0);
  });
}

void expect_no_growth(long kib) {
  constexpr long kMost = weft::test::kMemoryIsOurs ? 8 * 1024 : 1024 * 1024;
  EXPECT_LT(kib, kMost) << "KiB more at the end than after a tenth";
}

// In batches, so that the queues overflow now and then; memory is looked at after a tenth, when
// everything has its size, and at the end.
TEST_P(Scale, ManyInSequence) {
  const int n = sequence_size();
  std::atomic<long> ran{0};
  long early = 0;
  run([&] {
    constexpr int kBatch = 1000;
    weft::wait_group wg;
    for (int i = 0; i < n; i += kBatch) {
      for (int k = 0; k < kBatch; ++k) wg.go([&ran] { ++ran; });
      wg.wait();
      if (i <= n / 10) early = resident_kib();
    }
  });
  const long grown = resident_kib() - early;
  EXPECT_EQ(ran, (n + 999) / 1000 * 1000);
  expect_no_growth(grown);
  std::printf("%ld goroutines, %+ld KiB\n", ran.load(), grown);
}

// The same one by one: spawn, join, and again.
TEST_P(Scale, ManyJoined) {
  const int n = sequence_size() / 4;
  long early = 0;
  run([&] {
    for (int i = 0; i < n; ++i) {
      int x = 0;
      weft::thread([&x] { x = 1; }).join();
      ASSERT_EQ(x, 1);
      if (i <= n / 10) early = i % 1000 == 0 ? resident_kib() : early;
    }
  });
  expect_no_growth(resident_kib() - early);
}

WEFT_OVER_PROCS(Scale);

}  // namespace
